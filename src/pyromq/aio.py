"""PyroMQ on asyncio: the names of ``pyromq``, with methods to await and clients for ``async with``."""

from __future__ import annotations

from pyromq.client.admin import EARLIEST, LATEST, Admin
from pyromq.client.client import Client
from pyromq.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from pyromq.client.errors import (
    NameServersUnreachableError,
    NoReplyError,
    NoRouteError,
    NoWritableQueueError,
    SendFailedError,
    TopicNotFoundError,
)
from pyromq.client.hooks import SendHook
from pyromq.client.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.outcome import BatchResult, ConsumeStatus
from pyromq.client.producer import Producer
from pyromq.client.pull_consumer import PullConsumer
from pyromq.client.push_consumer import PushConsumer
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.selectors import QueueSelector, at_random, by_sharding_key
from pyromq.client.settings import ClientSettings, Compression, Credentials, ProducerSettings, TlsSettings
from pyromq.client.start_offset import SeekTo
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.wire.heartbeat import ConsumeFromWhere, MessageModel

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "BatchResult",
    "Client",
    "ClientSettings",
    "Compression",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "Credentials",
    "MQError",
    "Message",
    "MessageModel",
    "NameServersUnreachableError",
    "NoReplyError",
    "NoRouteError",
    "NoWritableQueueError",
    "OrderlyResult",
    "OrderlyStatus",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullConsumerSettings",
    "PushConsumer",
    "PushConsumerSettings",
    "QueueId",
    "QueueSelector",
    "ReceivedMessage",
    "SeekTo",
    "SendFailedError",
    "SendHook",
    "SendReceipt",
    "SendStatus",
    "TlsSettings",
    "TopicNotFoundError",
    "at_random",
    "by_sharding_key",
]
