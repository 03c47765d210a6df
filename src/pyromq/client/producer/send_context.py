"""What the ways of one producer's messages share."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.client.core.client import Client
from pyromq.client.core.hooks import SendHooks
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.retrying_sender import Delivery
from pyromq.client.producer.topic_queues_table import Publications


class Sending(NamedTuple):
    """``system`` are properties that all its messages have."""

    client: Client
    settings: ProducerSettings
    publications: Publications
    delivery: Delivery
    hooks: SendHooks
    system: str
