"""PyroMQ: Apache RocketMQ's message system in Python.

    from pyromq import Message, Producer

    with Producer("127.0.0.1:9876", group="orders-service") as producer:
        producer.send(Message("orders", b"42"))

``pyromq.aio`` has the same names for asyncio. A name is imported when it is first used, so ``import pyromq`` is cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would take longer to import than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from pyromq.aio import (
        EARLIEST,
        LATEST,
        BatchResult,
        ClientSettings,
        Compression,
        ConsumeFromWhere,
        ConsumeStatus,
        Credentials,
        ExpressionRefusedError,
        HeadOfLine,
        Hold,
        Message,
        MessageModel,
        MQError,
        NameServersUnreachableError,
        NoReplyError,
        NoRouteError,
        NotPreparedError,
        NoWritableQueueError,
        OrderlyResult,
        OrderlyStatus,
        ProducerSettings,
        PullConsumerSettings,
        PushConsumerSettings,
        QueueId,
        QueueSelector,
        ReceivedMessage,
        SeekTo,
        SendFailedError,
        SendHook,
        SendReceipt,
        SendStatus,
        TlsSettings,
        TopicNotFoundError,
        Transaction,
        TransactionOutcome,
        TransactionReceipt,
        at_random,
        by_sharding_key,
    )
    from pyromq.client.sync.consumers import PullConsumer, PushConsumer
    from pyromq.client.sync.faces import Admin, Client, Producer
    from pyromq.client.sync.transactions import TransactionProducer

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

_HOMES = {
    **dict.fromkeys(("Admin", "Client", "Producer"), "client.sync.faces"),
    **dict.fromkeys(("PullConsumer", "PushConsumer"), "client.sync.consumers"),
    "TransactionProducer": "client.sync.transactions",
    **{"Message": "model.message", "QueueId": "model.queue", "MQError": "errors"},
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'pyromq' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.{_HOMES.get(name, 'aio')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
