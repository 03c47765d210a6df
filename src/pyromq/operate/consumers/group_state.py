"""A consumer group as a whole at one moment: members with versions and queues, lag in messages and time."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from pyromq.model.topic import GroupConfig
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.operate.consumers.members import ClientState
from pyromq.wire.json.heartbeat import ConsumerConnections, Subscription

_VERSION_4_0_0_SNAPSHOT: Final = 212
_VERSION_6_0_0_SNAPSHOT: Final = 612


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A connected consumer. ``agrees``: it subscribes to what the others do; None where brokers do not tell.

    ``queues`` counts those it owns; None, with the reason in ``problem``, when it did not answer.
    """

    client_id: str
    address: str
    language: str
    version: int
    version_text: str
    agrees: bool | None = None
    queues: int | None = None
    problem: str = ""


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment. ``lag`` is None where it is not available: members that broadcast keep their own offsets.

    ``lag_ms`` is the age of the oldest message that the group has not consumed, 0 without a lag, None if not known.
    """

    group: str
    config: GroupConfig
    is_online: bool
    is_broadcasting: bool
    lag: int | None
    lag_ms: int | None
    subscriptions: dict[str, Subscription]
    members: tuple[GroupMember, ...]
    queues: tuple[BlockedQueue, ...]

    @property
    def is_paused(self) -> bool:
        return not self.config.consume_enable

    @property
    def mismatched(self) -> tuple[str, ...]:
        """Members that subscribe to something else than the others."""
        return tuple(member.client_id for member in self.members if member.agrees is False)


def state_of_group(
    config: GroupConfig,
    group: str,
    connections: ConsumerConnections | None,
    states: list[ClientState],
    queues: tuple[BlockedQueue, ...],
) -> GroupState:
    """Put together what brokers know of a group and what its members say."""
    is_broadcasting = connections is not None and connections.is_broadcast
    behind = [queue for queue in queues if queue.lag > 0]
    ages = [queue.age_ms for queue in behind if queue.offset is not None]
    return GroupState(
        group=group,
        config=config,
        is_online=connections is not None,
        is_broadcasting=is_broadcasting,
        lag=None if is_broadcasting else sum(queue.lag for queue in behind),
        lag_ms=None if is_broadcasting or (behind and not ages) else max(ages, default=0),
        subscriptions=dict(connections.subscription_table) if connections else {},
        members=_members(connections, states),
        queues=queues,
    )


def _members(connections: ConsumerConnections | None, states: list[ClientState]) -> tuple[GroupMember, ...]:
    if connections is None:
        return ()
    by_id = {state.client_id: state for state in states}
    disagreeing = disagreeing_members(connections, states)
    found = []
    for client in connections.connection_set:
        state = by_id.get(client.client_id)
        found.append(
            GroupMember(
                client_id=client.client_id,
                address=client.client_addr,
                language=client.language,
                version=client.version,
                version_text=version_text(client.version),
                agrees=None if disagreeing is None else client.client_id not in disagreeing,
                queues=None if state is None or state.problem else len(state.queues),
                problem=state.problem if state else "it was not asked",
            )
        )
    return tuple(found)


def disagreeing_members(connections: ConsumerConnections, states: list[ClientState]) -> frozenset[str] | None:
    """Members that subscribe to something else than most: as our brokers say, else as members tell themselves.

    None where neither tells.
    """
    if connections.disagreeing_client_ids is not None:
        return frozenset(connections.disagreeing_client_ids)
    told = {state.client_id: state.subscriptions for state in states if state.subscriptions}
    if not told:
        return None
    usual, _ = Counter(told.values()).most_common(1)[0]
    return frozenset(client_id for client_id, subscribed in told.items() if subscribed != usual)


def version_text(version: int) -> str:
    """RocketMQ's release of a protocol version: since 4.0.0 they alternate X-SNAPSHOT and X, ten patches to a minor."""
    if not _VERSION_4_0_0_SNAPSHOT <= version < _VERSION_6_0_0_SNAPSHOT:
        return f"version {version}"
    minor, rest = divmod(version - _VERSION_4_0_0_SNAPSHOT, 20)
    return f"{4 + minor // 10}.{minor % 10}.{rest // 2}{'' if rest % 2 else '-SNAPSHOT'}"
