"""Counters of a broker and how fast they grow: totals, averages over 10, 60 and 600 seconds, and days.

What single topics and groups did is in ``window_counters``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, fields
from datetime import date, datetime

from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.window_counters import Window, WindowCounters, WindowGrowth
from pyromq.clock import Clock
from pyromq.metrics.broker_table import FINISH_LATENCY
from pyromq.metrics.samples import Histogram
from pyromq.wire.json import bodies

WINDOWS_S = (10, 60, 600)


@dataclass(slots=True)
class Counters:
    """Plain numbers, counted up directly where things happen."""

    put_messages: int = 0
    put_bytes: int = 0
    put_refused: int = 0
    refused_at_door: int = 0  # the disk was stuck; RocketMQ's tags of these five are in ``send_gate``
    refused_overload: int = 0
    refused_from_queue_late: int = 0
    refused_from_queue_stuck: int = 0
    refused_stuck: int = 0
    quota_sends: int = 0  # refused because a quota was used up
    quota_pulls: int = 0
    quota_connections: int = 0
    quota_creations: int = 0
    unread_deleted: int = 0  # messages that retention or a full disk took, once for each group that had not read them
    pulls_found: int = 0
    pulls_missed: int = 0
    pulled_messages: int = 0
    pulled_bytes: int = 0
    levels_delivered: int = 0  # due messages of delay levels
    timers_taken: int = 0  # messages with a time of their own that began to wait
    timers_delivered: int = 0
    timers_cancelled: int = 0
    delay_late_ms: int = 0  # the latest of all of them, against its time
    puts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # tallies by topic; see ``Stats``
    gets: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # by topic and group
    send_backs: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # likewise
    dead: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # dead letters, likewise
    requests: RequestTimes = field(default_factory=RequestTimes)  # how they ended, and when
    endings: TransactionCounts = field(default_factory=lambda: TransactionCounts())

    def numbers(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _NUMBERS}


_NUMBERS = tuple(each.name for each in fields(Counters) if each.type == "int")


class TransactionCounts:
    """How transactions ended, by topic."""

    def __init__(self) -> None:
        self.committed: defaultdict[str, int] = defaultdict(int)
        self.rolled_back: defaultdict[str, int] = defaultdict(int)
        self.ages: dict[str, Histogram] = {}  # in seconds

    def ended(self, topic: str, *, committed: bool, age_s: float) -> None:
        (self.committed if committed else self.rolled_back)[topic] += 1
        if topic not in self.ages:
            self.ages[topic] = Histogram(FINISH_LATENCY.buckets)
        self.ages[topic].observe(age_s)


@dataclass(frozen=True, slots=True)
class DayTotals:
    """A counter at three moments, from which tools compute today's and yesterday's messages."""

    yesterday_morning: int = 0
    this_morning: int = 0
    now: int = 0


class Stats:
    """Owns the counters; ``snapshot`` once a second lets it tell rates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.puts: WindowCounters[str] = WindowCounters(clock)
        self.gets: WindowCounters[tuple[str, str]] = WindowCounters(clock)
        self.send_backs: WindowCounters[tuple[str, str]] = WindowCounters(clock)
        self.dead: WindowCounters[tuple[str, str]] = WindowCounters(clock)
        self.counters = Counters(
            puts=self.puts.counted, gets=self.gets.counted, send_backs=self.send_backs.counted, dead=self.dead.counted
        )
        self._history: deque[tuple[int, dict[str, int]]] = deque(maxlen=WINDOWS_S[-1] + 1)  # all numbers, once a second
        self._mornings = [self.counters.numbers(), self.counters.numbers()]  # yesterday's, today's
        self._day = self._today()  # to notice that a new one has begun
        self._minute = -1  # of the last look at it
        self.snapshot()

    def snapshot(self) -> None:
        self._history.append((self._clock.monotonic_ms(), self.counters.numbers()))
        for window_counters in (self.puts, self.gets, self.send_backs, self.dead):
            window_counters.tick()
        minute = self._clock.now_ms() // 60_000
        if minute != self._minute:  # a day begins with a minute, whatever the time zone
            self._minute = minute
            if (today := self._today()) != self._day:
                self._day = today
                self._mornings = [self._mornings[1], self.counters.numbers()]

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone().date()

    # --- the whole broker ---

    def rates(self, name: str) -> tuple[float, ...]:
        """Growth per second of one counter, over each window (or as much of it as has passed)."""
        now, current = self._clock.monotonic_ms(), getattr(self.counters, name)
        found = []
        for window_s in WINDOWS_S:
            at_ms, then = next(
                (entry for entry in self._history if entry[0] >= now - window_s * 1000), self._history[-1]
            )
            elapsed_s = (now - at_ms) / 1000
            found.append((current - then[name]) / elapsed_s if elapsed_s > 0 else 0.0)
        return tuple(found)

    def rates_text(self, *names: str) -> str:
        """Three numbers in a row, as RocketMQ's tools expect them; several counters are added up."""
        columns = zip(*(self.rates(name) for name in names), strict=True)
        return " ".join(f"{sum(column):.2f}" for column in columns)

    def days(self, name: str) -> DayTotals:
        yesterday, today = self._mornings
        return DayTotals(yesterday[name], today[name], getattr(self.counters, name))

    # --- single topics and groups ---

    def put_rate(self, topic: str) -> float:
        """Messages a second that came in during the last minute."""
        return _rate(self.puts.growth(topic, Window.MINUTE))

    def get_rate(self, topic: str, group: str) -> float:
        """Messages a second that a group fetched during the last minute."""
        return _rate(self.gets.growth((topic, group), Window.MINUTE))

    def view(self, name: str, key: str, cluster: str) -> bodies.StatsData | None:
        """One of RocketMQ's statistics under its name and key; None when it is not kept, or nothing happened yet."""
        match name.removesuffix("_NUMS").removesuffix("_SIZE"):
            case "TOPIC_PUT" if key in self.puts.totals:
                growths = [self.puts.growth(key, window) for window in Window]
            case "GROUP_GET" if (pair := _pair(key)) in self.gets.totals:
                growths = [self.gets.growth(pair, window) for window in Window]
            case "SNDBCK_PUT" if (pair := _pair(key)) in self.send_backs.totals:
                growths = [self.send_backs.growth(pair, window) for window in Window]
            case "DLQ_PUT" if (pair := _pair(key)) in self.dead.totals:
                growths = [self.dead.growth(pair, window) for window in Window]
            case "BROKER_PUT" if key == cluster and name.endswith("_NUMS"):
                growths = [self.puts.growth_of_all(window) for window in Window]
            case "BROKER_GET" if key == cluster and name.endswith("_NUMS"):
                growths = [self.gets.growth_of_all(window) for window in Window]
            case _:
                return None
        if not name.endswith(("_NUMS", "_SIZE")):
            return None
        minute, hour, day = (_item(growth, in_bytes=name.endswith("_SIZE")) for growth in growths)
        return bodies.StatsData(stats_minute=minute, stats_hour=hour, stats_day=day)


def _pair(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group


def _rate(growth: WindowGrowth) -> float:
    return growth.messages * 1000 / growth.elapsed_ms if growth.elapsed_ms else 0.0


def _item(growth: WindowGrowth, *, in_bytes: bool) -> bodies.StatsItem:
    value = growth.size_bytes if in_bytes else growth.messages
    return bodies.StatsItem(
        sum=value,
        tps=value * 1000 / growth.elapsed_ms if growth.elapsed_ms else 0.0,
        avgpt=value / growth.calls if growth.calls else 0.0,
    )
