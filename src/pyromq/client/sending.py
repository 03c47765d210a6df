"""What the ways of one producer's messages share."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.client.client import Client
from pyromq.client.delivery import Delivery
from pyromq.client.hooks import SendHooks
from pyromq.client.publications import Publications
from pyromq.client.settings import ProducerSettings


class Sending(NamedTuple):
    """``system`` are properties that all its messages have."""

    client: Client
    settings: ProducerSettings
    publications: Publications
    delivery: Delivery
    hooks: SendHooks
    system: str
