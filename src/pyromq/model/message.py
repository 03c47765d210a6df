"""A message as an application makes it, and what it gets back for it.

What arrives at a consumer is ``pyromq.client.core.received_message.ReceivedMessage``, which reads stored bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import msgspec

from pyromq.errors import ConfigError, MessageRefusedError
from pyromq.model.names import validate_topic
from pyromq.model.property_names import ITEM_END, NAME_END, RESERVED
from pyromq.model.queue import QueueId
from pyromq.model.times import Span, moment_ms, span_ms

DELAY_LEVEL_MAX = (1 << 31) - 1  # a broker takes a level above its last one as the last one
PRIORITY_MAX = (1 << 31) - 1
_checked_topic = lru_cache(4096)(validate_topic)


class _MoreOfAMessage(TypedDict, total=False):
    delay: Span
    deliver_at: datetime
    deliver_at_ms: int
    flag: int
    wait_stored: bool
    priority: int | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """``Message("orders", b"42", tags="new", keys="order-42", properties={"currency": "EUR"})``

    ``body`` is bytes; ``pyromq.typed.message(topic, value)`` makes it of other values. ``keys`` are what the message
    can be found by: one text of words, or several words. At most one of ``delay`` (a timedelta, or seconds),
    ``deliver_at`` (a datetime with time zone), ``delay_ms``, ``deliver_at_ms`` and ``delay_level`` (1 to the broker's
    last, usually 18) says when consumers see it; ``delay`` and ``deliver_at`` become ``delay_ms`` and
    ``deliver_at_ms``. Messages with the same ``sharding_key`` go to the same queue, and are not delayed.
    ``priority`` (0 and up, larger is more urgent) chooses the queue: the queue number is the priority, or the last one.
    Consumers in pop mode get the most urgent messages of a topic of type PRIORITY first.
    ``wait_stored=False`` asks the broker to respond before the message is on disk.

    Raises InvalidNameError or MessageRefusedError when no broker would take it, also for values of the wrong type, and
    ConfigError for a ``deliver_at`` without time zone or a ``delay`` that is none.
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    sharding_key: str = ""
    delay_level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0
    flag: int = 0
    wait_stored: bool = True
    priority: int | None = None
    delay: Span | None = None  # of the constructor alone: a message has delay_ms
    deliver_at: datetime | None = None  # of the constructor alone: a message has deliver_at_ms

    if TYPE_CHECKING:  # fields are as they are read; more may be given

        def __init__(
            self,
            topic: str,
            body: bytes | bytearray | memoryview,
            tags: str = "",
            keys: Iterable[str] = (),
            properties: Mapping[str, str] = {},
            sharding_key: str = "",
            delay_level: int = 0,
            delay_ms: int = 0,
            **more: Unpack[_MoreOfAMessage],
        ) -> None: ...

    def __post_init__(self) -> None:
        try:
            _checked_topic(self.topic)
        except TypeError:  # not hashable, so no text
            validate_topic(self.topic)
        if type(self.body) is not bytes:
            _set(self, "body", _as_bytes(self.body))
        if not self.body:
            raise MessageRefusedError(f"a message to {self.topic} has an empty body, which brokers refuse")
        if self.keys:
            _set(self, "keys", _as_keys(self.keys))
        if self.tags:
            _check_text("tag", self.tags)
            if "|" in self.tags:
                raise MessageRefusedError(f"tag {self.tags!r}: a message has one tag; || belongs in subscriptions")
        if self.properties:
            _set(self, "properties", _checked_properties(self.properties))
        if self.sharding_key:
            _check_text("sharding key", self.sharding_key)
        if self.delay is not None or self.deliver_at is not None:
            self._take_time()
        if self.delay_level or self.delay_ms or self.deliver_at_ms:
            self._check_delay()
        if self.priority is not None:
            self._check_priority()
        if self.flag and not -(1 << 31) <= self.flag < 1 << 31:
            raise MessageRefusedError(f"flag {self.flag} does not fit in 32 bits")

    def _take_time(self) -> None:
        names = ("delay", "deliver_at", "delay_ms", "deliver_at_ms", "delay_level")
        given = [name for name in names if getattr(self, name) not in (None, 0)]
        if len(given) > 1:
            raise ConfigError(f"a message is delayed in one way, not by {' and '.join(given)}")
        if self.delay is not None:
            _set(self, "delay_ms", span_ms("delay", self.delay))
        if self.deliver_at is not None:
            _set(self, "deliver_at_ms", max(1, moment_ms("deliver_at", self.deliver_at)))
        _set(self, "delay", None)
        _set(self, "deliver_at", None)

    def _check_delay(self) -> None:
        given = [name for name in ("delay_level", "delay_ms", "deliver_at_ms") if getattr(self, name)]
        for name in given:
            _check_whole_number(name, getattr(self, name))
        if len(given) > 1:
            raise MessageRefusedError(f"a message is delayed in one way, not by {' and '.join(given)}")
        if not 0 <= self.delay_level <= DELAY_LEVEL_MAX:
            raise MessageRefusedError(f"delay level {self.delay_level}: levels are numbers from 1 on")
        if self.sharding_key:
            text = f"sharding key {self.sharding_key!r} beside {given[0]}: those behind it would overtake it"
            raise MessageRefusedError(f"{text}; send it without a delay, or without the key")
        if self.delay_ms < 0 or self.deliver_at_ms < 0:
            raise MessageRefusedError(f"{given[0]} is negative; a time in the past is delivered at once")

    def _check_priority(self) -> None:
        assert self.priority is not None
        _check_whole_number("priority", self.priority)
        if not 0 <= self.priority <= PRIORITY_MAX:
            raise MessageRefusedError(f"priority {self.priority}: priorities are 0 and up, larger is more urgent")
        for name in ("sharding_key", "delay_level", "delay_ms", "deliver_at_ms"):
            if getattr(self, name):
                raise MessageRefusedError(
                    f"priority beside {name}: brokers drop the priority; send it with one of them"
                )


