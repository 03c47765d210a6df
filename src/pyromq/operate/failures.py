"""Failures of a group by error: its dead letters, and the messages that it tries again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.settings import require_number
from pyromq.errors import BrokerError, GroupNotFoundError, TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC, retry_topic
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.group_configs import require_group
from pyromq.operate.delays import DelayFacet, due_of, last_copies
from pyromq.operate.error_groups import ErrorGroups, ScannedQueue, Told, grouped, reported_by, shares
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import StoredMessages

SCAN_MAX: Final = 10_000


class LetterQueue(NamedTuple):
    """A queue of dead letters: those up to ``done`` are redriven without a gap."""

    queue: QueueId
    begin: int
    done: int
    end: int


class FailureScans:
    """Failed messages of a group, read and put together by error."""

    def __init__(
        self, requests: AdminRequests, offsets: OffsetFacet, stored: StoredMessages, delays: DelayFacet
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._offsets = offsets
        self._stored = stored
        self._delays = delays

    async def dead_letters(self, group: str, parts: Iterable[LetterQueue], count_max: int) -> ErrorGroups:
        """Return the dead letters in these queues by error, the most frequent first. Raises ConfigError."""
        require_number("count_max", count_max, 1)
        scan, done = _Scan(self._stored, count_max), {}
        for part in parts:
            scan.add(part.queue, part.begin, part.end)
            done[part.queue] = part.done
        found = await scan.read()
        failures = [self._reported(message, is_redriven=message.offset < done[message.queue]) for message in found]
        return scan.groups(group, failures)

    async def retries(self, group: str, count_max: int) -> ErrorGroups:
        """Return messages that failed and come again by error: those that wait for their time, and those that are due.

        At most ``count_max`` messages are read, those of other groups in the delay topics included; each message is
        counted once. Raises GroupNotFoundError, ConfigError.
        """
        require_number("count_max", count_max, 1)
        topic = self._client.wire_name(retry_topic(group))
        try:
            queues = await self._requests.directory.queues(retry_topic(group))
        except TopicNotFoundError:
            await require_group(self._requests, group)
            queues = []
        scan = _Scan(self._stored, count_max)
        for queue in queues:
            held = await self._offsets.range(queue)
            scan.add(queue, max(held.min_offset, await self._done_in(group, queue)), held.max_offset)
        for broker in sorted({queue.broker for queue in queues}):
            await self._add_delays(scan, broker)
        now_ms = self._client.clock.now_ms()
        found = [
            message
            for message in await scan.read()
            if message.stored_topic == topic
            or (message.get(names.REAL_TOPIC) == topic and (due_of(message) or now_ms + 1) > now_ms)
        ]
        return scan.groups(group, [self._reported(message) for message in last_copies(found)])

    async def _done_in(self, group: str, queue: QueueId) -> int:
        try:
            return await self._offsets.committed(group, queue) or 0
        except GroupNotFoundError:
            return 0

    async def _add_delays(self, scan: _Scan, broker: str) -> None:
        """What waits at this broker, for whomever."""
        levels, delivered = len(await self._delays.levels_ms(broker)), await self._delays.offsets(broker)
        waits_at = [(QueueId(SCHEDULE_TOPIC, broker, level), delivered.get(level + 1, 0)) for level in range(levels)]
        for queue, begin in [*waits_at, (QueueId(TIMER_TOPIC, broker, 0), 0)]:
            try:
                held = await self._offsets.range(queue)
            except BrokerError:  # nothing was ever delayed that way
                continue
            if (begin := max(held.min_offset, begin)) < held.max_offset:
                scan.add(queue, begin, held.max_offset)

    def _reported(self, message: ReceivedMessage, *, is_redriven: bool = False) -> Told:
        topic = message.get(names.RETRY_TOPIC) or message.get(names.DLQ_ORIGIN_TOPIC) or ""
        return reported_by(
            message.properties,
            stored_ms=message.stored_ms,
            topic=self._client.plain_name(topic),
            place=message.offset_message_id,
            is_redriven=is_redriven,
        )


class _Scan:
    """Queues, and the newest messages in them: at most so many of all together."""

    def __init__(self, stored: StoredMessages, count_max: int) -> None:
        self._stored = stored
        self._count_max = count_max
        self._ranges: list[tuple[QueueId, int, int]] = []
        self._scanned: list[ScannedQueue] = []

    def add(self, queue: QueueId, begin: int, end: int) -> None:
        self._ranges.append((queue, begin, end))

    async def read(self) -> list[ReceivedMessage]:
        allowed = shares([max(0, end - begin) for _, begin, end in self._ranges], self._count_max)
        found: list[ReceivedMessage] = []
        for (queue, held_begin, end), share in zip(self._ranges, allowed, strict=True):
            begin = max(held_begin, end - share)
            self._scanned.append(
                ScannedQueue(
                    topic=queue.topic,
                    broker=queue.broker,
                    queue=queue.number,
                    begin=begin,
                    end=end,
                    held_begin=held_begin,
                )
            )
            found += [message async for message in self._stored.walk(queue, begin, end)]
        return found

    def groups(self, group: str, failures: Iterable[Told]) -> ErrorGroups:
        messages = list(failures)
        return ErrorGroups(
            group=group,
            errors=grouped(messages),
            messages=len(messages),
            scanned=tuple(self._scanned),
            is_cut=any(each.is_cut for each in self._scanned),
        )
