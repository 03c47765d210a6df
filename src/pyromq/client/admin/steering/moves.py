"""Moves of a group beside those of ``plan_reset``: by so many messages, and to where another group stands.

Plans only: ``carry_out`` moves a group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyromq.client.admin.offsets import OffsetAdmin, OffsetMove
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId


class MoveAdmin(OffsetAdmin):
    """Of ``Admin``: plans of moves."""

    async def plan_shift(self, group: str, topic: str, by: int, queues: Collection[QueueId] = ()) -> list[OffsetMove]:
        """Forward (or back, when negative) by so many messages in each queue, within what it holds."""
        return await self._plan(group, topic, queues, lambda queue, old, first, end: max(first, min(end, old + by)))

    async def plan_copy(
        self, group: str, topic: str, source: str, queues: Collection[QueueId] = ()
    ) -> list[OffsetMove]:
        """To where another group stands; queues in which that one has no offset are left out.

        Raises GroupNotFoundError, TopicNotFoundError, ConfigError.
        """
        await self.require_group(source)
        stands: dict[QueueId, int | None] = {}
        for queue in (await self.route(topic)).readable_queues(self.client.wire_name(topic)):
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
        for queue in sorted((await self.route(topic)).readable_queues(self.client.wire_name(topic))):
            if queues and queue not in queues:
                continue
            held, old = await self.queue_range(queue), await self.committed(group, queue)
            stands = held.min_offset if old is None else old
            new = target(queue, stands, held.min_offset, held.max_offset)
            moves.append(OffsetMove(queue, old, max(held.min_offset, min(held.max_offset, new))))
        return moves