class SendStatus(Enum):
    """How safe a stored message is: the broker has it in every case."""

    SEND_OK = "send ok"  # as the broker's settings demand
    FLUSH_DISK_TIMEOUT = "flush disk timeout"  # not on disk within the broker's time; it will be
    FLUSH_SLAVE_TIMEOUT = "flush slave timeout"  # on no replica within the broker's time
    SLAVE_NOT_AVAILABLE = "slave not available"  # no replica there, or all too far behind


UNSURE_STATUSES: Final = frozenset((SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT))
"""Stored, but a crash, or the next master, may lack it: who must not lose a message has it sent again."""


class SendReceipt(msgspec.Struct, frozen=True, gc=False):
    """A broker's confirmation that it has the message, and where: ``queue`` and ``offset``.

    ``on_disk`` is what the broker said about it: True after its flush, False before it, None if it did not say (Apache
    RocketMQ does not: it depends on its ``flushDiskType``). ``recall_handle`` cancels a message with a time of its own.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: QueueId
    offset: int
    on_disk: bool | None = None
    transaction_id: str = ""
    region: str = ""
    recall_handle: str = ""


_set = msgspec.structs.force_setattr


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytearray | memoryview | bytes):
        return bytes(body)
    advice = ""
    if isinstance(body, str):
        advice = "; encode it first: text.encode()"
    elif isinstance(body, dict | list | tuple | int | float | bool | None):
        advice = "; encode it first: json.dumps(value).encode()"
    raise MessageRefusedError(f"the body of a message is bytes, not {type(body).__name__}{advice}")


def _as_keys(keys: Iterable[str] | str) -> tuple[str, ...]:
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        raise MessageRefusedError(f"keys must be text, or several texts, not {type(keys).__name__}")
    words = tuple(keys.split()) if isinstance(keys, str) else tuple(keys)
    for word in words:
        _check_text("key", word)
        if " " in word:
            raise MessageRefusedError(f"key {word!r} has a blank in it, which separates keys")
    return words


def _checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """A copy, so that later changes of the original do not matter."""
    if not isinstance(properties, Mapping):
        raise MessageRefusedError(f"properties must be a mapping of texts, not {type(properties).__name__}")
    for name, value in properties.items():
        _check_text("property name", name)
        _check_text(f"property {name!r}", value)
        if name in RESERVED:
            raise MessageRefusedError(f"property {name!r} is RocketMQ's own; choose another name")
    return dict(properties)


def _check_whole_number(what: str, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        return
    advice = ""
    if isinstance(value, datetime):
        advice = "; give it as deliver_at="
    elif isinstance(value, timedelta):
        advice = "; give it as delay="
    raise MessageRefusedError(f"{what} must be a whole number, not {type(value).__name__}{advice}")


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise MessageRefusedError(f"{what} must be text, not {type(text).__name__}")
    if not text:
        raise MessageRefusedError(f"{what} is empty: RocketMQ drops empty ones")
    if NAME_END in text or ITEM_END in text:
        raise MessageRefusedError(f"{what} holds \\x01 or \\x02, which separate properties")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise MessageRefusedError(f"{what} cannot be written as UTF-8: {error}") from error
