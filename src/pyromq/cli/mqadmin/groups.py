"""mqadmin's sub-commands about groups, their members and their progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli import clock
from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.consumer_status import running_info_lines
from pyromq.cli.mqadmin.options import (
    BrokerAddrOption,
    BrokersOptions,
    ConsumerGroupOption,
    GroupNameOption,
    RouteOption,
    TopicOption,
    attributes_in,
    switch,
)
from pyromq.cli.mqadmin.printing import line, properties_text, time_in, time_text, version_text

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.model.topic import GroupConfig

_MOVED = "%-40s  %-40s  %-40s"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """What ``updateSubGroup`` sets."""

    notify: Annotated[str, Option("-a", "--notifyConsumerIdsChanged", help="Notify consumerId changed.")] = ""
    attributes: Annotated[str, Option("--attributes", help="attribute(+a=b,+c=d,-e)")] = ""
    broadcast: Annotated[str, Option("-d", "--consumeBroadcastEnable", help="Broadcast.")] = ""
    broker_id: Annotated[int, Option("-i", "--brokerId", help="Consumer from which broker id.")] = 0
    from_min: Annotated[str, Option("-m", "--consumeFromMinEnable", help="From min offset.")] = ""
    orderly: Annotated[str, Option("-o", "--consumeMessageOrderly", help="Consume message orderly.")] = ""
    policy: Annotated[str, Option("-p", "--groupRetryPolicy", help="The json string of retry policy.")] = ""
    retry_queues: Annotated[int, Option("-q", "--retryQueueNums", min=0, help="Retry queue nums.")] = 1
    retries: Annotated[int, Option("-r", "--retryMaxTimes", help="Retry max times.")] = 16
    enabled: Annotated[str, Option("-s", "--consumeEnable", help="Consume enable.")] = ""
    slow_broker: Annotated[
        int, Option("-w", "--whichBrokerWhenConsumeSlowly", help="Which broker id when consume slowly.")
    ] = 1

    def config(self, group: str) -> GroupConfig:
        """Configuration of the group from these options. Raises BadParameter."""
        import msgspec

        from pyromq.model.topic import GroupConfig

        try:
            policy = msgspec.json.decode(self.policy, type=dict[str, Any]) if self.policy else {"type": "CUSTOMIZED"}
        except msgspec.DecodeError as error:
            raise click.BadParameter(f"-p is not JSON: {error}") from error
        return GroupConfig(
            group_name=group,
            consume_enable=switch(self.enabled, default=True),
            consume_from_min_enable=switch(self.from_min),
            consume_broadcast_enable=switch(self.broadcast),
            consume_message_orderly=switch(self.orderly),
            retry_queue_nums=self.retry_queues,
            retry_max_times=self.retries,
            group_retry_policy=policy,
            broker_id=self.broker_id,
            which_broker_when_consume_slowly=self.slow_broker,
            notify_consumer_ids_changed_enable=switch(self.notify, default=True),
            attributes=attributes_in(self.attributes),
        )


async def update_sub_group(admin: Admin, *, group: GroupNameOption, brokers: BrokersOptions, shape: GroupShape) -> None:
    """Update or create subscription group."""
    config = shape.config(group)
    for _, address in await brokers.masters(admin):
        await admin.groups.create(config, broker=address)
        line("create subscription group to %s success.", address)
    line("SubscriptionGroupConfig{%s}", ", ".join(f"{name}={value}" for name, value in _config_fields(config)))


async def delete_sub_group(
    admin: Admin,
    group: GroupNameOption,
    brokers: BrokersOptions,
    remove_offset: Annotated[str, Option("-r", "--removeOffset", help="Remove offset (true|false).")] = "",
) -> None:
    """Delete subscription group from broker."""
    for _, address in await brokers.masters(admin):
        await admin.groups.delete(group, clean_offsets=switch(remove_offset), broker=address)
        inside = f" in cluster [{brokers.cluster}]" if brokers.cluster else ""
        line("delete subscription group [%s] from broker [%s]%s success.", group, address, inside)


async def get_consumer_config(admin: Admin, group: GroupNameOption) -> None:
    """Get consumer config by subscription group name."""
    await admin.groups.require(group)
    config = await admin.groups.config(group)
    for name, data in sorted((await admin.brokers.cluster()).broker_addr_table.items()):
        line("=============================%s:%s=============================", data.cluster, name)
        for key, value in _config_fields(config):
            line("%-40s=  %s", key, value)
        line("")


def _config_fields(config: GroupConfig) -> list[tuple[str, str]]:
    import msgspec

    fields = msgspec.to_builtins(config)
    return [(name, _java_text(value)) for name, value in fields.items()]


def _java_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return properties_text({name: _java_text(each) for name, each in value.items()})
    return "" if value is None else str(value)


# --- members ---------------------------------------------------------------------------------------------------------


async def consumer_connection(admin: Admin, group: ConsumerGroupOption, broker: BrokerAddrOption = "") -> None:
    """Query consumer's socket connection, client version and subscription."""
    found = await admin.members.connections(group)
    line("%-36s %-22s %-10s %s", "#ClientId", "#ClientAddr", "#Language", "#Version")
    for member in found.connection_set:
        words = (member.client_id, member.client_addr, member.language, version_text(member.version))
        line("%-36s %-22s %-10s %s", *words)
    line("\nBelow is subscription:\n%-20s %s", "#Topic", "#SubExpression")
    for topic, subscription in found.subscription_table.items():
        line("%-20s %s", topic, subscription.sub_string)
    line("\nConsumeType: %s", found.consume_type.name)
    line("MessageModel: %s", found.message_model.name)
    line("ConsumeFromWhere: %s", found.consume_from_where.name)


