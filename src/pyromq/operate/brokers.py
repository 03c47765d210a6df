"""Brokers and name servers: their settings, what they are doing, and their care."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import MQError, printable
from pyromq.metrics.health import disk_percent
from pyromq.operate.sweep import BrokerProcess, Sweeper, bytes_behind
from pyromq.wire.json.bodies import BrokerConsumeStats, StatsData
from pyromq.wire.json.route import ClusterInfo

_CAPACITY: Final = re.compile(r"Total : ([\d.]+) ?([A-Za-z]*), Free : ([\d.]+) ?([A-Za-z]*)\.?")
_POWERS: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process in a list; ``number`` 0 is the master. ``problem`` is why it did not answer, or empty.

    Rates are messages a second over the last ten seconds. Sizes of the disk of its log are bytes, 0 if it did not tell.
    """

    cluster: str
    broker: str
    number: int
    address: str
    time_ms: int = 0  # when it was asked
    version: str = ""
    started_ms: int = 0
    put_rate: float = 0.0
    get_rate: float = 0.0
    messages_today: int = 0
    log_end: int = 0
    behind_bytes: int | None = None  # of a replica: what its master's log has beyond its own
    put_bytes: int = 0
    disk_percent: float = 0.0
    disk_free: int = 0
    disk_total: int = 0
    members_away: int = 0  # of a master under a failover agent: members that do not follow it
    problem: str = ""

    @property
    def is_master(self) -> bool:
        return self.number == 0

    @property
    def key(self) -> str:
        return f"{self.broker}/{self.number}"


_Rows: TypeAlias = list[BrokerRow]  # the facet has a method ``list``


class BrokerFacet:
    """``admin.brokers``: brokers, by their names or addresses."""

    def __init__(self, requests: AdminRequests, sweeper: Sweeper) -> None:
        self._requests = requests.brokers
        self._nameservers = requests.nameservers
        self._directory = requests.directory
        self._sweeper = sweeper

    async def list(self) -> _Rows:
        """Return every broker process that name servers know, masters before their replicas."""
        found = [row_of(process) for process in await self._sweeper.processes()]
        ends = {row.broker: row.log_end for row in found if row.is_master and not row.problem}
        return [
            row
            if row.is_master or row.problem or row.broker not in ends
            else msgspec.structs.replace(row, behind_bytes=bytes_behind(row.log_end, ends[row.broker]))
            for row in found
        ]

    async def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses, and the brokers of each cluster."""
        return await self._nameservers.cluster()

    async def config(self, broker: str) -> dict[str, str]:
        """Return the configuration of a broker in RocketMQ's words."""
        return await self._requests.config(broker)

    async def update_config(self, broker: str, values: dict[str, str]) -> None:
        """Change settings of a broker. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._requests.update_config(broker, values)

    async def runtime(self, broker: str) -> dict[str, str]:
        """Return what a broker is doing."""
        return await self._requests.runtime(broker)

    async def stats(self, broker: str, name: str, key: str) -> StatsData | None:
        """Return one of RocketMQ's statistics, such as TOPIC_PUT_NUMS of a topic; None when nothing happened yet."""
        return await self._requests.stats(broker, name, key)

    async def progress(self, broker: str, *, ordered_only: bool = False) -> BrokerConsumeStats:
        """Return how far every group of a broker is in every topic it consumes."""
        return await self._requests.progress_of_all(broker, ordered_only=ordered_only)

    async def wipe_write_permission(self, broker: str) -> dict[str, int]:
        """Make producers leave a broker, which consumers go on reading; return how many topics changed, by server."""
        return await self._nameservers.wipe_write_permission(broker)

    async def add_write_permission(self, broker: str) -> dict[str, int]:
        """Let producers come back to a broker; return how many topics changed, by name server."""
        return await self._nameservers.add_write_permission(broker)

    async def clean_expired_queues(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete files of consume queues whose messages are gone."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.clean_expired_queues(address) for address in masters])

    async def delete_expired_log(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete files of the commit log that are older than messages are kept."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.delete_expired_log(address) for address in masters])

    async def clean_unused_topics(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete consume queues of topics that they do not have any more."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.clean_unused_topics(address) for address in masters])


class NameServerFacet:
    """``admin.nameservers``: name servers. They do not talk to each other, so each is asked, and each is changed."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.nameservers

    async def config(self) -> dict[str, dict[str, str]]:
        """Return the configuration of each name server by its address, in RocketMQ's words."""
        return await self._requests.config()

    async def update_config(self, values: dict[str, str]) -> None:
        """Change settings of all name servers. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._requests.update_config(values)

    async def kv(self, namespace: str) -> dict[str, str]:
        """Return what one name server keeps under a namespace; nothing if there is none."""
        return await self._requests.kv(namespace)

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Write a value into the key-value table of all name servers."""
        await self._requests.put_kv(namespace, key, value)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value from the key-value table of all name servers."""
        await self._requests.delete_kv(namespace, key)


def row_of(process: BrokerProcess) -> BrokerRow:
    """Make a row of what a process says about itself."""
    told = process.told
    row = BrokerRow(
        cluster=process.cluster,
        broker=process.broker,
        number=process.number,
        address=process.address,
        time_ms=process.time_ms,
    )
    if isinstance(told, MQError):
        return msgspec.structs.replace(row, problem=printable(str(told)))
    total, free = capacity(told.get("commitLogDirCapacity", ""))
    return msgspec.structs.replace(
        row,
        version=told.get("brokerVersionDesc", ""),
        started_ms=_whole(told, "bootTimestamp"),
        put_rate=first_number(told.get("putTps", "")),
        get_rate=first_number(told.get("getTransferredTps") or told.get("getTransferedTps", "")),  # of before 4.9.3
        messages_today=max(0, _whole(told, "msgPutTotalTodayNow") - _whole(told, "msgPutTotalTodayMorning")),
        log_end=_whole(told, "commitLogMaxOffset"),
        put_bytes=_whole(told, "putMessageSizeTotal"),
        disk_percent=disk_percent(told),
        disk_free=free,
        disk_total=total,
        members_away=len(told.get("failoverAway", "").split()),
    )


def cluster_rates(rows: Iterable[BrokerRow]) -> tuple[float, float]:
    """Messages a second that a cluster takes and gives: only masters take them, replicas give some of them, too."""
    known = list(rows)
    return sum(row.put_rate for row in known if row.is_master), sum(row.get_rate for row in known)


def capacity(text: str) -> tuple[int, int]:
    """Total and free bytes of ``Total : 1.5 GiB, Free : 800 MiB.``; plain numbers are bytes, 0 where it is neither."""
    found = _CAPACITY.match(text)
    if found is None:
        return 0, 0
    return _bytes(found[1], found[2]), _bytes(found[3], found[4])


def first_number(text: str) -> float:
    """First of ``12.5 3.1 0.2``, the rates over ten seconds, one minute and ten minutes; 0 where there is none."""
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0


def last_number(text: str) -> float:
    """Last of ``12.5 3.1 0.2``, the rate over ten minutes; 0 where there is none."""
    return first_number(text.split()[-1]) if text.split() else 0.0


def _whole(told: Mapping[str, str], key: str) -> int:
    return int(first_number(told.get(key, "")))


def _bytes(number: str, unit: str) -> int:
    power = _POWERS.get(unit[:1].lower(), 0)
    base = 1024 if "i" in unit or not unit else 1000
    return int(first_number(number) * base**power)
