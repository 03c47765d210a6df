"""mqadmin's sub-commands about brokers and clusters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli import clock
from pyromq.cli.connection import DEFAULT_NAMESERVER, with_admin
from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import BrokerAddrOption, BrokersOptions, ClusterNameOption, NamesrvOption, switch
from pyromq.cli.mqadmin.printing import line, time_text
from pyromq.cli.option_records import unfolded
from pyromq.errors import MQError

if TYPE_CHECKING:
    from pyromq.aio import Admin
    from pyromq.wire.json.bodies import ReplicationState

_CLUSTER = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
_MORE = "%-16s  %-32s %14s %14s %14s %14s"
_CONSUMED = "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
CleaningClusterOption = Annotated[str, Option("-c", "--cluster", help="Cluster name; neither: all brokers.")]


def cluster_list(
    more: Annotated[bool, Option("-m", "--moreStats", help="Print more stats.")] = False,
    interval: Annotated[
        float, Option("-i", "--interval", min=0, help="Specify intervals numbers, it is in seconds.")
    ] = 0,
    cluster: ClusterNameOption = "",
    namesrv: NamesrvOption = DEFAULT_NAMESERVER,
) -> None:
    """List cluster infos."""
    _repeat(namesrv, interval, lambda admin: _list_clusters(admin, cluster, more))


def _repeat(namesrv: str, interval: float, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Once, or every ``interval`` seconds until Ctrl-C."""
    try:
        while True:
            with_admin(namesrv, work)
            if not interval:
                return
            line("")
            clock.pause(interval)
    except KeyboardInterrupt:
        return


