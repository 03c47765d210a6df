"""mqadmin's sub-commands about topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import (
    BrokersOptions,
    ClusterNameOption,
    RouteOption,
    TopicOption,
    attributes_in,
    switch,
)
from pyromq.cli.mqadmin.printing import exact_time_text, line, properties_text

if TYPE_CHECKING:
    from pyromq.aio import Admin

_PERMS = {2: "-W-", 4: "R--", 6: "RW-"}
_ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
_NUMBERED = "%-64s  %-64s %12s %11s %11s %14s %14s"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What ``updateTopic`` sets."""

    attributes: Annotated[str, Option("-a", "--attributes", help="attribute(+a=b,+c=d,-e)")] = ""
    order: Annotated[str, Option("-o", "--order", help="Set topic's order(true|false).")] = ""
    perm: Annotated[int, Option("-p", "--perm", help="Set topic's permission(2|4|6), intro[2:W 4:R; 6:RW].")] = 6
    read_queues: Annotated[int, Option("-r", "--readQueueNums", min=1, help="Set read queue nums.")] = 8
    write_queues: Annotated[int, Option("-w", "--writeQueueNums", min=1, help="Set write queue nums.")] = 8
    unit: Annotated[str, Option("-u", "--unit", help="Is unit topic (true|false); only false here.")] = ""
    has_unit_sub: Annotated[str, Option("-s", "--hasUnitSub", help="Has unit sub (true|false); only false here.")] = ""


async def update_topic(admin: Admin, *, topic: TopicOption, brokers: BrokersOptions, shape: TopicShape) -> None:
    """Update or create topic."""
    from pyromq.model.topic import Perm

    if switch(shape.unit) or switch(shape.has_unit_sub):
        raise click.BadParameter("units are not supported: leave -u and -s out")
    if shape.perm not in _PERMS:
        raise click.BadParameter("-p is 2, 4 or 6")
    attributes, is_ordered = attributes_in(shape.attributes), switch(shape.order)
    masters = await brokers.masters(admin)
    for _, address in masters:
        await admin.topics.create(
            topic,
            broker=address,
            read_queues=shape.read_queues,
            write_queues=shape.write_queues,
            perm=Perm(shape.perm),
            ordered=is_ordered,
            attributes=attributes,
        )
        line("create topic to %s success.", address)
    if is_ordered:
        names = [name for name, _ in masters if name]
        await admin.nameservers.put_kv(
            _ORDER_NAMESPACE, topic, ";".join(f"{name}:{shape.write_queues}" for name in names)
        )
    line(
        "TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=%s, attributes=%s]",
        *(topic, shape.read_queues, shape.write_queues, _PERMS[shape.perm], str(is_ordered).lower()),
        properties_text({f"+{name}": value for name, value in attributes.items()}),
    )


async def update_topic_perm(
    admin: Admin,
    topic: TopicOption,
    perm: Annotated[int, Option("-p", "--perm", help="Set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW].")],
    brokers: BrokersOptions,
) -> None:
    """Update topic perm."""
    from pyromq.model.topic import Perm

    if perm not in _PERMS:
        raise click.BadParameter("-p is 2, 4 or 6")
    for name, address in await brokers.masters(admin):
        before = await admin.topics.set_permission(topic, Perm(perm), broker=name or address)
        for old in before.values():
            line("update topic perm from %d to %d in %s success.", old, perm, address)


async def delete_topic(admin: Admin, topic: TopicOption, cluster: ClusterNameOption) -> None:
    """Delete topic from broker and NameServer."""
    await admin.topics.delete(topic, cluster=cluster)
    line("delete topic [%s] from cluster [%s] success.", topic, cluster)
    line("delete topic [%s] from NameServer success.", topic)


async def topic_list(
    admin: Admin,
    with_clusters: Annotated[bool, Option("-c", "--clusterModel", help="Also clusters and consumer groups.")] = False,
) -> None:
    """Fetch all topic list from name server."""
    if not with_clusters:
        for name in await admin.topics.names():
            line("%s", name)
        return
    from pyromq.model.system_names import TopicKind
    from pyromq.operate.lists import ListQuestion

    page = await admin.topics.list(ListQuestion(with_system=True))
    rows = {row.topic: row for row in page.rows if row.kind.is_users or row.kind is TopicKind.SYSTEM}
    line("%-20s  %-48s  %-48s", "#Cluster Name", "#Topic", "#Consumer Group")
    for cluster in sorted((await admin.brokers.cluster()).cluster_addr_table):
        for name in await admin.topics.names(cluster=cluster):
            for group in [each.group for each in rows[name].groups] or [""] if name in rows else ():
                line("%-20s  %-64s  %-64s", cluster, name, group)