async def producer_connection(
    admin: Admin,
    group: Annotated[str, Option("-g", "--producerGroup", help="Producer group name.")],
    topic: TopicOption,
) -> None:
    """Query producer's socket connection and client version."""
    await admin.topics.route(topic)
    for number, member in enumerate(await admin.members.producers_of(group), 1):
        words = (member.client_id, member.client_addr, member.language, version_text(member.version))
        line("%04d  %-32s %-22s %-8s %s", number, *words)


async def producer(
    admin: Admin, broker: Annotated[str, Option("-b", "--broker", metavar="ADDR", help="Broker address.")]
) -> None:
    """Query producer's instances, connection, status, etc."""
    for group, members in sorted((await admin.members.producers(broker)).items()):
        for each in members:
            line(
                "producer group (%s) instance : clientId=%s,remoteIP=%s, language=%s, version=%d, "
                "lastUpdateTimestamp=%d",
                *(group, each.client_id, each.address, each.language, each.version, each.seen_ms),
            )


async def consumer_status(
    admin: Admin,
    group: ConsumerGroupOption,
    client: Annotated[str, Option("-i", "--clientId", help="The consumer's client id.")] = "",
    stacks: Annotated[bool, Option("-s", "--jstack", help="Also show the stacks of all threads.")] = False,
    broker: BrokerAddrOption = "",
) -> None:
    """Query consumer's internal data structure."""
    connected = await admin.members.connections(group)
    members = [member for member in connected.connection_set if client in ("", member.client_id)]
    line("%-10s %-40s %-20s", "#Index", "#ClientId", "#Version")
    for number, member in enumerate(members, 1):
        line("%-10d %-40s %-20s", number, member.client_id, version_text(member.version))
    for member in members if client or stacks else ():
        line("")
        for text in running_info_lines(await admin.members.running_info(group, member.client_id, with_stack=stacks)):
            line("%s", text)
    state = await admin.groups.describe(group)
    line("\n%s subscription in the same group of consumer", "WARN: Different" if state.mismatched else "Same")
    for odd in (each for each in state.members if each.agrees is False):
        line("%s subscribes to %s", odd.client_id, odd.subscribes_to)


# --- progress --------------------------------------------------------------------------------------------------------


async def consumer_progress(
    admin: Admin,
    group: Annotated[str, Option("-g", "--groupName", complete="groups", help="Consumer group name.")] = "",
    topic: Annotated[str, Option("-t", "--topicName", complete="topics", help="Topic name.")] = "",
    with_clients: Annotated[str, Option("-s", "--showClientIP", help="Show Client IP per Queue (true|false).")] = "",
    cluster: RouteOption = "",
) -> None:
    """Query consumer's progress, speed."""
    is_with_clients = switch(with_clients)
    if group:
        await _progress_of_one(admin, group, topic, is_with_clients)
    else:
        await _progress_of_all(admin)


async def _progress_of_one(admin: Admin, group: str, topic: str, with_clients: bool) -> None:
    await admin.groups.require(group)
    progress = await admin.groups.lag(group, topic)
    owners: dict[QueueId, str] = {}
    if with_clients:
        for state in await admin.members.states(group):
            owners |= {queue: state.client_id.partition("@")[0] for queue in state.queues}
    columns = "%-64s  %-32s  %-4s  %-20s  %-20s  "
    titles = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    owner = "%-20s " if with_clients else "%s"
    line(
        columns + owner + "%-20s %-20s %s",
        *titles,
        "#Client IP" if with_clients else "",
        "#Diff",
        "#Inflight",
        "#LastTime",
    )
    total = in_flight = 0
    for queue, held in progress.items():
        left, pulled = held.broker_offset - held.consumer_offset, max(0, held.pull_offset - held.consumer_offset)
        total, in_flight = total + left, in_flight + pulled
        place = (queue.topic, queue.broker, queue.number, held.broker_offset, held.consumer_offset)
        last = time_text(held.last_timestamp)
        line(
            columns + owner + "%-20s %-20s %s",
            *place,
            owners.get(queue, "N/A") if with_clients else "",
            left,
            pulled,
            last,
        )
    page = await _page_of(admin, group)
    rates = [row.get_rate or 0.0 for row in page.rows if row.group == group]
    line("\nConsume TPS: %.2f", sum(rates))
    line("Consume Diff Total: %d", total)
    line("Consume Inflight Total: %d", in_flight)


