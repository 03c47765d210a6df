"""PyroMQ on asyncio: the names of ``pyromq``, with methods to await and clients for ``async with``."""

from __future__ import annotations

from pyromq.client.admin import EARLIEST, LATEST, Admin
from pyromq.client.client import Client
from pyromq.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from pyromq.client.errors import (
    ExpressionRefusedError,
    NameServersUnreachableError,
    NoReplyError,
    NoRouteError,
    NoWritableQueueError,
    SendFailedError,
    TopicNotFoundError,
)
from pyromq.client.flow_control import Hold
from pyromq.client.hooks import SendHook
from pyromq.client.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.outcome import BatchResult, ConsumeStatus
from pyromq.client.producer import Producer
from pyromq.client.pull_consumer import PullConsumer
from pyromq.client.push_consumer import PushConsumer
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.running_info import HeadOfLine
from pyromq.client.selectors import QueueSelector, at_random, by_sharding_key
from pyromq.client.settings import ClientSettings, Compression, Credentials, ProducerSettings
from pyromq.client.start_offset import SeekTo
from pyromq.client.transaction import NotPreparedError, Transaction, TransactionOutcome, TransactionReceipt
from pyromq.client.transaction_producer import TransactionProducer
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.net.tls import TlsSettings
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
    "ExpressionRefusedError",
    "HeadOfLine",
    "Hold",
    "MQError",
    "Message",
    "MessageModel",
    "NameServersUnreachableError",
    "NoReplyError",
    "NoRouteError",
    "NoWritableQueueError",
    "NotPreparedError",
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
    "Transaction",
    "TransactionOutcome",
    "TransactionProducer",
    "TransactionReceipt",
    "at_random",
    "by_sharding_key",
]