async def topic_route(
    admin: Admin,
    topic: TopicOption,
    as_list: Annotated[bool, Option("-l", "--list", help="Use list format to print data.")] = False,
) -> None:
    """Examine topic route info."""
    import msgspec

    route = await admin.topics.route(topic)
    if not as_list:
        click.echo(msgspec.json.format(msgspec.json.encode(route), indent=4).decode())
        return
    form = "%-45s %-32s %-50s %-10s %-11s %-5s"
    line(form, "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    queues = {each.broker_name: each for each in route.queue_datas}
    for data in sorted(route.broker_datas, key=lambda each: each.broker_name):
        held = queues[data.broker_name]
        addresses = "{" + ", ".join(f"{number}={address}" for number, address in data.broker_addrs.items()) + "}"
        line(
            *(form, data.cluster, data.broker_name, addresses),
            *(held.read_queue_nums, held.write_queue_nums, int(held.perm)),
        )
    line("%s", "-" * 158)
    sums = (sum(each.read_queue_nums for each in queues.values()), sum(e.write_queue_nums for e in queues.values()))
    line("%-45s %-32s %-50s %-10s %-11s", "Total:", len(queues), "", *sums)


async def topic_status(admin: Admin, topic: TopicOption, cluster: RouteOption = "") -> None:
    """Examine topic Status info."""
    stats = await admin.topics.stats(topic)
    line("%-32s  %-4s  %-20s  %-20s    %s", "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    for queue, held in stats.items():
        last = exact_time_text(held.last_update_timestamp)
        line("%-32s  %-4d  %-20d  %-20d    %s", queue.broker, queue.number, held.min_offset, held.max_offset, last)
    rate = 0.0
    for broker in {queue.broker for queue in stats}:
        measured = await admin.brokers.stats(broker, "TOPIC_PUT_NUMS", admin.client.wire_name(topic))
        rate += measured.stats_minute.tps if measured else 0.0
    line("\nTopic Put TPS: %s", round(rate, 2))


async def topic_cluster_list(admin: Admin, topic: TopicOption) -> None:
    """Get cluster info for topic."""
    route = await admin.topics.route(topic)
    for cluster in sorted({data.cluster for data in route.broker_datas}):
        line("%s", cluster)


async def allocate_mq(
    admin: Admin,
    topic: TopicOption,
    addresses: Annotated[str, Option("-i", "--ipList", help="Addresses of members, separated by commas.")],
) -> None:
    """Allocate MQ."""
    import msgspec

    from pyromq.client.consumer.rules.assign import assign_evenly

    queues = sorted((await admin.topics.route(topic)).readable_queues(admin.client.wire_name(topic)))
    members = [each.strip() for each in addresses.split(",") if each.strip()]
    if not members:
        raise click.BadParameter("-i names no member")
    result = {
        member: [
            {"brokerName": queue.broker, "queueId": queue.number, "topic": queue.topic}
            for queue in assign_evenly(queues, members, member)
        ]
        for member in members
    }
    click.echo(msgspec.json.encode({"result": result}).decode())


async def stats_all(
    admin: Admin,
    only_active: Annotated[bool, Option("-a", "--activeTopic", help="Print active topic only.")] = False,
    topic: Annotated[str, Option("-t", "--topic", complete="topics", help="Print select topic only.")] = "",
) -> None:
    """Topic and Consumer tps stats."""
    from pyromq.model.system_names import TopicKind
    from pyromq.operate.lists import ListQuestion

    page = await admin.topics.list(ListQuestion(pattern=topic, with_system=True))
    names = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
    line(_NUMBERED, *names)
    for row in page.rows:
        if not (row.kind.is_users or row.kind is TopicKind.SYSTEM) or (topic and row.topic != topic):
            continue
        put, put_day = await _growth(admin, "TOPIC_PUT_NUMS", admin.client.wire_name(row.topic))
        if only_active and not put_day:
            continue
        if not row.groups:
            line(_NUMBERED, row.topic, "", 0, f"{put:.2f}", "", put_day, "NO_CONSUMER")
        for each in row.groups:
            key = f"{admin.client.wire_name(row.topic)}@{admin.client.wire_name(each.group)}"
            got, got_day = await _growth(admin, "GROUP_GET_NUMS", key)
            line(_NUMBERED, row.topic, each.group, each.lag, f"{put:.2f}", f"{got:.2f}", put_day, got_day)


async def _growth(admin: Admin, name: str, key: str) -> tuple[float, int]:
    """A rate over the last minute, and how many in a day, of all brokers."""
    rate, day = 0.0, 0
    for broker in (await admin.brokers.cluster()).broker_addr_table:
        if stats := await admin.brokers.stats(broker, name, key):
            rate += stats.stats_minute.tps
            day += stats.stats_day.sum
    return rate, day
