"""PyroMQ on asyncio: the names of ``pyromq``, with methods to await and clients for ``async with``.

    async with Producer("127.0.0.1:9876", group="shop") as producer:
        await producer.send(Message("orders", b"42"))

Arguments, methods and errors are those of ``pyromq``; listeners and checks may be coroutines.
"""

from __future__ import annotations

from pyromq.client.consumer.popping.simple_consumer import SimpleConsumer
from pyromq.client.consumer.pull_consumer import PullConsumer
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.consumer.rules.orderly_outcome import OrderlyStatus
from pyromq.client.consumer.rules.outcome import ConsumeStatus
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.settings import Credentials
from pyromq.client.core.transaction import Transaction, TransactionOutcome
from pyromq.client.producer.producer import Producer
from pyromq.client.transactions.transaction_producer import TransactionProducer
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin

__all__ = [
    "Admin",
    "Client",
    "ConsumeStatus",
    "Credentials",
    "MQError",
    "Message",
    "OrderlyStatus",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "QueueId",
    "ReceivedMessage",
    "SendReceipt",
    "SimpleConsumer",
    "Transaction",
    "TransactionOutcome",
    "TransactionProducer",
]
