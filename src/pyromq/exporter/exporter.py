"""The exporter: rounds of admin requests, and what a scrape is shown of the last one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from pyromq.errors import ConfigError, GroupOfflineError, MQError
from pyromq.exporter.facts import BrokerFacts
from pyromq.exporter.families import parts_of
from pyromq.exporter.queries import query_families
from pyromq.metrics import exporter_table as table
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.samples import Family, ServerSamples
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.system_names import is_system_group
from pyromq.operate.admin import Admin
from pyromq.operate.query_reports import QueryReport, read_reports, reports_folder

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUESTS_AT_ONCE: Final = 8  # of one broker
_STALE_ROUNDS: Final = 3  # without one that worked, the exporter is not ready


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSettings:
    """Settings of the exporter. Raises ConfigError for what cannot work."""

    interval_ms: int = 15_000
    broker_timeout_ms: int = 10_000  # for what is asked about single topics and members of one broker in a round
    topics_max: int = 2_000  # on each broker whose queues are asked for, in the order of their names
    members_max: int = 500  # on each broker, likewise
    with_topics: bool = True
    with_members: bool = True
    queries: Path | None = None  # folder with reports of Spark's queries; None: where queries of this user leave them

    def __post_init__(self) -> None:
        if self.interval_ms < 1_000:
            raise ConfigError("the interval of an exporter is at least one second")
        if self.broker_timeout_ms < 100:
            raise ConfigError("a broker needs at least 100 ms to answer")


class Exporter:
    """``async with Exporter(admin, settings) as exporter``: rounds are made inside the block; a source of an endpoint.

    ``admin`` is open already.
    """

    def __init__(
        self,
        admin: Admin,
        settings: ExporterSettings | None = None,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._labels = dict(labels or {})  # of every series
        self._admin = admin
        self._clock = admin.client.clock
        self._settings = settings or ExporterSettings()
        self._task: asyncio.Task[None] | None = None
        self._brokers: dict[str, BrokerFacts] = {}  # by address
        self._queries: list[QueryReport] = []
        self._ends: dict[tuple[str, str], tuple[int, int]] = {}  # by address and topic: when, and its offsets added up
        self._round_s = 0.0
        self._made_ms: int | None = None  # the last round that reached a name server, by the monotonic clock
        self._began_ms = self._clock.monotonic_ms()
        self._trouble = ""
        self.errors = Counter[str]()

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="exporter")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                await self.refresh()
            except Exception:  # a defect of one round must not end the rounds
                logger.exception("round of admin requests failed")
            took_ms = self._clock.monotonic_ms() - began_ms
            await asyncio.sleep(max(1_000, self._settings.interval_ms - took_ms) / 1000)

    # --- a round ---

    async def refresh(self) -> None:
        """Ask everybody; what does not answer does not keep the others from being shown."""
        began_s, sweeper = self._clock.monotonic_s(), self._admin.sweeper
        self._queries = await asyncio.to_thread(read_reports, self._settings.queries or reports_folder())
        try:
            masters = [each for each in await sweeper.processes() if each.number == 0]
        except MQError as error:
            self.errors["cluster"] += 1
            if not self._trouble:
                logger.warning("name servers do not answer: reason=%s", error)
            self._trouble = f"name servers do not answer: {error}"
            return
        self._trouble = ""
        sweep = await self._or("tables", sweeper.read(), None) if masters else None
        self.errors.update(["tables"] * len(sweep.missing) if sweep else ())
        known = [BrokerFacts(each, sweep.brokers.get(each.broker) if sweep else None) for each in masters]
        await asyncio.gather(*(self._look_at(facts) for facts in known))
        addresses = {facts.address for facts in known}
        for facts in self._brokers.values():
            if facts.address not in addresses:
                logger.info("broker is not registered any more: broker=%s address=%s", facts.name, facts.address)
        shown = {(facts.address, topic) for facts in known for topic in facts.topics}
        self._ends = {key: end for key, end in self._ends.items() if key in shown}
        self._brokers = {facts.address: facts for facts in known}
        self._round_s, self._made_ms = self._clock.monotonic_s() - began_s, self._clock.monotonic_ms()

    async def _look_at(self, facts: BrokerFacts) -> None:
        try:
            if isinstance(facts.process.told, MQError):
                raise facts.process.told
            async with asyncio.timeout(self._settings.broker_timeout_ms / 1000):
                await self._look_closer(facts)
        except (MQError, TimeoutError) as error:
            self.errors["timeout" if facts.is_up else "runtime"] += 1
            was = self._brokers.get(facts.address)
            if was is None or was.is_up != facts.is_up:
                where = f"{facts.name} ({facts.address})"
                logger.warning("broker does not answer: broker=%s reason=%s", where, str(error) or "timeout")

    async def _look_closer(self, facts: BrokerFacts) -> None:
        """Each question by itself: brokers of other versions may not know all of them."""
        settings, tables = self._settings, facts.tables
        if tables is None:
            return
        if isinstance(tables.progress, MQError):
            self.errors["progress"] += 1
        if settings.with_topics:
            shown = [name for name in sorted(tables.topics) if not name.startswith(RETRY_PREFIX)]
            await _some_at_once(self._topic(facts, name) for name in shown[: settings.topics_max])
        if settings.with_members:
            groups = [group for group in sorted(tables.groups) if not is_system_group(group)]
            await _some_at_once(self._members(facts, group) for group in groups)
            asked = [(group, each.client_id) for group, told in facts.members.items() for each in told.connection_set]
            await _some_at_once(self._report(facts, *each) for each in asked[: settings.members_max])

    async def _or(self, request: str, work: Awaitable[T], otherwise: T) -> T:
        try:
            return await work
        except MQError as error:
            self.errors[request] += 1
            logger.debug("admin request failed: request=%s reason=%s", request, error)
            return otherwise

    async def _topic(self, facts: BrokerFacts, topic: str) -> None:
        stats = await self._or("topic stats", self._admin.measuring.topic_stats(facts.address, topic), None)
        if stats is None:
            return
        facts.topics[topic] = stats
        now_ms, key = self._clock.monotonic_ms(), (facts.address, topic)
        total = sum(held.max_offset for held in stats.offset_table.values())
        then_ms, then = self._ends.get(key, (now_ms, total))
        measured = max(0, total - then) * 1000 / (now_ms - then_ms) if now_ms > then_ms else 0.0
        facts.topic_rates[topic] = stats.topic_put_tps or measured
        self._ends[key] = now_ms, total

    async def _members(self, facts: BrokerFacts, group: str) -> None:
        try:
            facts.members[group] = await self._admin.measuring.members(facts.address, group)
        except GroupOfflineError:
            return
        except MQError:
            self.errors["members"] += 1

    async def _report(self, facts: BrokerFacts, group: str, client_id: str) -> None:
        work = self._admin.measuring.report(facts.address, group, client_id)
        report = await self._or("member report", work, None)
        if report is not None:
            facts.reports[group, client_id] = report

    # --- what an endpoint shows ---

    def startup(self) -> Startup:
        is_done = self._made_ms is not None or bool(self._trouble)
        return Startup(is_done, "the exporter shows a cluster" if is_done else "the first round is not over yet")

    def health(self) -> HealthReport:
        age_ms = self._clock.monotonic_ms() - (self._made_ms if self._made_ms is not None else self._began_ms)
        if age_ms > _STALE_ROUNDS * self._settings.interval_ms + self._settings.broker_timeout_ms:
            return HealthReport((self._trouble or f"no round was finished for {age_ms // 1000} s",))
        return HealthReport((self._trouble,) if self._trouble and self._made_ms is None else ())

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        now_ms = self._clock.monotonic_ms()
        own = [
            Family(table.REFRESH_TIME, [((), self._round_s)]),
            Family(table.REFRESH_ERRORS, [((request,), count) for request, count in self.errors.items()]),
        ]
        if self._made_ms is not None:
            own.append(Family(table.REFRESH_AGE, [((), (now_ms - self._made_ms) / 1000)]))
        own += query_families(self._queries, self._clock.now_ms())
        parts = [ServerSamples({**self._labels, "node_type": "exporter"}, own)]
        for facts in list(self._brokers.values()):
            parts += parts_of([facts], self._clock.now_ms(), self._labels)
            yield
        return parts


async def _some_at_once(work: Iterable[Awaitable[None]]) -> None:
    """All of it, a few at a time."""
    waiting: set[asyncio.Future[None]] = set()
    try:
        for each in work:
            waiting.add(asyncio.ensure_future(each))
            if len(waiting) >= REQUESTS_AT_ONCE:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        if waiting:
            await asyncio.gather(*waiting)
    finally:
        for one in waiting:
            one.cancel()
