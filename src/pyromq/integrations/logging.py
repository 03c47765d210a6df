"""Logging: every line that is written while a listener runs says which message it is about.

    pyromq.integrations.logging.install()                    # every consumer made afterwards; or hooks=[LoggingHook()]
    handler.addFilter(MessageFilter())                       # %(mq_topic)s, %(mq_message_id)s, … in formats
    handler.setFormatter(JsonFormatter())                    # or JSON, a line for each record
    structlog.configure(processors=[add_message_fields, …])  # or structlog, which is not needed here

The hook puts the call into a context variable, which coroutines, their tasks and ``asyncio.to_thread`` inherit; fields
are read from the message when a line is written, not before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pyromq import hooks
from pyromq.aio import ReceivedMessage
from pyromq.hooks import ConsumeHook, Delivery

__all__ = [
    "FIELDS",
    "JsonFormatter",
    "LoggingHook",
    "MessageFilter",
    "add_message_fields",
    "install",
    "message_fields",
    "uninstall",
    "working_on",
]

FIELDS: Final = ("topic", "group", "message_id", "keys", "attempt", "queue", "offset", "messages")
"""What a line may say of its message; ``attempt`` is 1 at first, ``messages`` counts those of a batch."""

_current: ContextVar[Delivery | None] = ContextVar("pyromq_delivery", default=None)


def message_fields() -> dict[str, Any]:
    """Those of the message that this code works on; nothing outside of a listener.

    Of a batch: what its messages share, where it begins, and how many they are.
    """
    delivery = _current.get()
    if delivery is None:
        return {}
    first = delivery.messages[0]
    found: dict[str, Any] = {"topic": first.topic, "group": delivery.group}
    place = {"queue": f"{first.broker}:{first.queue_id}", "offset": first.offset}
    if len(delivery.messages) > 1:
        return {**found, **place, "messages": len(delivery.messages)}
    found["message_id"] = first.message_id
    if keys := first.keys:
        found["keys"] = " ".join(keys)
    return {**found, "attempt": first.delivery_attempt + 1, **place}


# --- around messages -------------------------------------------------------------------------------------------------


class LoggingHook(ConsumeHook):
    """``PushConsumer(…, hooks=[LoggingHook()])``: what this listener logs has fields."""

    @contextmanager
    def listening(self, delivery: Delivery) -> Iterator[None]:
        """The fields are there while the listener runs."""
        token = _current.set(delivery)
        try:
            yield
        finally:
            _current.reset(token)


@contextmanager
def working_on(messages: ReceivedMessage | Sequence[ReceivedMessage], *, group: str = "") -> Iterator[None]:
    """A block whose lines have the fields of a message, or of a batch: for loops around a pull consumer."""
    batch = [messages] if isinstance(messages, ReceivedMessage) else messages
    token = _current.set(Delivery(batch, group) if batch else None)
    try:
        yield
    finally:
        _current.reset(token)


_installed: Final = LoggingHook()


def install() -> None:
    """Consumers that are made from now on give fields to what their listeners log; a second time changes nothing."""
    hooks.install(_installed)


def uninstall() -> None:
    """Undoes ``install`` for consumers that are made from now on."""
    hooks.uninstall(_installed)


# --- into lines ------------------------------------------------------------------------------------------------------


class MessageFilter(logging.Filter):
    """Lets every record pass, with the fields as attributes: ``%(mq_topic)s``, ``%(mq_attempt)s``, …

    Add it to handlers: a filter of a logger does not see what comes from loggers below it. What a record has already
    stays; a field that there is none of is ``missing``, so that a format works outside of listeners too.
    """

    def __init__(self, *, prefix: str = "mq_", missing: object = "-") -> None:
        super().__init__()
        self._prefix = prefix
        self._missing = missing

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields of the message to a record; always true."""
        found = message_fields()
        for name in FIELDS:
            record.__dict__.setdefault(self._prefix + name, found.get(name, self._missing))
        return True


class JsonFormatter(logging.Formatter):
    """A line of JSON for each record: time, level, logger, event, the fields, and what ``extra=`` gave."""

    def format(self, record: logging.LogRecord) -> str:
        """What JSON does not know is written as its text."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **({} if (number := worker_number()) is None else {"worker": number}),
            **message_fields(),
            **{name: value for name, value in record.__dict__.items() if name not in _USUAL},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def worker_number() -> int | None:
    """The number of this process among the workers of ``pyromq run --workers``; None elsewhere."""
    number = os.environ.get("PYROMQ_WORKER", "")  # as pyromq.app.supervisor sets it
    return int(number) if number.isdecimal() else None


_USUAL: Final = frozenset((*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"))


def add_message_fields(logger: object, method_name: str, event_dict: MutableMapping[str, Any]) -> Any:
    """A processor of structlog; what the event says itself stays."""
    for name, value in message_fields().items():
        event_dict.setdefault(name, value)
    return event_dict
