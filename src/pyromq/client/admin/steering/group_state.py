"""A consumer group as a whole: members with versions and queues, lag in messages and time, pause and resume.

A paused group is one whose configuration says ``consumeEnable = false``: brokers refuse its pulls, its members stay
connected and its offsets stay as they are. RocketMQ has the same switch, so this works on its clusters.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from pyromq.client.admin.base import gather
from pyromq.client.admin.blocked_queues import BlockedQueue, BlockedQueueAdmin, ClientState, head_of
from pyromq.client.admin.dead_letters import DeadLetterAdmin
from pyromq.client.admin.groups import GroupTable
from pyromq.errors import BrokerError, GroupNotFoundError, GroupOfflineError, MQError, TopicNotFoundError
from pyromq.model.names import RETRY_PREFIX, dead_letter_topic
from pyromq.model.topic import GroupConfig
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import GetBrokerConsumeStatsHeader
from pyromq.wire.headers.shared import ConsumerRunningInfoHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import BrokerConsumeStats
from pyromq.wire.json.heartbeat import ConsumerConnections, MessageModel, Subscription

HEADS_MAX: Final = 64  # queues whose first message is looked at, those that are furthest behind
_STATS_TIMEOUT_MS: Final = 15_000  # a broker walks all groups for it
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


class GroupTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A group over all its queues, as brokers sum it up; ``rate`` is messages per second that it gets."""

    lag: int = 0
    retry_lag: int = 0
    rate: float = 0.0
    topics: tuple[str, ...] = ()


