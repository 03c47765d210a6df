"""Consumer groups: their configuration, how far they are, what holds them up, pause and resume.

A paused group is one whose configuration says ``consumeEnable = false``: brokers refuse its pulls, its members stay
connected and its offsets stay as they are. RocketMQ has the same switch, so this works on its clusters.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import gather
from pyromq.errors import GroupNotFoundError
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.operate.consumers.blocked_queues import BlockedQueues, Parked
from pyromq.operate.consumers.group_configs import (
    configs_of_groups,
    create_group,
    no_group,
    require_group,
    tables_by_master,
)
from pyromq.operate.consumers.group_state import GroupState, state_of_group
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.lists import ClusterLists, GroupPage, ListQuestion
from pyromq.operate.offsets import OffsetFacet, OffsetMove
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.wire.json.bodies import QueueProgress

# the facet has a method ``list``, so its annotations need other names for lists
_Names: TypeAlias = list[str]


class GroupFacet:
    """``admin.groups``: consumer groups."""

    def __init__(
        self,
        requests: AdminRequests,
        lists: ClusterLists,
        members: MemberFacet,
        offsets: OffsetFacet,
        stored: StoredMessages,
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._lists = lists
        self._members = members
        self._offsets = offsets
        self._blocked = BlockedQueues(requests, members, offsets, stored)

    async def list(self, question: ListQuestion | None = None) -> GroupPage:
        """Return groups with topics, members, rate, lag and letters. Raises TransportError if no broker answers."""
        return await self._lists.groups(question)

    async def names(self) -> _Names:
        """Return all groups that brokers have a configuration of, those of the system included."""
        return sorted(await configs_of_groups(self._requests))

    async def create(self, group: GroupConfig | str, *, cluster: str = "", broker: str = "") -> None:
        """Create or change a consumer group. Raises InvalidNameError."""
        await create_group(self._requests, group, cluster=cluster, broker=broker)

    async def delete(self, group: str, *, clean_offsets: bool = True, cluster: str = "", broker: str = "") -> None:
        """Delete a consumer group; with ``clean_offsets`` it would start anew if it came back."""
        name, brokers = self._client.wire_name(group), self._requests.brokers
        masters = await self._requests.directory.masters(cluster, broker)
        await gather([brokers.delete_group(address, name, clean_offsets=clean_offsets) for address in masters])

    async def require(self, group: str) -> GroupConfig:
        """Return the configuration of a group that exists. Raises GroupNotFoundError."""
        return await require_group(self._requests, group)

    async def config(self, group: str) -> GroupConfig:
        """Return what the first broker has that knows the group, or makes it up. Raises GroupNotFoundError."""
        name = self._client.wire_name(group)
        for address in await self._requests.directory.masters():
            try:
                return await self._requests.brokers.group_config(address, name)
            except GroupNotFoundError:
                continue
        raise no_group(group)

    async def describe(self, group: str, topic: str = "") -> GroupState:
        """Return members, queues and what holds them up. Raises GroupNotFoundError."""
        config = await require_group(self._requests, group)
        connections = await self._members.connections_if_any(group)
        states = await self._members.states(group) if connections else []
        queues = await self._blocked.worst(group, topic, states)
        return state_of_group(config, group, connections, states, queues)

    async def lag(self, group: str, topic: str = "") -> dict[QueueId, QueueProgress]:
        """Return how far a group is in each queue: ``broker_offset - consumer_offset`` is what it has not consumed."""
        return await self._offsets.progress(group, topic)

    async def plan_park(
        self, group: str, queue: QueueId, offset: int | None = None
    ) -> tuple[ReceivedMessage, OffsetMove]:
        """Return what ``park`` would move. With ``offset`` it must be the one that the queue stands at.

        Raises NotFoundError, ConfigError.
        """
        return await self._blocked.plan_park(group, queue, offset)

    async def park(self, group: str, queue: QueueId, offset: int | None = None) -> Parked:
        """Move the message that a queue stands at to the dead letters, then the queue on to the next one.

        A member that works on it at the moment may still finish it, so it may be both consumed and dead.
        """
        return await self._blocked.park(group, queue, offset)

    async def pause(self, group: str) -> _Names:
        """Let brokers refuse the group's pulls from now on; what its members have already, they go on with.

        Returns the addresses of brokers whose configuration changed. Raises GroupNotFoundError.
        """
        return await self._enable(group, is_enabled=False)

    async def resume(self, group: str) -> _Names:
        """Let the group consume again. Returns the addresses of brokers that changed. Raises GroupNotFoundError."""
        return await self._enable(group, is_enabled=True)

    async def _enable(self, group: str, *, is_enabled: bool) -> _Names:
        name, tables = self._client.wire_name(group), await tables_by_master(self._requests)
        known = {address: table[name] for address, table in tables.items() if name in table}
        if not known:
            raise no_group(group)
        changed = []
        for address, config in known.items():
            if config.consume_enable is not is_enabled:
                config = msgspec.structs.replace(config, group_name=name, consume_enable=is_enabled)
                await self._requests.brokers.update_group(address, config)
                changed.append(address)
        return changed
