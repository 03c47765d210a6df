"""What the paths of one producer's messages share."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.client.core.client import Client
from pyromq.client.core.hooks import SendHooks
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.client.producer.topic_queues_table import TopicQueuesTable


class SendContext(NamedTuple):
    """``system`` are properties that all its messages have."""

    client: Client
    settings: ProducerSettings
    topic_queues_table: TopicQueuesTable
    retrying_sender: RetryingSender
    hooks: SendHooks
    system: str
