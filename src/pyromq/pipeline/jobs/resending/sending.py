"""Rate-limited sender of ``replay`` and ``redrive``, with an outcome for each message.

A failed send is tried again for a while, then reported; the others go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError, TopicNotFoundError
from pyromq.operate.admin import Admin
from pyromq.operate.resend.engine import Resender, leaves_doubt
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing
from pyromq.operate.resend.pacing import CHUNK_MAX, Pacer
from pyromq.pipeline.core.connections import Connected, connect
from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.jobs.common.bars import Tell, silent

T = TypeVar("T")
PRODUCER: Final = "PYROMQ_PIPELINE"
Lane: TypeAlias = list[tuple[int, Outgoing]]
"""Messages that keep their order, with their numbers in a chunk."""


class PacedSender:
    """Sends copies in chunks at a rate."""

    def __init__(
        self,
        nameserver: str,
        options: Mapping[str, str],
        *,
        rate: float | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        given = {"topic": "any", **({"nameserver": nameserver} if nameserver else {}), **options}
        self._options = parse_options(given, Use.BATCH)
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._pacer = Pacer(rate, self._clock)
        self._connected: Connected | None = None
        self._missing: dict[str, str] = {}  # topics that were waited for in vain, once for all their messages

    @property
    def connected(self) -> Connected:
        if self._connected is None or not self._connected.is_usable:
            self._connected = connect(self._options)
        return self._connected

    def send_all(
        self,
        messages: Iterable[Item],
        *,
        done: int = 0,
        total: int | None = None,
        tell: Tell = silent,
    ) -> Iterator[ItemOutcome]:
        """In order, chunk by chunk; what is no message to send passes through. ``done`` were done before."""
        for chunk in chunks(messages, self.chunk):
            self.pace(chunk)
            yield from self._each(chunk, self._send)
            done += len(chunk)
            tell(done, total)

    def pace(self, chunk: Sequence[Item]) -> None:
        """Wait until the messages of a chunk may go."""
        self.pace_count(sum(isinstance(each, Outgoing) for each in chunk))

    def pace_count(self, count: int) -> None:
        """Wait until so many messages may go."""
        if wait_ms := self._pacer.wait_ms(count):
            self._sleep(wait_ms / 1000)

    @property
    def chunk(self) -> int:
        """How many messages are sent at once."""
        return self._pacer.chunk

    def look_all(self, messages: Iterable[Item]) -> Iterator[ItemOutcome]:
        """What ``send_all`` would do, without doing it."""
        for chunk in chunks(messages, CHUNK_MAX):
            yield from self._each(chunk, self._look)

    def _each(self, chunk: Sequence[Item], work: Callable[[Outgoing], Awaitable[ItemOutcome]]) -> Iterator[ItemOutcome]:
        """All at once, but for messages with the same sharding key: those go one after the other."""
        found: dict[int, ItemOutcome] = {}
        if lanes := lanes_of(enumerate(chunk)):
            self.connected.call(self.by_lanes(lanes, found, work))
        for number, each in enumerate(chunk):
            yield each if isinstance(each, ItemOutcome) else found[number]

    async def by_lanes(
        self,
        lanes: Iterable[Lane],
        found: dict[int, ItemOutcome],
        work: Callable[[Outgoing], Awaitable[ItemOutcome]] | None = None,
    ) -> None:
        """Lanes side by side, messages of a lane one after the other; what became of them is put into ``found``."""

        async def one_after_the_other(lane: Lane) -> None:
            for number, message in lane:
                found[number] = await self._surely(message, work or self._send)

        await asyncio.gather(*map(one_after_the_other, lanes))

    @property
    def admin(self) -> Admin:
        return Admin(client=self.connected.client)

    async def _surely(self, message: Outgoing, work: Callable[[Outgoing], Awaitable[ItemOutcome]]) -> ItemOutcome:
        window = RetryWindow(f"sending to topic {message.topic}", self._options.retry_ms, self._clock)
        while message.topic not in self._missing:
            try:
                return await work(message)
            except MQError as error:
                try:
                    wait_ms = window.failed(error)
                except MQError as last:
                    if not isinstance(error, TopicNotFoundError):
                        return await self._settled(message, error, str(last))
                    self._missing[message.topic] = str(last)
                    break
                message = replace(message, is_checked=message.is_checked or leaves_doubt(error))
                await asyncio.sleep(wait_ms / 1000)
        return message.source.ended(ItemStatus.FAILED, self._missing[message.topic])

    async def _settled(self, message: Outgoing, error: MQError, text: str) -> ItemOutcome:
        found = await Resender(self.admin.client, self.admin.messages, PRODUCER).settle(message, error)
        return found.ended(found.status, text) if found.status.is_problem else found

    async def _look(self, message: Outgoing) -> ItemOutcome:
        return await Resender(self.admin.client, self.admin.messages, PRODUCER).look(message)

    async def _send(self, message: Outgoing) -> ItemOutcome:
        return await Resender(self.admin.client, self.admin.messages, PRODUCER).attempt(message)


def lanes_of(numbered: Iterable[tuple[int, Item]]) -> list[Lane]:
    """Messages and their numbers, together where their order matters."""
    lanes: dict[str | int, Lane] = {}
    for number, each in numbered:
        if isinstance(each, Outgoing):
            lanes.setdefault(each.sharding_key or number, []).append((number, each))
    return list(lanes.values())


def chunks(messages: Iterable[T], size: int) -> Iterator[list[T]]:
    """Return the messages by so many."""
    chunk: list[T] = []
    for message in messages:
        chunk.append(message)
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