async def _list_clusters(admin: Admin, cluster: str, more: bool) -> None:
    info = await admin.brokers.cluster()
    if more:
        line(_MORE, "#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
    else:
        line(
            *(_CLUSTER, "#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)"),
            *("#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED"),
        )
    for name, data in sorted(info.broker_addr_table.items()):
        if cluster and data.cluster != cluster:
            continue
        for number, address in sorted(data.broker_addrs.items()):
            try:
                facts = await admin.brokers.runtime(address)
            except MQError as error:
                click.echo(f"broker {name} {address} does not answer: {error}", err=True)
                facts = {}
            row = _totals(facts) if more else _state(facts)
            line(_MORE, data.cluster, name, *row) if more else line(_CLUSTER, data.cluster, name, number, address, *row)


def _totals(facts: dict[str, str]) -> tuple[int, ...]:
    def between(kind: str, later: str, earlier: str) -> int:
        return int(facts.get(f"msg{kind}Total{later}", 0)) - int(facts.get(f"msg{kind}Total{earlier}", 0))

    yesterday, today = ("TodayMorning", "YesterdayMorning"), ("TodayNow", "TodayMorning")
    return tuple(between(kind, *span) for span in (yesterday, today) for kind in ("Put", "Get"))


def _state(facts: dict[str, str]) -> tuple[object, ...]:
    def queue(kind: str) -> str:
        size, wait = f"{kind}ThreadPoolQueueSize", f"{kind}ThreadPoolQueueHeadWaitTimeMills"
        return f"{facts.get(size, '')},{facts.get(wait, '')}ms"

    oldest_ms = _number(facts.get("earliestMessageTimeStamp", ""))
    hours = (clock.now_ms() - oldest_ms) / 3_600_000 if oldest_ms > 0 else 0.0
    behind = _number(facts.get("timerReadBehind", "")), _number(facts.get("timerOffsetBehind", ""))
    rates = (facts.get("timerEnqueueTps", "0.0"), facts.get("timerDequeueTps", "0.0"))
    waiting = _number(facts.get("timerCongestNum", "")) / 10_000
    return (
        facts.get("brokerVersionDesc", ""),
        f"{_first(facts.get('putTps', ''))}({queue('send')})",
        f"{_first(facts.get('getTransferredTps', ''))}({queue('pull')}|{queue('ack')})",
        f"{behind[0]:.0f}-{behind[1]:.0f}({waiting:.1f}w, {_first(rates[0])}, {_first(rates[1])})",
        facts.get("pageCacheLockTimeMills", ""),
        f"{hours:.2f}",
        f"{_number(facts.get('commitLogDiskRatio', '')):.4f}",
        facts.get("brokerActive", ""),
    )


def _first(text: str) -> str:
    """First of three rates, the one over ten seconds."""
    return f"{_number(text.split()[0] if text.split() else ''):.2f}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


async def broker_status(admin: Admin, brokers: BrokersOptions) -> None:
    """Fetch broker runtime status data."""
    for _, address in await brokers.masters(admin):
        for key, value in sorted((await admin.brokers.runtime(address)).items()):
            if brokers.cluster:
                line("%-24s %-32s: %s", address, key, value)
            else:
                line("%-32s: %s", key, value)


@unfolded
def ha_status(
    brokers: BrokersOptions,
    interval: Annotated[float, Option("-i", "--interval", min=0, help="The interval (second) of get info.")] = 0,
    namesrv: NamesrvOption = DEFAULT_NAMESERVER,
) -> None:
    """Fetch ha runtime status data."""

    async def work(admin: Admin) -> None:
        for _, address in await brokers.masters(admin):
            _print_replication(address, await admin.replication.state(address))

    _repeat(namesrv, interval, work)


def _print_replication(address: str, state: ReplicationState) -> None:
    if state.master:
        line("\n#MasterAddr\t%s\n#MasterCommitLogMaxOffset\t%d", address, state.master_commit_log_max_offset)
        line("#SlaveNum\t%d\n#InSyncSlaveNum\t%d", len(state.ha_connection_info), state.in_sync_slave_nums)
        titles = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
        line("%-32s  %-16s %16s %16s %16s %16s", *titles)
        for each in state.ha_connection_info:
            line(
                *("%-32s  %-16d %16d %16.2f %16s %16d", each.addr, each.slave_ack_offset, each.diff),
                *(each.transferred_byte_in_second / 1024, "OK" if each.in_sync else "Fall Behind"),
                each.transfer_from_where,
            )
        return
    replica = state.ha_client_runtime_info
    line("\n#MasterAddr\t%s\n#CommitLogMaxOffset\t%d", replica.master_addr, replica.max_offset)
    line("#TransferSpeed(KB/s)\t%.2f", replica.transferred_byte_in_second / 1024)
    line("#LastReadTime\t%s", time_text(replica.last_read_timestamp))
    line(
        "#LastWriteTime\t%s\n#MasterFlushOffset\t%s",
        time_text(replica.last_write_timestamp),
        replica.master_flush_offset,
    )


async def broker_consume_stats(
    admin: Admin,
    broker: BrokerAddrOption,
    level: Annotated[int, Option("-l", "--level", help="Threshold of print diff.")] = 0,
    order: Annotated[str, Option("-o", "--order", help="Order topics only (true|false).")] = "",
    timeout: Annotated[int, Option("-t", "--timeoutMillis", hidden=True, help="Request timeout Millis.")] = 50_000,
) -> None:
    """Fetch broker consume stats data."""
    progress = await admin.brokers.progress(broker, ordered_only=switch(order))
    titles = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    line(_CONSUMED, *titles)
    for group, stats in ((group, each) for table in progress.consume_stats_list for group, each in table.items()):
        for queue, held in sorted((queue, held) for one in stats for queue, held in one.offset_table.items()):
            left = held.broker_offset - held.consumer_offset
            if left < level or held.last_timestamp <= 0:
                continue
            place = (queue.topic, group, queue.broker, queue.number)
            line(_CONSUMED, *place, held.broker_offset, held.consumer_offset, left, time_text(held.last_timestamp))
    line("\nDiff Total: %d", progress.total_diff)


async def get_broker_config(admin: Admin, brokers: BrokersOptions) -> None:
    """Get broker config by cluster or special broker."""
    for _, address in await brokers.masters(admin):
        line("============%s%s============", "Master: " if brokers.cluster else "", address)
        for key, value in (await admin.brokers.config(address)).items():
            line("%-50s=  %s", key, value)
        line("")


async def update_broker_config(
    admin: Admin,
    key: Annotated[str, Option("-k", "--key", help="Config key.")],
    value: Annotated[str, Option("-v", "--value", help="Config value.")],
    brokers: BrokersOptions,
    every: Annotated[str, Option("-a", "--updateAllBroker", help="Update all brokers include slave.")] = "",
) -> None:
    """Update broker's config."""
    info = await admin.brokers.cluster()
    addresses = [address for _, address in brokers.masters_in(info)]
    if brokers.cluster and switch(every):
        names = info.cluster_addr_table.get(brokers.cluster, ())
        addresses = [each for name in names for each in info.broker_addr_table[name].broker_addrs.values()]
    for address in addresses:
        await admin.brokers.update_config(address, {key: value})
        line("update broker config success, %s", address)


async def clean_expired_cq(admin: Admin, broker: BrokerAddrOption = "", cluster: CleaningClusterOption = "") -> None:
    """Clean expired ConsumeQueue on broker."""
    await admin.brokers.clean_expired_queues(cluster=cluster, broker=broker)
    line("success")


async def delete_expired_commit_log(
    admin: Admin, broker: BrokerAddrOption = "", cluster: CleaningClusterOption = ""
) -> None:
    """Delete expired CommitLog files."""
    await admin.brokers.delete_expired_log(cluster=cluster, broker=broker)
    line("success")


async def clean_unused_topic(admin: Admin, broker: BrokerAddrOption = "", cluster: CleaningClusterOption = "") -> None:
    """Clean unused topic on broker."""
    await admin.brokers.clean_unused_topics(cluster=cluster, broker=broker)
    line("success")