async def _page_of(admin: Admin, pattern: str = "") -> Any:
    from pyromq.operate.lists import ListQuestion

    return await admin.groups.list(ListQuestion(pattern=pattern, with_system=bool(pattern)))


async def _progress_of_all(admin: Admin) -> None:
    from pyromq.errors import GroupOfflineError

    line(
        "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
        "#Group",
        "#Count",
        "#Version",
        "#Type",
        "#Model",
        "#TPS",
        "#Diff Total",
    )
    for row in (await _page_of(admin)).rows:
        version = kind = model = ""
        try:
            found = await admin.members.connections(row.group)
            version = version_text(min((each.version for each in found.connection_set), default=0))
            kind = {"CONSUME_PASSIVELY": "PUSH", "CONSUME_POP": "POP"}.get(found.consume_type.name, "PULL")
            model = found.message_model.name
        except GroupOfflineError:
            version = "OFFLINE"
        rate = f"{row.get_rate or 0:.0f}"
        line(
            "%-64s  %-6d  %-24s %-5s  %-14s  %-7s  %s",
            row.group,
            row.members or 0,
            version,
            kind,
            model,
            rate,
            "N/A" if row.lag is None else row.lag,
        )


async def clone_group_offset(
    admin: Admin,
    source: Annotated[str, Option("-s", "--srcGroup", complete="groups", help="Set source consumer group.")],
    target: Annotated[str, Option("-d", "--destGroup", complete="groups", help="Set destination consumer group.")],
    topic: TopicOption,
    offline: Annotated[str, Option("-o", "--offline", help="The group or the topic is offline.")] = "",
) -> None:
    """Clone offset from other group."""
    await admin.offsets.clone(source, target, topic)
    line("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]", source, target, topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQueue:
    """A single queue of a reset."""

    broker: Annotated[str, Option("-b", "--broker", metavar="ADDR", help="Broker addr, of one queue.")] = ""
    queue: Annotated[int | None, Option("-q", "--queue", min=0, help="Queue id.")] = None
    offset: Annotated[int | None, Option("-o", "--offset", min=0, help="Expect queue offset.")] = None


async def reset_offset_by_time(
    admin: Admin,
    *,
    group: Annotated[str, Option("-g", "--group", complete="groups", help="Set the consumer group.")],
    topic: TopicOption,
    timestamp: Annotated[
        str, Option("-s", "--timestamp", help="Set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS].")
    ],
    one: OneQueue,
    force: Annotated[str, Option("-f", "--force", help="Deprecated; a reset always goes back, too.")] = "",
    cluster: RouteOption = "",
) -> None:
    """Reset consumer offset by timestamp(without client restart)."""
    to_ms = _moment(timestamp)
    if (one.offset is None) != (one.queue is None) or bool(one.broker) != (one.queue is not None):
        raise click.UsageError("one queue is moved with -b, -q and -o together")
    from pyromq.aio import QueueId

    await admin.groups.require(group)
    if one.queue is not None:
        queue = QueueId(admin.client.wire_name(topic), one.broker, one.queue)
        await admin.offsets.reset(group, topic, queue=queue, offset=one.offset)
        line("reset queue offset success. queue %d of %s: %d", one.queue, one.broker, one.offset)
        return
    line(
        "start reset consumer offset by specified, group[%s], topic[%s], force[true], "
        "timestamp(string)[%s], timestamp(long)[%d]",
        *(group, topic, timestamp, to_ms),
    )
    _write_moves(await admin.offsets.reset(group, topic, to_ms=to_ms))


def _moment(text: str) -> int:
    """Read a time as brokers take it: -1 is the end."""
    if text.strip() in ("now", "-1"):
        return -1 if text.strip() == "-1" else clock.now_ms()
    return time_in(text)


async def skip_accumulated_message(
    admin: Admin,
    group: Annotated[str, Option("-g", "--group", complete="groups", help="Set the consumer group.")],
    topic: TopicOption,
    force: Annotated[str, Option("-f", "--force", help="Set the force rollback by timestamp switch[true|false].")] = "",
    cluster: RouteOption = "",
) -> None:
    """Skip all messages that are accumulated (not consumed) currently."""
    await admin.groups.require(group)
    _write_moves(await admin.offsets.reset(group, topic))


def _write_moves(moves: dict[Any, int]) -> None:
    line(_MOVED, "#brokerName", "#queueId", "#offset")
    for queue, offset in moves.items():
        line(_MOVED, queue.broker, queue.number, offset)