class GroupStateAdmin(DeadLetterAdmin, BlockedQueueAdmin):
    """Of ``Admin``: groups as a whole."""

    async def group_state(self, group: str, topic: str = "") -> GroupState:
        """Members, queues and what holds them up. Raises GroupNotFoundError."""
        config = await self.stored_group_config(group)
        connections = await self._connections_of(group)
        is_broadcasting = connections is not None and connections.message_model is MessageModel.BROADCASTING
        states = await self.client_states(group) if connections else []
        queues = () if is_broadcasting else await self._queue_heads(group, topic, states)
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
            queues=tuple(queues),
        )

    async def _queue_heads(self, group: str, topic: str, states: list[ClientState]) -> tuple[BlockedQueue, ...]:
        """All queues; the first message of those that are furthest behind is looked at."""
        progress, now_ms = await self.lag(group, topic), self.client.clock.now_ms()
        behind = {queue: held.broker_offset - held.consumer_offset for queue, held in progress.items()}
        worst = sorted((queue for queue, lag in behind.items() if lag > 0), key=lambda queue: -behind[queue])[
            :HEADS_MAX
        ]
        first = await asyncio.gather(*[self._first_at(queue, progress[queue].consumer_offset) for queue in worst])
        messages = dict(zip(worst, first, strict=True))
        return tuple(
            head_of(queue, held, states, messages.get(queue), now_ms) for queue, held in sorted(progress.items())
        )

    async def _connections_of(self, group: str) -> ConsumerConnections | None:
        try:
            return await self.group_connections(group)
        except GroupOfflineError:
            return None

    async def member_stack(self, group: str, client_id: str) -> str:
        """The stacks of all threads (and of PyroMQ's clients all tasks) of a member.

        Raises BrokerError when no broker is connected with it, or it does not tell.
        """
        header = ConsumerRunningInfoHeader(
            consumer_group=self.client.wire_name(group), client_id=client_id, jstack_enable=True
        )
        problem: MQError = GroupOfflineError(
            code=ResponseCode.CONSUMER_NOT_ONLINE, remark=f"no broker is connected with {client_id}"
        )
        for address in await self._masters():
            try:
                response = await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            except BrokerError as error:
                problem = error
                continue
            told = java_json.parse(response.body)
            return str((told.get("jstack") if isinstance(told, dict) else None) or "")
        raise problem

    # --- all groups ---

    async def group_totals(self) -> dict[str, GroupTotals]:
        """Lag and rate of every group that has an offset, asked of each broker once."""
        header = GetBrokerConsumeStatsHeader(is_order=False)

        async def ask(address: str) -> BrokerConsumeStats:
            link, code = self.client.brokers.link(address), RequestCode.GET_BROKER_CONSUME_STATS
            response = await self.client.ask(link, code, header, timeout_ms=_STATS_TIMEOUT_MS)
            return bodies.decode(response.body, BrokerConsumeStats)

        told = await gather([ask(address) for address in await self._masters()])
        return sum_up(told, self.client.plain_name)

    async def group_configs(self) -> dict[str, GroupConfig]:
        """All groups with their configuration, as the first broker that knows each has it."""
        found: dict[str, GroupConfig] = {}
        for table in (await self._group_tables()).values():
            for name, config in table.items():
                found.setdefault(self.client.plain_name(name), config)
        return found

    async def stored_group_config(self, group: str) -> GroupConfig:
        """As ``group_config``, but a broker that does not know the group makes none up. Raises GroupNotFoundError."""
        found = (await self.group_configs()).get(group)
        if found is None:
            code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            raise GroupNotFoundError(code=code, remark=f"no broker has a group {group}")
        return found

    async def dead_letter_count(self, group: str) -> int:
        """Letters that are not redriven, as far as redrives went without a gap; 0 for a group without any."""
        try:
            await self.route(dead_letter_topic(group))
        except TopicNotFoundError:
            return 0
        count = 0
        for queue in await self._dead_queues(group):
            part = await self._letters_in(group, queue)
            count += max(0, part.end - part.done)
        return count

    async def _group_tables(self) -> dict[str, dict[str, GroupConfig]]:
        """By address of a master, the groups that it has."""
        masters = await self._masters()
        responses = await self._ask_all(masters, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        tables = [java_json.decode(response.body, GroupTable).subscription_group_table for response in responses]
        return dict(zip(masters, tables, strict=True))

    # --- pause and resume ---

    async def pause_group(self, group: str) -> list[str]:
        """Brokers refuse the group's pulls from now on; what its members have already, they go on with.

        Returns the addresses of brokers whose configuration changed. Raises GroupNotFoundError.
        """
        return await self._enable(group, is_enabled=False)

    async def resume_group(self, group: str) -> list[str]:
        """The group may consume again. Returns the addresses of brokers that changed. Raises GroupNotFoundError."""
        return await self._enable(group, is_enabled=True)

    async def _enable(self, group: str, *, is_enabled: bool) -> list[str]:
        name, tables = self.client.wire_name(group), await self._group_tables()
        known = {address: table[name] for address, table in tables.items() if name in table}
        if not known:
            code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            raise GroupNotFoundError(code=code, remark=f"no broker has a group {group}")
        changed = []
        for address, config in known.items():
            if config.consume_enable is not is_enabled:
                body = java_json.dumps(msgspec.structs.replace(config, group_name=name, consume_enable=is_enabled))
                await self._ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
                changed.append(address)
        return changed


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


def sum_up(told: Collection[BrokerConsumeStats], plain_name: Callable[[str], str]) -> dict[str, GroupTotals]:
    """What brokers say of their groups, added up."""
    lags: dict[str, int] = {}
    retry_lags: dict[str, int] = {}
    rates: dict[str, float] = {}
    topics: dict[str, set[str]] = {}
    for broker in told:
        for groups in broker.consume_stats_list:
            for name, stats in groups.items():
                group = plain_name(name)
                for each in stats:
                    rates[group] = rates.get(group, 0.0) + each.consume_tps
                    for queue, held in each.offset_table.items():
                        behind = max(0, held.broker_offset - held.consumer_offset)
                        table: dict[str, int] = retry_lags if queue.topic.startswith(RETRY_PREFIX) else lags
                        table[group] = table.get(group, 0) + behind
                        if not queue.topic.startswith(RETRY_PREFIX):
                            topics.setdefault(group, set()).add(plain_name(queue.topic))
    return {
        group: GroupTotals(
            lag=lags.get(group, 0),
            retry_lag=retry_lags.get(group, 0),
            rate=rates.get(group, 0.0),
            topics=tuple(sorted(topics.get(group, ()))),
        )
        for group in {*lags, *retry_lags, *rates}
    }


def version_text(version: int) -> str:
    """RocketMQ's release of a protocol version: since 4.0.0 they alternate X-SNAPSHOT and X, ten patches to a minor."""
    if not _VERSION_4_0_0_SNAPSHOT <= version < _VERSION_6_0_0_SNAPSHOT:
        return f"version {version}"
    minor, rest = divmod(version - _VERSION_4_0_0_SNAPSHOT, 20)
    return f"{4 + minor // 10}.{minor % 10}.{rest // 2}{'' if rest % 2 else '-SNAPSHOT'}"
