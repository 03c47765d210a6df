"""A consumer group as a whole at one moment: members with versions and queues, lag in messages and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.model.queue import QueueId
from pyromq.model.same_fields import place_fields, same_fields
from pyromq.model.topic import GroupConfig
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.operate.consumers.members import ClientState
from pyromq.operate.consumers.used_settings import SettingsInUse, UsedSetting, compare_settings
from pyromq.wire.json.heartbeat import ConsumerConnections, Subscription
from pyromq.wire.json.subscribed import Wish, difference, shown

_VERSION_4_0_0_SNAPSHOT: Final = 212
_VERSION_6_0_0_SNAPSHOT: Final = 612
_NOT_ASKED: Final = ClientState(client_id="", problem="it was not asked")


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A connected consumer. ``agrees``: it subscribes to what the others do; None where brokers do not tell.

    ``queues`` counts those it owns, ``lag`` what it has not consumed of them; None, with the reason in ``problem``,
    when it did not answer. ``subscriptions`` are its own, by topic, and ``difference`` is what sets them apart from the
    usual ones, in words. ``consume_ms`` is how long its listener took on average in the last minute, with ``ok_rate``
    and ``failed_rate`` messages a second and ``failed_hour`` failures of the last hour. ``listening_since_ms`` is when
    its listener began with the message that it has had longest of those that hold queues up (0: it has none, or does
    not tell). ``held_pulls`` counts how often flow control held a pull back, by rule; ``uses`` are its own settings.
    """

    client_id: str
    address: str
    language: str
    version: int
    version_text: str
    agrees: bool | None = None
    queues: int | None = None
    subscriptions: dict[str, str] = {}
    consume_ms: float = 0.0
    ok_rate: float = 0.0
    failed_rate: float = 0.0
    failed_hour: int = 0
    lag: int | None = None
    listening_since_ms: int = 0
    difference: str = ""
    held_pulls: dict[str, int] = {}
    uses: SettingsInUse = SettingsInUse()
    problem: str = ""

    @property
    def subscribes_to(self) -> str:
        """Subscriptions of the member in words."""
        return shown(self.subscriptions.items())


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment. Of a group that broadcasts, a message is in ``lag`` until its slowest member consumed it.

    ``lag_ms`` is the age of the oldest message that the group has not consumed, 0 without a lag, None if not known.
    """

    group: str
    config: GroupConfig
    is_online: bool
    is_broadcasting: bool
    lag: int
    lag_ms: int | None
    subscriptions: dict[str, Subscription]
    members: tuple[GroupMember, ...]
    queues: tuple[BlockedQueue, ...]

    @property
    def is_paused(self) -> bool:
        return not self.config.consume_enable

    @property
    def in_flight(self) -> int | None:
        """Messages that are with consumers of a group that pops; None of one that pulls."""
        known = [queue.in_flight for queue in self.queues if queue.in_flight is not None]
        return sum(known) if known else None

    @property
    def settings(self) -> tuple[UsedSetting, ...]:
        """Settings of the group beside those that its members use."""
        return compare_settings(self.config, [(member.client_id, member.uses) for member in self.members])

    @property
    def mismatched(self) -> tuple[str, ...]:
        """Members that subscribe to something else than the others."""
        return tuple(member.client_id for member in self.members if member.agrees is False)


class GroupQueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands in a queue, and the message that it stands at: none without a lag (``offset`` is None).

    ``client_id`` is the member that has the queue. ``attempt``, ``stage``, ``since_ms`` and ``stack`` are known of
    members that tell. ``in_flight`` is None of a group that pulls.
    """

    topic: str
    broker: str
    queue: int
    committed: int
    end: int
    lag: int
    in_flight: int | None
    invisible_until_ms: int
    client_id: str
    offset: int | None
    message_id: str
    keys: tuple[str, ...]
    age_ms: int | None
    attempt: int
    stage: str
    since_ms: int
    error: str
    stack: str

    @classmethod
    def of(cls, head: BlockedQueue) -> GroupQueueRow:
        age_ms = head.age_ms if head.offset is not None else None
        return cls(age_ms=age_ms, **place_fields(head.queue), **same_fields(cls, head, "queue", "age_ms"))


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment, as faces show it. ``subscriptions`` are what brokers know of it: topics, filters."""

    group: str
    is_online: bool
    is_paused: bool
    is_broadcasting: bool
    lag: int
    lag_ms: int | None
    in_flight: int | None
    subscriptions: dict[str, str]
    members: tuple[GroupMember, ...]
    queues: tuple[GroupQueueRow, ...]
    settings: tuple[UsedSetting, ...]

    @classmethod
    def of(cls, state: GroupState) -> GroupDescription:
        subscriptions = {topic: each.sub_string for topic, each in state.subscriptions.items()}
        queues, same = map(GroupQueueRow.of, state.queues), same_fields(cls, state, "subscriptions", "queues")
        return cls(subscriptions=subscriptions, queues=tuple(queues), **same)


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
        lag=sum(queue.lag for queue in behind),
        lag_ms=None if behind and not ages else max(ages, default=0),
        subscriptions=dict(connections.subscription_table) if connections else {},
        members=_members(connections, states, queues),
        queues=queues,
    )


def _members(
    connections: ConsumerConnections | None, states: list[ClientState], queues: Sequence[BlockedQueue]
) -> tuple[GroupMember, ...]:
    if connections is None:
        return ()
    by_id = {state.client_id: state for state in states}
    disagreeing = disagreeing_members(connections, states)
    differences = subscription_differences(states, disagreeing or frozenset())
    found = []
    for client in connections.connection_set:
        state = by_id.get(client.client_id, _NOT_ASKED)
        rates = [each for topic, each in state.rates.items() if each.consume_ok_tps or each.consume_failed_tps]
        found.append(
            GroupMember(
                client_id=client.client_id,
                address=client.client_addr,
                language=client.language,
                version=client.version,
                version_text=version_text(client.version),
                agrees=None if disagreeing is None else client.client_id not in disagreeing,
                queues=None if state.problem else len(state.queues),
                subscriptions=dict(sorted(state.subscriptions)),
                consume_ms=_mean_ms(rates),
                ok_rate=sum(each.consume_ok_tps for each in rates),
                failed_rate=sum(each.consume_failed_tps for each in rates),
                failed_hour=sum(each.consume_failed_messages for each in state.rates.values()),
                lag=None if state.problem else _lag(state, queues, is_broadcast=connections.is_broadcast),
                listening_since_ms=min((head.since_ms for head in state.heads if head.since_ms), default=0),
                difference=differences.get(client.client_id, ""),
                held_pulls=state.flow,
                uses=state.uses,
                problem=state.problem,
            )
        )
    return tuple(found)


def _mean_ms(rates: Sequence[TopicRates]) -> float:
    """The time of a listener, over its topics by how much it did of each."""
    consumed = sum(each.consume_ok_tps + each.consume_failed_tps for each in rates)
    spent = sum(each.consume_rt * (each.consume_ok_tps + each.consume_failed_tps) for each in rates)
    return spent / consumed if consumed else 0.0


def _lag(state: ClientState, queues: Sequence[BlockedQueue], *, is_broadcast: bool) -> int:
    if is_broadcast:
        return lag_of_member(state, {each.queue: each.end for each in queues})
    return sum(max(0, each.lag) for each in queues if each.client_id == state.client_id)


def lag_of_member(state: ClientState, ends: Mapping[QueueId, int]) -> int:
    """Return how many messages a member that broadcasts has not consumed."""
    return sum(max(0, end - state.queues[queue].commit_offset) for queue, end in ends.items() if queue in state.queues)


def disagreeing_members(connections: ConsumerConnections, states: list[ClientState]) -> frozenset[str] | None:
    """Members that subscribe to something else than most: as our brokers say, else as members tell themselves.

    None where neither tells.
    """
    if connections.disagreeing_client_ids is not None:
        return frozenset(connections.disagreeing_client_ids)
    told = {state.client_id: state.subscriptions for state in states if state.subscriptions}
    if not told:
        return None
    usual = _usual(told.values())
    return frozenset(client_id for client_id, subscribed in told.items() if subscribed != usual)


def subscription_differences(states: Sequence[ClientState], disagreeing: frozenset[str]) -> dict[str, str]:
    """Return what sets disagreeing members apart from the others, in words, by client id; of those that tell."""
    told = {state.client_id: state.subscriptions for state in states if state.subscriptions}
    others = [subscribed for client_id, subscribed in told.items() if client_id not in disagreeing]
    if not others:
        return {}
    usual = _usual(others)
    return {
        client_id: "it subscribes to {}, the others to {}".format(*difference(told[client_id], usual))
        for client_id in sorted(disagreeing & told.keys())
    }


def _usual(wishes: Iterable[Wish]) -> Wish:
    return Counter(wishes).most_common(1)[0][0]


def version_text(version: int) -> str:
    """RocketMQ's release of a protocol version: since 4.0.0 they alternate X-SNAPSHOT and X, ten patches to a minor."""
    if not _VERSION_4_0_0_SNAPSHOT <= version < _VERSION_6_0_0_SNAPSHOT:
        return f"version {version}"
    minor, rest = divmod(version - _VERSION_4_0_0_SNAPSHOT, 20)
    return f"{4 + minor // 10}.{minor % 10}.{rest // 2}{'' if rest % 2 else '-SNAPSHOT'}"
