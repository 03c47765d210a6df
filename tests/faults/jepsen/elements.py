"""A set that only grows: senders add elements, and what was acknowledged must be in every member's log at the end.

The final read goes to each member in turn, as the master of its time: a damaged copy that nobody reads proves nothing.
An element is lost when a member lacks it, or has another body in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final
from zlib import crc32

from pyromq.aio import Admin, Message, MQError, Producer
from pyromq.results import SendStatus
from tests.integration.waiting import until

TOPIC: Final = "elements"
QUEUES: Final = 4
_SENDERS: Final = 6
_PAUSE_S: Final = 0.005
_BODY: Final = 1_200  # bytes: some hundred elements fill a file of the log
_GROWTH_S: Final = 120


def element(number: int) -> bytes:
    """A body that proves itself: it is neither another one's, nor damaged."""
    filling = Random(number).randbytes(_BODY)
    return b"%d %d " % (number, crc32(filling)) + filling


def number_of(body: bytes) -> int | None:
    """Of the element that has this body; None when it is no element's."""
    word = body.split(b" ", 1)[0]
    if not word.isdigit() or body != element(int(word)):
        return None
    return int(word)


@dataclass
class FinalRead:
    """What one member had, as master: numbers, and how often a body was wrong."""

    member: str
    numbers: set[int]
    damaged: int
    error: str = ""  # reading ended with it

    def lacks(self, acknowledged: set[int]) -> set[int]:
        return acknowledged - self.numbers


async def read_all(nameserver: str, member: str) -> FinalRead:
    """Every element of the topic, from the first to the last, as any consumer would get them."""
    found = FinalRead(member, set(), 0)
    async with Admin(nameserver) as admin:
        try:
            for queue, place in (await admin.topics.stats(TOPIC)).items():
                async for message in admin.messages.walk(queue, place.min_offset, place.max_offset):
                    number = number_of(message.body)
                    if number is None:
                        found.damaged += 1
                    else:
                        found.numbers.add(number)
        except MQError as error:
            found.error = repr(error)
    return found


@dataclass
class ElementLoad:
    """Adds elements while it runs; ``acknowledged`` are those that were answered SEND_OK."""

    nameserver: str
    acknowledged: set[int] = field(default_factory=set)
    unpromised: int = 0  # one copy, as told, or no response at all: they may be there or not
    _numbers: Iterator[int] = field(default_factory=count)
    _sending: asyncio.Event = field(default_factory=asyncio.Event)
    _under_way: int = 0

    async def grow(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        await until(lambda: len(self.acknowledged) >= wanted, f"{more} more elements", _GROWTH_S)

    async def stop(self) -> None:
        """No send is under way any more."""
        self._sending.clear()
        await until(lambda: not self._under_way, "sends end", _GROWTH_S)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Admin(self.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=QUEUES)
        async with Producer(self.nameserver, group="adders") as producer:
            self._sending.set()
            tasks = [asyncio.ensure_future(self._send(producer)) for _ in range(_SENDERS)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, producer: Producer) -> None:
        for number in self._numbers:
            await self._sending.wait()
            self._under_way += 1
            try:
                receipt = await producer.send(Message(TOPIC, element(number)))
                if receipt.status is SendStatus.SEND_OK:
                    self.acknowledged.add(number)
                else:
                    self.unpromised += 1
            except MQError:
                self.unpromised += 1
            finally:
                self._under_way -= 1
            await asyncio.sleep(_PAUSE_S)
