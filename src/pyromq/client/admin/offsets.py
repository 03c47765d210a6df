"""Committed offsets: how far groups are, and moving them: first a plan that can be looked at, then the deed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.client.admin.groups import GroupAdmin
from pyromq.errors import ConfigError, GroupOfflineError, NotFoundError
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.admin import GetConsumeStatsHeader
from pyromq.wire.headers.consumer import (
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.wire.headers.shared import ResetOffsetHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import ConsumeStatsBody, QueueProgress, TopicOffset
from pyromq.wire.json.heartbeat import MessageModel

EARLIEST: Final = 0
LATEST: Final = -1


class OffsetMove(msgspec.Struct, frozen=True):
    """Where a group stands in a queue (None: nowhere yet), and where it shall go on."""

    queue: QueueId
    old: int | None
    new: int

    @property
    def difference(self) -> int:
        """Messages that come again when negative, messages that are passed over when positive."""
        return self.new - (self.old or 0)


class OffsetAdmin(GroupAdmin):
    """Of ``Admin``: offsets."""

    async def lag(self, group: str, topic: str = "") -> dict[QueueId, QueueProgress]:
        """How far a group is in each queue: what it has not consumed is ``broker_offset - consumer_offset``."""
        header = GetConsumeStatsHeader(
            consumer_group=self.client.wire_name(group), topic=self.client.wire_name(topic) if topic else None
        )
        responses = await self._ask_all(await self._masters(), RequestCode.GET_CONSUME_STATS, header)
        tables = [bodies.decode(response.body, ConsumeStatsBody).offset_table for response in responses]
        return dict(sorted((queue, progress) for table in tables for queue, progress in table.items()))

    async def reset_offset(
        self, group: str, topic: str, *, to_ms: int = LATEST, queue: QueueId | None = None, offset: int | None = None
    ) -> dict[QueueId, int]:
        """Moves a group to the messages of a time, LATEST or EARLIEST, or one queue of it to an offset.

        Returns where it goes on, by queue. Raises ConfigError, also for a group whose members broadcast.
        """
        await self._require_clustering(group)
        return await self._reset(group, topic, to_ms, queue, offset)

    async def _reset(
        self, group: str, topic: str, to_ms: int, queue: QueueId | None, offset: int | None
    ) -> dict[QueueId, int]:
        if (offset is None) != (queue is None):
            raise ConfigError("an offset belongs to one queue: give both, or neither")
        header = ResetOffsetHeader(
            topic=self.client.wire_name(topic),
            group=self.client.wire_name(group),
            timestamp=to_ms,
            is_force=True,
            queue_id=-1 if queue is None else queue.number,
            offset=offset,
            push_to_clients=True,
        )
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        if queue is None:
            responses = await self._ask_brokers_of(topic, code, header)
        else:
            responses = [await self._ask(await self._address(queue.broker), code, header)]
        tables = [
            bodies.decode(response.body, bodies.ResetOffsets).offset_table for response in responses if response.body
        ]
        return dict(sorted((queue, offset) for table in tables for queue, offset in table.items()))

    async def _require_clustering(self, group: str) -> None:
        """Raises ConfigError. Of a group without members it is not known; then nothing speaks against it."""
        try:
            connected = await self.group_connections(group)
        except GroupOfflineError:
            return
        if connected.message_model is MessageModel.BROADCASTING:
            text = f"group {group} broadcasts: each member keeps its own offsets, so there is nothing to reset here"
            raise ConfigError(f"{text}; stop a member and remove or edit its offsets file instead")

    async def offset_at(self, queue: QueueId, time_ms: int) -> int:
        """The first offset of a queue that was stored at that time or later."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.number, timestamp=time_ms)
        response = await self._ask(await self._address(queue.broker), RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return response.header_as(OffsetResponseHeader).offset

    async def queue_range(self, queue: QueueId) -> TopicOffset:
        """The first offset that is still there, and the one that the next message will get."""
        address, topic, number = await self._address(queue.broker), queue.topic, queue.number
        first = await self._ask(address, RequestCode.GET_MIN_OFFSET, QueueHeader(topic=topic, queue_id=number))
        end = await self._ask(address, RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=number))
        return TopicOffset(
            min_offset=max(0, first.header_as(OffsetResponseHeader).offset),
            max_offset=max(0, end.header_as(OffsetResponseHeader).offset),
        )

    async def committed(self, group: str, queue: QueueId) -> int | None:
        """Where a group stands in a queue; None if it never said so."""
        header = QueryConsumerOffsetHeader(
            consumer_group=self.client.wire_name(group),
            topic=queue.topic,
            queue_id=queue.number,
            set_zero_if_not_found=False,
        )
        try:
            response = await self._ask(await self._address(queue.broker), RequestCode.QUERY_CONSUMER_OFFSET, header)
        except NotFoundError:
            return None
        return response.header_as(OffsetResponseHeader).offset

    async def _commit(self, group: str, queue: QueueId, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=self.client.wire_name(group),
            topic=queue.topic,
            queue_id=queue.number,
            commit_offset=offset,
        )
        await self._ask(await self._address(queue.broker), RequestCode.UPDATE_CONSUMER_OFFSET, header)

    # --- resets with a look before ---

    async def plan_reset(
        self, group: str, topic: str, *, to_ms: int = LATEST, offset: int | None = None, queue: QueueId | None = None
    ) -> list[OffsetMove]:
        """What ``reset_offset`` would do, queue by queue: to a time, LATEST, EARLIEST, or an offset.

        An offset outside of a queue means its nearer end. Raises TopicNotFoundError, ConfigError.
        """
        await self._require_clustering(group)
        queues = (await self.route(topic)).readable_queues(self.client.wire_name(topic))
        chosen = [each for each in queues if queue is None or each == queue]
        if not chosen:
            raise ConfigError(f"topic {topic} has no queue {queue.number if queue else ''} on that broker")
        moves = []
        for each in chosen:
            held = await self.queue_range(each)
            target = await self._target(each, held, to_ms, offset)
            moves.append(OffsetMove(each, await self.committed(group, each), target))
        return moves

    async def _target(self, queue: QueueId, held: TopicOffset, to_ms: int, offset: int | None) -> int:
        if offset is None and to_ms not in (LATEST, EARLIEST):
            offset = await self.offset_at(queue, to_ms)
        if offset is not None:
            return max(held.min_offset, min(offset, held.max_offset))
        return held.max_offset if to_ms == LATEST else held.min_offset

    async def carry_out(self, group: str, moves: Iterable[OffsetMove]) -> None:
        """Moves the group as planned; members that are connected follow at once. Raises GroupNotFoundError."""
        await self._require_clustering(group)
        for move in moves:
            await self._reset(group, move.queue.topic, LATEST, move.queue, move.new)
