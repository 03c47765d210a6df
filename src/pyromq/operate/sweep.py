"""Sweep: one bulk read of all masters, what lists, ``top``, console and doctor are made from.

of every broker, once      all topic settings (21), all group settings (201), progress of all groups (317)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import MQError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.wire.json.bodies import BrokerConsumeStats


class TopicProgress(NamedTuple):
    """How far one group is behind in one topic over all brokers, and how many messages a second it gets."""

    lag: int = 0
    rate: float = 0.0


class BrokerTables(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker has; ``progress`` is why it did not say how far groups are, where it did not."""

    topics: dict[str, TopicConfig]
    groups: dict[str, GroupConfig]
    progress: BrokerConsumeStats | MQError


class GroupTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A group over all its queues, as brokers sum it up; ``retrying`` is the part of ``lag`` that failed before."""

    lag: int = 0
    retrying: int = 0
    get_rate: float = 0.0
    topics: tuple[str, ...] = ()


class ClusterSweep:
    """What all brokers said; names are as servers know them. A broker that did not answer is one of ``problems``."""

    def __init__(self, brokers: dict[str, BrokerTables], problems: tuple[str, ...] = ()) -> None:
        self.brokers = brokers
        self._missing = problems

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
            _add_progress(found, tables.progress)
        return found

    @property
    def problems(self) -> tuple[str, ...]:
        silent = {broker: each.progress for broker, each in self.brokers.items() if isinstance(each.progress, MQError)}
        told = (f"lag and rates of groups are missing: broker {name}: {error}" for name, error in silent.items())
        return (*self._missing, *told)

    def total(self, group: str, plain_name: Callable[[str], str]) -> GroupTotals | None:
        """Return a group over all its topics; None where a broker did not tell. One without an offset has no lag."""
        return None if self.progress is None else _total(self.progress.get(group, {}), plain_name)

    def totals(self, plain_name: Callable[[str], str]) -> dict[str, GroupTotals]:
        """Return every group that has an offset, over all its topics. Raises MQError where a broker did not tell."""
        for tables in self.brokers.values():
            if isinstance(tables.progress, MQError):
                raise tables.progress
        known = (self.progress or {}).items()
        return {plain_name(group): _total(topics, plain_name) for group, topics in known if topics}


class Sweeper:
    """Reads what all masters have, and keeps the last read for those whom it is new enough."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._clock = requests.client.clock
        self._last: tuple[int, asyncio.Future[ClusterSweep]] | None = None  # when it began, by the monotonic clock

    async def read(self, *, max_age_ms: int = 0) -> ClusterSweep:
        """Read all masters, or return a read that began at most ``max_age_ms`` ago. Raises MQError if none answers."""
        now_ms = self._clock.monotonic_ms()
        if self._last is not None and max_age_ms and now_ms - self._last[0] <= max_age_ms:
            return await asyncio.shield(self._last[1])
        reading = asyncio.ensure_future(self._read())
        self._last = now_ms, reading
        try:
            return await asyncio.shield(reading)
        except MQError:
            self._last = None  # the next one asks again
            raise

    def forget(self) -> None:
        """Read anew the next time, because something changed."""
        self._last = None

    async def _read(self) -> ClusterSweep:
        masters = await self._requests.directory.named_masters()
        outcomes = await asyncio.gather(*map(self._tables, masters.values()), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, MQError) or len(failures) == len(outcomes):
                raise failure
        told = dict(zip(masters, outcomes, strict=True))
        missing = [f"broker {name} is missing: {each}" for name, each in told.items() if isinstance(each, MQError)]
        return ClusterSweep(
            {name: each for name, each in told.items() if isinstance(each, BrokerTables)}, tuple(missing)
        )

    async def _tables(self, address: str) -> BrokerTables:
        brokers = self._requests.brokers
        topics, groups = await brokers.topic_configs(address), await brokers.group_configs(address)
        try:
            progress: BrokerConsumeStats | MQError = await brokers.progress_of_all(address)
        except MQError as error:  # too much for one response, or not allowed: the list is there all the same
            progress = error
        return BrokerTables(topics=topics, groups=groups, progress=progress)


def _add_progress(found: dict[str, dict[str, TopicProgress]], told: BrokerConsumeStats) -> None:
    for group, stats in ((group, each) for table in told.consume_stats_list for group, each in table.items()):
        topics = found.setdefault(group, {})
        for each in stats:  # of one topic
            behind: dict[str, int] = {}
            for queue, held in each.offset_table.items():
                behind[queue.topic] = behind.get(queue.topic, 0) + max(0, held.broker_offset - held.consumer_offset)
            for topic, lag in behind.items():
                was = topics.get(topic, TopicProgress())
                topics[topic] = TopicProgress(was.lag + lag, was.rate + each.consume_tps)


def _total(topics: dict[str, TopicProgress], plain_name: Callable[[str], str]) -> GroupTotals:
    return GroupTotals(
        lag=sum(each.lag for each in topics.values()),
        retrying=sum(each.lag for topic, each in topics.items() if topic.startswith(RETRY_PREFIX)),
        get_rate=sum(each.rate for each in topics.values()),
        topics=tuple(sorted(plain_name(topic) for topic in topics if not topic.startswith(RETRY_PREFIX))),
    )
