"""Sweep: one bulk read of a cluster, what lists, ``top``, console, exporter and doctor are made from.

of every master, once      all topic settings (21), all group settings (201), progress of all groups (317)
of every process, once     what it says about itself (28)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.wire.json.bodies import BrokerConsumeStats, QueueProgress

T = TypeVar("T")


class BrokerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process that name servers know; ``told`` is what it says about itself, or why it did not answer."""

    cluster: str
    broker: str
    number: int  # 0 is the master
    address: str
    time_ms: int  # when it was asked
    told: dict[str, str] | MQError = {}

    @property
    def name(self) -> str:
        return f"broker {self.broker}" if self.number == 0 else f"replica {self.number} of {self.broker}"


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one topic on one broker: how many messages a second it gets, and how far it is in each queue."""

    group: str
    topic: str
    rate: float
    queues: dict[QueueId, QueueProgress]

    @property
    def lag(self) -> int:
        return sum(max(0, held.broker_offset - held.consumer_offset) for held in self.queues.values())


class TopicProgress(NamedTuple):
    """How far one group is behind in one topic over all brokers, and how many messages a second it gets."""

    lag: int = 0
    rate: float = 0.0


class BrokerTables(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker has; ``progress`` is why it did not say how far groups are, where it did not."""

    topics: dict[str, TopicConfig]
    groups: dict[str, GroupConfig]
    progress: BrokerConsumeStats | MQError

    def progresses(self) -> Iterator[GroupProgress]:
        """Yield how far each group is in each topic; nothing where the broker did not tell."""
        if isinstance(self.progress, MQError):
            return
        tables = self.progress.consume_stats_list
        for group, topics in ((name, each) for table in tables for name, each in table.items()):
            for stats in topics:  # of one topic
                queues: dict[str, dict[QueueId, QueueProgress]] = {}
                for queue, held in stats.offset_table.items():
                    queues.setdefault(queue.topic, {})[queue] = held
                for topic, found in queues.items():
                    yield GroupProgress(group=group, topic=topic, rate=stats.consume_tps, queues=found)


class GroupTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A group over all its queues, as brokers sum it up; ``retrying`` is the part of ``lag`` that failed before."""

    lag: int = 0
    retrying: int = 0
    get_rate: float = 0.0
    topics: tuple[str, ...] = ()


class ClusterSweep:
    """What all masters said; names are as servers know them. ``missing`` are those that did not answer, and why."""

    def __init__(
        self, brokers: dict[str, BrokerTables], plain_name: Callable[[str], str], missing: Mapping[str, MQError] = {}
    ) -> None:
        self.brokers = brokers
        self.missing = missing
        self._plain_name = plain_name

    @cached_property
    def topics(self) -> dict[str, dict[str, TopicConfig]]:
        """Configurations by topic, then by broker."""
        found: dict[str, dict[str, TopicConfig]] = {}
        for broker, tables in self.brokers.items():
            for name, config in tables.topics.items():
                found.setdefault(name, {})[broker] = config
        return found

    @cached_property
    def groups(self) -> dict[str, GroupConfig]:
        """Groups as the first broker that knows each has them."""
        return {name: config for tables in reversed(self.brokers.values()) for name, config in tables.groups.items()}

    @cached_property
    def progress(self) -> dict[str, dict[str, TopicProgress]] | None:
        """By group, then by topic; None where a broker did not tell: a sum without it would be wrong."""
        found: dict[str, dict[str, TopicProgress]] = {}
        for tables in self.brokers.values():
            if isinstance(tables.progress, MQError):
                return None
            for each in tables.progresses():
                topics = found.setdefault(each.group, {})
                was = topics.get(each.topic, TopicProgress())
                topics[each.topic] = TopicProgress(was.lag + each.lag, was.rate + each.rate)
        return found

    @property
    def problems(self) -> tuple[str, ...]:
        silent = {broker: each.progress for broker, each in self.brokers.items() if isinstance(each.progress, MQError)}
        return (
            *(f"broker {name} is missing: {error}" for name, error in self.missing.items()),
            *(f"lag and rates of groups are missing: broker {name}: {error}" for name, error in silent.items()),
        )

    def queues_of(self, topic: str) -> int:
        """Return how many queues a topic has for reading on all brokers; 0 where there is none."""
        return sum(config.read_queue_nums for config in self.topics.get(topic, {}).values())

    def total(self, group: str) -> GroupTotals | None:
        """Return a group over all its topics; None where a broker did not tell. One without an offset has no lag."""
        return None if self.progress is None else _total(self.progress.get(group, {}), self._plain_name)

    def totals(self) -> dict[str, GroupTotals]:
        """Return every group that has an offset, over all its topics.

        Raises MQError where a broker is missing or did not tell: sums without it would look like progress.
        """
        silent = [each.progress for each in self.brokers.values() if isinstance(each.progress, MQError)]
        for problem in (*self.missing.values(), *silent):
            raise problem
        known = (self.progress or {}).items()
        name = self._plain_name
        return {name(group): _total(topics, name) for group, topics in known if topics}


class SharedRead(Generic[T]):
    """A read whose last outcome serves all for whom it is new enough; who comes while it runs waits for it."""

    def __init__(self, clock: Clock, load: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._load = load
        self._last: tuple[int, asyncio.Future[T]] | None = None  # when it began, by the monotonic clock

    async def get(self, max_age_ms: int) -> T:
        """Return an outcome that began at most ``max_age_ms`` ago; with 0, a new one. Raises what reading raises."""
        now_ms = self._clock.monotonic_ms()
        if self._last is not None and max_age_ms and now_ms - self._last[0] <= max_age_ms:
            return await asyncio.shield(self._last[1])
        reading = asyncio.ensure_future(self._load())
        self._last = now_ms, reading
        reading.add_done_callback(self._over)
        return await asyncio.shield(reading)

    def _over(self, reading: asyncio.Future[T]) -> None:
        """One that failed is not kept: the next one asks again, also where the first gave up."""
        is_kept = self._last is not None and self._last[1] is reading
        if (reading.cancelled() or reading.exception() is not None) and is_kept:
            self._last = None

    def forget(self) -> None:
        self._last = None


class Sweeper:
    """Reads a whole cluster, and keeps the last read for those whom it is new enough."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._tables = SharedRead(requests.client.clock, self._read_tables)
        self._processes = SharedRead(requests.client.clock, self._read_processes)

    async def read(self, *, max_age_ms: int = 0) -> ClusterSweep:
        """Read the tables of all masters, or return a read of at most that age. Raises MQError if none answers."""
        return await self._tables.get(max_age_ms)

    async def processes(self, *, max_age_ms: int = 0) -> list[BrokerProcess]:
        """Ask every broker process about itself, masters before their replicas. Raises MQError without name servers."""
        return await self._processes.get(max_age_ms)

    def forget(self) -> None:
        """Read anew the next time, because something changed."""
        self._tables.forget()
        self._processes.forget()

    async def _read_tables(self) -> ClusterSweep:
        masters = await self._requests.directory.named_masters()
        told = await _answers({name: self._tables_of(address) for name, address in masters.items()})
        missing = {name: each for name, each in told.items() if isinstance(each, MQError)}
        if len(missing) == len(told):
            raise next(iter(missing.values()))
        brokers = {name: each for name, each in told.items() if not isinstance(each, MQError)}
        return ClusterSweep(brokers, self._requests.client.plain_name, missing)

    async def _tables_of(self, address: str) -> BrokerTables:
        brokers = self._requests.brokers
        topics, groups, progress = await asyncio.gather(  # one response is read while the broker writes the next
            brokers.topic_configs(address),
            brokers.group_configs(address),
            _answer(brokers.progress_of_all(address)),  # too much for one response, or not allowed: lists without it
        )
        return BrokerTables(topics=topics, groups=groups, progress=progress)

    async def _read_processes(self) -> list[BrokerProcess]:
        now_ms = self._requests.client.clock.now_ms()
        table = (await self._requests.nameservers.cluster()).broker_addr_table
        known = {
            (name, number): BrokerProcess(
                cluster=data.cluster, broker=name, number=number, address=address, time_ms=now_ms
            )
            for name, data in sorted(table.items())
            for number, address in sorted(data.broker_addrs.items())
        }
        told = await _answers({key: self._requests.brokers.runtime(each.address) for key, each in known.items()})
        return [msgspec.structs.replace(each, told=told[key]) for key, each in known.items()]


async def _answers(asked: dict[Any, Coroutine[Any, Any, T]]) -> dict[Any, T | MQError]:
    """Wait for all; what fails with MQError is an answer, too."""
    return dict(zip(asked, await asyncio.gather(*map(_answer, asked.values())), strict=True))


async def _answer(work: Awaitable[T]) -> T | MQError:
    try:
        return await work
    except MQError as error:
        return error


def bytes_behind(end: int | None, master_end: int | None) -> int | None:
    """Return what the log of a master has beyond that of its replica; None where one of them is not known."""
    return None if end is None or master_end is None else max(0, master_end - end)


def _total(topics: dict[str, TopicProgress], plain_name: Callable[[str], str]) -> GroupTotals:
    return GroupTotals(
        lag=sum(each.lag for each in topics.values()),
        retrying=sum(each.lag for topic, each in topics.items() if topic.startswith(RETRY_PREFIX)),
        get_rate=sum(each.rate for each in topics.values()),
        topics=tuple(sorted(plain_name(topic) for topic in topics if not topic.startswith(RETRY_PREFIX))),
    )
