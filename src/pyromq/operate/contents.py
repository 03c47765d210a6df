"""What topics contain: when it came, who sent it, how long it stays."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import ConfigError, GroupNotFoundError, MQError
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.dead_letters import DeadLetterFacet
from pyromq.operate.letter_filter import DeadLetter
from pyromq.operate.reading.retention import TopicRetention, shortest
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.operate.reading.topic_history import STEPS, HistoryReader, TopicHistory
from pyromq.operate.reading.topic_senders import TopicSender, senders_of
from pyromq.operate.stores import StoreFacet
from pyromq.operate.topics import TopicFacet
from pyromq.wire.json.bodies import TopicOffset

_DAY_MS: Final = 86_400_000
_LETTERS_READ: Final = 500  # of one group
_LETTER_GROUPS_MAX: Final = 50
_OLDEST_QUEUES_MAX: Final = 64  # whose first message is looked at


class TopicLetters(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one group that were sent to this topic first: how many of those that were read, and the newest.

    ``is_cut``: the group has more letters than were read.
    """

    group: str
    count: int
    letters: tuple[DeadLetter, ...]
    is_cut: bool = False


class ContentFacet:
    """``admin.contents``: messages of topics as a whole."""

    def __init__(
        self,
        requests: AdminRequests,
        topics: TopicFacet,
        members: MemberFacet,
        stores: StoreFacet,
        dead_letters: DeadLetterFacet,
        stored: StoredMessages,
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._topics = topics
        self._members = members
        self._stores = stores
        self._dead_letters = dead_letters
        self._stored = stored
        self._histories = HistoryReader(requests)

    async def history(
        self, topic: str, *, begin_ms: int | None = None, end_ms: int | None = None, steps: int = STEPS
    ) -> TopicHistory:
        """Return how many messages and bytes were stored in each step of a time, of what is still there.

        The last day without ``begin_ms``, until now without ``end_ms``. Raises TopicNotFoundError, ConfigError.
        """
        end_ms = self._client.clock.now_ms() if end_ms is None else end_ms
        begin_ms = max(0, end_ms - _DAY_MS) if begin_ms is None else begin_ms
        if begin_ms >= end_ms or steps < 1:
            raise ConfigError("a history needs a time that begins before it ends, and at least one step")
        return await self._histories.read(topic, await self._topics.stats(topic), begin_ms, end_ms, steps)

    async def senders(self, topic: str) -> list[TopicSender]:
        """Return who sent the newest messages, those that are connected with group and client id, the latest first.

        Raises TopicNotFoundError.
        """
        held_by = await self._topics.stats(topic)
        try:
            producers = await self._members.producers()
        except MQError:  # brokers before 4.9.3 do not know the request: addresses are known all the same
            producers = {}
        return await senders_of(self._stored, held_by, producers)

    async def retention(self, topic: str) -> TopicRetention:
        """Return how old the oldest message is, what the topic takes on disk, and how long new messages are kept.

        Raises TopicNotFoundError.
        """
        held_by = await self._topics.stats(topic)
        brokers = await self._requests.directory.brokers_of(topic)
        logs = tuple(await gather([self._stores.retention(broker) for broker in brokers]))
        filled = {queue: held for queue, held in held_by.items() if held.max_offset > held.min_offset}
        looked_at = sorted(filled)[:_OLDEST_QUEUES_MAX]
        ages = await asyncio.gather(*[self._oldest_ms(queue, filled[queue]) for queue in looked_at])
        kept_ms, limit = shortest(logs)
        return TopicRetention(
            topic=topic,
            messages=sum(held.max_offset - held.min_offset for held in filled.values()),
            oldest_ms=min((age for age in ages if age), default=0),
            newest_ms=max((held.last_update_timestamp for held in filled.values()), default=0),
            bytes=await self._bytes(filled),
            kept_ms=kept_ms,
            limit=limit,
            brokers=logs,
        )

    async def _oldest_ms(self, queue: QueueId, held: TopicOffset) -> int:
        try:
            page = await self._stored.read(queue, held.min_offset, count_max=1)
        except MQError:
            return 0
        return page.messages[0].stored_ms if page.messages else 0

    async def _bytes(self, filled: dict[QueueId, TopicOffset]) -> int | None:
        """What queues take in the log, by sizes at three places of the fullest one."""
        if not filled:
            return 0
        queue = max(filled, key=lambda each: filled[each].max_offset - filled[each].min_offset)
        first, end = filled[queue].min_offset, filled[queue].max_offset
        places = sorted({first, (first + end) // 2, max(first, end - 16)})
        sizes = await asyncio.gather(*[self._histories.entry_bytes(queue, place, end - place) for place in places])
        known = [size for size in sizes if size is not None]
        if not known:
            return None
        messages = sum(held.max_offset - held.min_offset for held in filled.values())
        return round(messages * sum(known) / len(known))

    async def letters(self, topic: str, *, newest: int = 50) -> list[TopicLetters]:
        """Return dead letters of this topic by group, the most first; groups that gave up on none are left out.

        The newest 500 letters of each group are read. Raises TopicNotFoundError.
        """
        groups = (await self._topics.groups(topic))[:_LETTER_GROUPS_MAX]
        read = await gather([self._letters(group, topic, newest) for group in groups])
        return sorted((each for each in read if each.count), key=lambda each: -each.count)

    async def _letters(self, group: str, topic: str, newest: int) -> TopicLetters:
        try:
            found = await self._dead_letters.list(group, count_max=_LETTERS_READ, checked=False)
        except GroupNotFoundError:  # it was deleted; what it consumed is remembered
            found = []
        here = [letter for letter in found if letter.topic == topic]
        shown = tuple(reversed(here[-newest:])) if newest else ()
        return TopicLetters(group=group, count=len(here), letters=shown, is_cut=len(found) >= _LETTERS_READ)
