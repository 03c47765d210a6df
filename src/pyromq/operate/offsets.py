"""Committed offsets: how far groups are, and moving them: first a plan that can be looked at, then the deed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.model.same_fields import place_fields, same_fields
from pyromq.operate.consumers.group_configs import require_group
from pyromq.operate.consumers.members import MemberFacet
from pyromq.wire.headers.shared import ResetOffsetHeader
from pyromq.wire.json.bodies import QueueProgress, TopicOffset

EARLIEST: Final = 0
LATEST: Final = -1


class OffsetMove(msgspec.Struct, frozen=True):
    """Where a group stands in a queue (None: nowhere yet), where it shall go on, and what the queue holds now.

    What has expired lies before ``first``: it is neither skipped nor delivered again.
    """

    queue: QueueId
    old: int | None
    new: int
    end: int | None = None
    first: int = 0

    @property
    def difference(self) -> int:
        """Messages that come again when negative, messages that are passed over when positive."""
        return self.new - (self.old or 0)

    @property
    def delivered_again(self) -> int:
        """Messages that the group has consumed and gets again; none where it never stood."""
        if self.old is None:
            return 0
        return max(0, (self.old if self.end is None else min(self.old, self.end)) - self.new)

    @property
    def skipped(self) -> int:
        """Messages that the group has not consumed and will not get; where it never stood, all that come before."""
        return max(0, self.new - max(self.old or 0, self.first))

    @property
    def left(self) -> int | None:
        """Messages that are left for the group afterwards; None if the end of the queue is not known."""
        return None if self.end is None else max(0, self.end - self.new)


class MoveRow(msgspec.Struct, frozen=True, kw_only=True):
    """An OffsetMove as faces show it."""

    topic: str
    broker: str
    queue: int
    old: int | None
    new: int
    difference: int
    delivered_again: int
    skipped: int
    left: int | None

    @classmethod
    def of(cls, move: OffsetMove, topic: str) -> MoveRow:
        return cls(**{**same_fields(cls, move), **place_fields(move.queue), "topic": topic})


class OffsetFacet:
    """``admin.offsets``: what queues hold, where groups stand in them, and moves of groups."""

    def __init__(self, requests: AdminRequests, members: MemberFacet) -> None:
        self._requests = requests
        self._client = requests.client
        self._members = members

    # --- looking ---

    async def range(self, queue: QueueId) -> TopicOffset:
        """Return the first offset that is still there, and the one that the next message will get."""
        brokers = self._requests.brokers
        first, end = await brokers.first_offset(queue), await brokers.end_offset(queue)
        return TopicOffset(min_offset=max(0, first), max_offset=max(0, end))

    async def ends(self, topic: str) -> dict[QueueId, int]:
        """Return where each queue of a topic ends now. Raises TopicNotFoundError."""
        return {queue: (await self.range(queue)).max_offset for queue in await self._requests.directory.queues(topic)}

    async def at(self, queue: QueueId, time_ms: int) -> int:
        """Return the first offset of a queue that was stored at that time or later."""
        return await self._requests.brokers.offset_at(queue, time_ms)

    async def progress(self, group: str, topic: str = "") -> dict[QueueId, QueueProgress]:
        """Return how far a group is in each queue: ``broker_offset - consumer_offset`` is what it has not consumed.

        Members that broadcast are asked themselves, as brokers know nothing of it; the slowest one counts.
        """
        connections = await self._members.connections_if_any(group)
        if connections is not None and connections.is_broadcast:
            return await self._progress_of_members(group, topic)
        name, topic_name = self._client.wire_name(group), self._client.wire_name(topic) if topic else ""
        masters = await self._requests.directory.masters()
        tables = await gather([self._requests.brokers.progress(address, name, topic_name) for address in masters])
        return dict(sorted((queue, progress) for table in tables for queue, progress in table.items()))

    async def _progress_of_members(self, group: str, topic: str) -> dict[QueueId, QueueProgress]:
        slowest: dict[QueueId, int] = {}
        for state in await self._members.states(group):
            for queue, info in state.queues.items():
                if not topic or queue.topic == self._client.wire_name(topic):
                    offset = max(0, info.commit_offset)
                    slowest[queue] = min(offset, slowest.get(queue, offset))
        ranges = dict(zip(slowest, await gather([self.range(queue) for queue in slowest]), strict=True))
        return {
            queue: QueueProgress(broker_offset=ranges[queue].max_offset, consumer_offset=offset, pull_offset=offset)
            for queue, offset in sorted(slowest.items())
        }

    async def committed(self, group: str, queue: QueueId) -> int | None:
        """Return where a group stands in a queue; None if it never said so. Raises GroupNotFoundError."""
        return await self._requests.brokers.committed(self._client.wire_name(group), queue)

    # --- moving ---

    async def commit(self, group: str, queue: QueueId, offset: int) -> None:
        """Write an offset of a group as one of its members would. Raises GroupNotFoundError."""
        await self._requests.brokers.commit(self._client.wire_name(group), queue, offset)

    async def clone(self, from_group: str, to_group: str, topic: str) -> None:
        """Let a group go on where another one stands. Raises GroupNotFoundError."""
        named = [self._client.wire_name(each) for each in (from_group, to_group, topic)]
        addresses = (await self._requests.directory.brokers_of(topic)).values()
        await gather([self._requests.brokers.clone_offsets(address, *named) for address in addresses])

    async def reset(
        self, group: str, topic: str, *, to_ms: int = LATEST, queue: QueueId | None = None, offset: int | None = None
    ) -> dict[QueueId, int]:
        """Move a group to the messages of a time, LATEST or EARLIEST, or one queue of it to an offset.

        Returns where it goes on, by queue. Raises ConfigError, also for a group whose members broadcast.
        """
        await self._require_clustering(group)
        return await self._reset(group, topic, to_ms, queue, offset)

    async def carry_out(self, group: str, moves: Iterable[OffsetMove]) -> None:
        """Move the group as planned; members that are connected follow at once. Raises GroupNotFoundError."""
        await self._require_clustering(group)
        for move in moves:
            await self._reset(group, move.queue.topic, LATEST, move.queue, move.new)

    async def _reset(
        self, group: str, topic: str, to_ms: int, queue: QueueId | None, offset: int | None
    ) -> dict[QueueId, int]:
        if (offset is None) != (queue is None):
            raise ConfigError("an offset belongs to one queue: give both, or neither")
        header = ResetOffsetHeader(
            topic=self._client.wire_name(topic),
            group=self._client.wire_name(group),
            timestamp=to_ms,
            is_force=True,
            queue_id=-1 if queue is None else queue.number,
            offset=offset,
            push_to_clients=True,
        )
        brokers = [queue.broker] if queue else (await self._requests.directory.brokers_of(topic)).values()
        tables = await gather([self._requests.brokers.reset_offset(broker, header) for broker in brokers])
        return dict(sorted((queue, offset) for table in tables for queue, offset in table.items()))

    async def _require_clustering(self, group: str) -> None:
        """Refuse a group that broadcasts; one without members is not known to. Raises ConfigError."""
        connected = await self._members.connections_if_any(group)
        if connected is not None and connected.is_broadcast:
            text = f"group {group} broadcasts: each member keeps its own offsets, so there is nothing to reset here"
            raise ConfigError(f"{text}; stop a member and remove or edit its offsets file instead")

    # --- plans ---

    async def plan_reset(
        self, group: str, topic: str, *, to_ms: int = LATEST, offset: int | None = None, queue: QueueId | None = None
    ) -> list[OffsetMove]:
        """Return what ``reset`` would do, queue by queue: to a time, LATEST, EARLIEST, or an offset.

        An offset outside of a queue means its nearer end. Raises TopicNotFoundError, ConfigError.
        """
        await self._require_clustering(group)
        route = await self._requests.directory.route(topic)
        chosen = [each for each in route.readable_queues(self._client.wire_name(topic)) if queue in (None, each)]
        if not chosen:
            raise ConfigError(f"topic {topic} has no queue {queue.number if queue else ''} on that broker")
        moves = []
        for each in chosen:
            held = await self.range(each)
            target = await self._target(each, held, to_ms, offset)
            old = await self.committed(group, each)
            moves.append(OffsetMove(each, old, target, held.max_offset, held.min_offset))
        return moves

    async def _target(self, queue: QueueId, held: TopicOffset, to_ms: int, offset: int | None) -> int:
        if offset is None and to_ms not in (LATEST, EARLIEST):
            offset = await self.at(queue, to_ms)
        if offset is not None:
            return max(held.min_offset, min(offset, held.max_offset))
        return held.max_offset if to_ms == LATEST else held.min_offset

    async def plan_shift(self, group: str, topic: str, by: int, queues: Collection[QueueId] = ()) -> list[OffsetMove]:
        """Return moves forward (or back, when negative) by so many messages in each queue, within what it holds."""
        return await self._plan(group, topic, queues, lambda queue, old, first, end: max(first, min(end, old + by)))

    async def plan_copy(
        self, group: str, topic: str, source: str, queues: Collection[QueueId] = ()
    ) -> list[OffsetMove]:
        """Return moves to where another group stands; queues in which that one has no offset are left out.

        Raises GroupNotFoundError, TopicNotFoundError, ConfigError.
        """
        await require_group(self._requests, source)
        stands: dict[QueueId, int | None] = {}
        for queue in await self._requests.directory.queues(topic):
            stands[queue] = await self.committed(source, queue)
        chosen = [queue for queue, offset in stands.items() if offset is not None and (not queues or queue in queues)]
        if not chosen:
            raise ConfigError(f"group {source} has no offset in topic {topic}: there is nothing to copy")
        return await self._plan(group, topic, chosen, lambda queue, old, first, end: stands[queue] or 0)

    async def _plan(
        self, group: str, topic: str, queues: Collection[QueueId], target: Callable[[QueueId, int, int, int], int]
    ) -> list[OffsetMove]:
        await self._require_clustering(group)
        moves = []
        for queue in await self._requests.directory.queues(topic):
            if queues and queue not in queues:
                continue
            held, old = await self.range(queue), await self.committed(group, queue)
            stands = held.min_offset if old is None else old
            new = target(queue, stands, held.min_offset, held.max_offset)
            new = max(held.min_offset, min(held.max_offset, new))
            moves.append(OffsetMove(queue, old, new, held.max_offset, held.min_offset))
        return moves
