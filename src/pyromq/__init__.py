"""PyroMQ: Apache RocketMQ's message system in Python.

    from pyromq import Message, Producer, PushConsumer

    with Producer("127.0.0.1:9876", group="shop") as producer:
        producer.send(Message("orders", b"42"))

    PushConsumer("127.0.0.1:9876", group="billing", listener=bill, topics="orders").run()  # until Ctrl-C

``pyromq.App`` makes listeners of decorated functions, ``pyromq.sql`` answers questions about topics. ``pyromq.aio`` has
the other names for asyncio. The rest is in modules: ``pyromq.errors``, ``settings``, ``results`` (what listeners return
and sends say), ``selectors`` (which queue), ``hooks``, ``offsets``, ``monitoring``, ``typed``, ``testing``, ``outbox``,
``idempotent``, ``pipeline``. Names are imported when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would take longer to import than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from pyromq.aio import (
        ConsumeStatus,
        Credentials,
        Message,
        MQError,
        OrderlyStatus,
        QueueId,
        ReceivedMessage,
        SendReceipt,
        Transaction,
        TransactionOutcome,
    )
    from pyromq.app import App
    from pyromq.client.sync.consumers import PullConsumer, PushConsumer, SimpleConsumer
    from pyromq.client.sync.faces import Client, Producer
    from pyromq.client.sync.transactions import TransactionProducer
    from pyromq.operate.sync_admin import Admin
    from pyromq.pipeline.tables.answer import sql

    __version__: str

__all__ = [
    "Admin",
    "App",
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
    "__version__",
    "sql",
]

_HOMES = {
    **dict.fromkeys(("Client", "Producer"), "client.sync.faces"),
    **dict.fromkeys(("PullConsumer", "PushConsumer", "SimpleConsumer"), "client.sync.consumers"),
    "Admin": "operate.sync_admin",
    "TransactionProducer": "client.sync.transactions",
    "App": "app",
    "sql": "pipeline.tables.answer",
    **{"Message": "model.message", "QueueId": "model.queue", "MQError": "errors"},
}
_MODULES = (
    *("aio", "errors", "hooks", "idempotent", "monitoring", "offsets", "outbox", "pipeline", "results", "selectors"),
    *("settings", "testing", "typed"),
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"pyromq.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'pyromq' has no attribute {name!r}{_advice(name)}")
    if name == "__version__":
        value: Any = _version()
    else:
        value = getattr(import_module(f"pyromq.{_HOMES.get(name, 'aio')}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    """That of the installed distribution; pyproject.toml is the one place that has it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyromq")
    except PackageNotFoundError:  # a source tree on the path that was never installed
        return "0+unknown"


def _advice(name: str) -> str:
    """Where a name lives that is public, but not here."""
    from importlib import import_module

    if not name[:1].isupper() and name not in ("at_random", "by_sharding_key"):
        return ""
    for module in ("settings", "results", "selectors", "hooks", "offsets", "monitoring", "errors", "typed", "testing"):
        if name in vars(import_module(f"pyromq.{module}")):
            return f": it is in pyromq.{module}"
    return ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
