"""A ledger of acknowledged messages: where each one is, by its id, as the broker and those who consumed tell.

    consumed    a listener finished it, and wrote so down itself before anybody was told
    dead        %DLQ%group
    retrying    %RETRY%group behind the group's progress, or waiting in SCHEDULE_TOPIC_XXXX or rmq_sys_wheel_timer
    queued      its own topic, behind the group's progress
    delayed     waiting at a level or for a time, for its own topic
    half        prepared, and nobody has ended the transaction
    lost        in none of them

A message counts once, in the first place that has it, so the sum is what was acknowledged. While messages move, one may
be seen in neither of two places: what seems lost is looked for again, for some seconds, before it is believed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyromq.aio import Admin
from pyromq.client.core.client import Client
from pyromq.clock import Clock
from pyromq.errors import MQError, TopicNotFoundError
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.settings import ClientSettings

PLACES = ("consumed", "dead", "retrying", "queued", "delayed", "half")
_DOUBT_S = 60.0  # a message that is due and not delivered yet is in no list; what is lost stays lost
_EVERYTHING = 1_000_000


@dataclass(frozen=True, slots=True)
class Account:
    """How many messages are in which place; ``lost`` names those that are nowhere."""

    acknowledged: int
    counts: Mapping[str, int]
    lost: frozenset[str]
    duplicates: int
    on_the_way: int  # copies that will come yet, also of what was consumed before

    @property
    def is_settled(self) -> bool:
        """Everything is consumed or dead, and nothing comes again."""
        return not self.on_the_way and self.counts["consumed"] + self.counts["dead"] == self.acknowledged

    def __str__(self) -> str:
        places = ", ".join(f"{count} {place}" for place, count in self.counts.items() if count)
        text = f"{self.acknowledged} acknowledged = {places or 'none'}; {self.duplicates} duplicates"
        text += f"; {self.on_the_way} on the way" if self.on_the_way else ""
        return text + (f"; LOST {len(self.lost)}: {sorted(self.lost)[:5]}" if self.lost else "")


def balance(acknowledged: Collection[str], consumed: Mapping[str, int], places: Mapping[str, set[str]]) -> Account:
    """Puts every message into the first place that has it. Duplicates are what listeners finished more than once."""
    left, counts = set(acknowledged), dict[str, int]()
    for place in PLACES:
        found = left & (consumed.keys() if place == "consumed" else places[place])
        counts[place] = len(found)
        left -= found
    on_the_way = sum(len(found) for place, found in places.items() if place != "dead")
    duplicates = sum(consumed.values()) - len(consumed)
    return Account(len(set(acknowledged)), counts, frozenset(left), duplicates, on_the_way)


class Ledger:
    """Of one topic and group. ``acknowledged`` grows with receipts; ``consumed`` counts what listeners finished."""

    def __init__(
        self, nameserver: str, topic: str, group: str, clock: Clock | None = None, *, doubt_s: float = _DOUBT_S
    ) -> None:
        """``doubt_s``: for how long ``account`` looks for what is in no place."""
        self._doubt_s = doubt_s
        self.nameserver, self.clock = nameserver, clock  # whose clock says what is due; the machine's when None
        self._topic, self._group = topic, group
        self.acknowledged: set[str] = set()
        self.consumed: Counter[str] = Counter()
        self.refresh: Callable[[], object] = lambda: None  # reads what consumers have written since

    async def account(self) -> Account:
        """Where everything is that is acknowledged by now; what seems lost was looked for more than once."""
        deadline = asyncio.get_running_loop().time() + self._doubt_s
        acknowledged = frozenset(self.acknowledged)
        lost = acknowledged
        async with self._admin() as admin:
            while True:
                places = await self._places(admin)
                self.refresh()  # afterwards: what has left its place meanwhile was consumed before that
                found = balance(acknowledged, self.consumed, places)
                lost &= found.lost
                if not lost or asyncio.get_running_loop().time() > deadline:
                    return replace(found, lost=lost)
                await asyncio.sleep(0.05)

    async def settled(self, timeout_s: float = 120) -> Account:
        """The account when all is consumed or dead; the last one when that does not happen in time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            if len(self.acknowledged - self.consumed.keys()) <= await self._dead_count():
                found = await self.account()
                if found.is_settled:
                    return found
            if asyncio.get_running_loop().time() > deadline:
                return await self.account()
            await asyncio.sleep(0.05)

    async def _dead_count(self) -> int:
        async with self._admin() as admin:
            try:
                stats = await admin.topics.stats(dead_letter_topic(self._group))
            except (TopicNotFoundError, MQError):
                return 0
            return sum(held.max_offset - held.min_offset for held in stats.values())

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Admin]:
        async with Client(ClientSettings(nameservers=self.nameserver), clock=self.clock) as client:
            yield Admin(client=client)

    async def _places(self, admin: Admin) -> dict[str, set[str]]:
        """In the order in which messages move, so that one that moves meanwhile is seen where it came from."""
        half = {each.message_id for each in await admin.transactions.list(self._topic)}
        waiting = await admin.delays.list(count_max=_EVERYTHING)
        own = [each for each in waiting if each.topic == self._topic]
        queued = await self._ids(admin, self._topic, unread=True)
        retrying = {each.message_id for each in own if each.group == self._group}
        retrying |= await self._ids(admin, retry_topic(self._group), unread=True)
        return {
            "half": half,
            "delayed": {each.message_id for each in own if not each.group},
            "queued": queued,
            "retrying": retrying,
            "dead": await self._ids(admin, dead_letter_topic(self._group), unread=False),
        }

    async def _ids(self, admin: Admin, topic: str, *, unread: bool) -> set[str]:
        """Of all messages of a topic, or of those that the group has not passed yet."""
        try:
            stats = await admin.topics.stats(topic)
        except TopicNotFoundError:
            return set()
        found: set[str] = set()
        for queue, held in stats.items():
            begin = (await admin.offsets.committed(self._group, queue) or 0) if unread else 0
            walk = admin.messages.walk(queue, max(begin, held.min_offset), held.max_offset)
            found |= {message.message_id async for message in walk}
        return found

    # --- what is told ---

    def read(self, files: Iterable[Path]) -> Counter[str]:
        """What consumers in processes of their own have written: one id a line, a torn last line counts for nothing."""
        self.consumed = Counter()
        for file in files:
            if file.exists():
                self.consumed.update(file.read_text().split("\n")[:-1])
        return self.consumed


def report(found: Account, record: Callable[[str, object], None]) -> None:
    """Into the counts above pytest's summary; then nothing may be lost and the sum must be right."""
    print(found)
    record("ledger messages", found.acknowledged)
    record("ledger dead letters", found.counts["dead"])
    record("ledger duplicates", found.duplicates)
    record("ledger messages lost", len(found.lost))
    assert not found.lost, str(found)
    assert sum(found.counts.values()) == found.acknowledged, str(found)
