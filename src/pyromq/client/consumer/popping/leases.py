"""Leases: a received message belongs to its consumer until its invisible time is over, or it is acknowledged.

    1203 1700000000000 60000 734215009 0 broker-a 3 1210      the receipt: eight words, put together as Java clients do

A lease changes: a new invisible time comes with a new receipt. All else of a message is as it was stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.errors import ConfigError, RemoteProtocolError
from pyromq.model import property_names as names
from pyromq.model.names import pop_retry_topic, pop_retry_topic_v2
from pyromq.wire.headers.pop import ChangeInvisibleTimeResponseHeader, PopResponseHeader

_WORDS: Final = 8
_KIND_WORD: Final = 4
_RETRY, _RETRY_V2 = "1", "2"


class LeaseHolder(Protocol):
    """What a message needs of its consumer for ``with`` and ``async with``; the sync one has ``call``."""

    def entered(self, message: LeasedMessage) -> None: ...

    async def left(self, message: LeasedMessage, *, failed: bool) -> None: ...

    def call(self, message: LeasedMessage, *, failed: bool | None) -> None: ...


class Until(NamedTuple):
    """A moment by both of our clocks: the monotonic one stands still while a machine sleeps, and brokers do not."""

    monotonic_ms: int
    wall_ms: int

    @classmethod
    def after(cls, clock: Clock, span_ms: int) -> Until:
        return cls(clock.monotonic_ms() + span_ms, clock.now_ms() + span_ms)

    def left_ms(self, clock: Clock) -> int:
        return min(self.monotonic_ms - clock.monotonic_ms(), self.wall_ms - clock.now_ms())


class MessageLease(msgspec.Struct):
    """``until`` counts from the broker's response, or from when it was asked for a change."""

    receipt: str
    until: Until
    invisible_ms: int
    holder: LeaseHolder | None = None
    is_settled: bool = False  # acknowledged
    changing: asyncio.Future[None] | None = None  # a change is on its way: its receipt will be another one

    @property
    def words(self) -> list[str]:
        return self.receipt.split(" ")

    async def unchanging(self) -> None:
        """Wait for the receipt that counts."""
        while self.changing is not None:
            await asyncio.wait((self.changing,))

    def renewed(self, response: ChangeInvisibleTimeResponseHeader, offset: int, until: Until) -> None:
        words = self.words
        words[:4] = map(str, (offset, response.pop_time, response.invisible_time, response.revive_qid))
        self.receipt, self.until, self.invisible_ms = " ".join(words), until, response.invisible_time


class LeasedMessage(ReceivedMessage, frozen=True, gc=True, eq=False):
    """A message that is ours for a time: ``with message:`` (or ``async with``) acknowledges it when the block ends,
    releases it when the block raises, and keeps it ours while the block runs."""

    lease: MessageLease | None = None

    @property
    def receipt(self) -> str:
        """What acknowledges this delivery; a new invisible time comes with a new one."""
        return self.held.receipt

    @property
    def invisible_until_ms(self) -> int:
        """Until when nobody else gets it, by the broker's clock."""
        _, popped_ms, invisible_ms, *_ = self.held.words
        return int(popped_ms) + int(invisible_ms)

    @property
    def held(self) -> MessageLease:
        assert self.lease is not None, "a message is made with its lease"
        return self.lease

    async def __aenter__(self) -> Self:
        self._holder().entered(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._holder().left(self, failed=kind is not None)

    def __enter__(self) -> Self:
        self._holder().call(self, failed=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._holder().call(self, failed=kind is not None)

    def _holder(self) -> LeaseHolder:
        if self.held.holder is None:
            raise ConfigError("a listener's message is acknowledged when the listener returns, not by a with block")
        return self.held.holder


def real_topic(message: LeasedMessage, group: str) -> str:
    """The topic that acknowledgements name: retries of Apache's brokers come under the topic that was popped."""
    match message.held.words[_KIND_WORD]:
        case "1":  # _RETRY
            return pop_retry_topic(group, message.stored_topic)
        case "2":  # _RETRY_V2
            return pop_retry_topic_v2(group, message.stored_topic)
    return message.stored_topic


def give_leases(messages: Iterable[LeasedMessage], header: PopResponseHeader, until: Until, **more: Any) -> None:
    """Each message gets its receipt, from its own property or from the texts of the response.

    Raises RemoteProtocolError.
    """
    starts: dict[int, str] = {}
    for entry in filter(None, (header.start_offset_info or "").split(";")):
        kind, queue, start = _three(entry)
        if kind not in (_RETRY, _RETRY_V2):
            starts[int(queue)] = start
    middle = f"{header.pop_time} {header.invisible_time} {header.revive_qid} 0"
    for message in messages:
        receipt = message.get(names.POP_CHECK)
        if receipt is None:
            if message.queue_id not in starts:
                raise RemoteProtocolError(f"a pop response does not say where queue {message.queue_id} starts")
            receipt = f"{starts[message.queue_id]} {middle} {message.broker} {message.queue_id} {message.offset}"
        elif len(receipt.split(" ")) < _WORDS:
            raise RemoteProtocolError(f"a popped message has a receipt of less than {_WORDS} words")
        lease = MessageLease(receipt, until, header.invisible_time, **more)
        msgspec.structs.force_setattr(message, "lease", lease)


def _three(entry: str) -> tuple[str, str, str]:
    words = entry.split(" ")
    if len(words) != 3 or not words[1].isdecimal():
        raise RemoteProtocolError(f"a pop response has {entry[:80]!r} where a queue's start should be")
    return words[0], words[1], words[2]
