"""PyroMQ on asyncio: the names of ``pyromq``, with methods to await and clients for ``async with``."""

from __future__ import annotations

from pyromq.client.admin import EARLIEST, LATEST, Admin
from pyromq.client.consumer.base.running_info import HeadOfLine
from pyromq.client.consumer.base.settings import PullConsumerSettings, PushConsumerSettings
from pyromq.client.consumer.pull_consumer import PullConsumer
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.client.core.client import Client
from pyromq.client.core.errors import (
    ExpressionRefusedError,
    NameServersUnreachableError,
    NoReplyError,
    NoRouteError,
    NoWritableQueueError,
    SendFailedError,
    TopicNotFoundError,
)
from pyromq.client.core.hooks import SendHook
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.settings import ClientSettings, Compression, Credentials, ProducerSettings
from pyromq.client.core.transaction import NotPreparedError, Transaction, TransactionOutcome, TransactionReceipt
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.selectors import QueueSelector, at_random, by_sharding_key
from pyromq.client.transactions.transaction_producer import TransactionProducer
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.net.tls import TlsSettings
from pyromq.wire.json.heartbeat import ConsumeFromWhere, MessageModel

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
