from __future__ import annotations

import pytest

from pyromq.broker.base.stats import Stats
from pyromq.broker.base.window_counters import CALL, MESSAGE, ONE_MESSAGE, Window, WindowCounters, WindowGrowth
from pyromq.testing import ManualClock

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class Rig:
    """A broker that takes two messages of 100 bytes a second."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stats = Stats(self.clock)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.stats.counters.put_messages += 2
            self.stats.counters.puts["orders"] += 2 * ONE_MESSAGE + 200
            self.tick()

    def tick(self, ms: int = 1_000) -> None:
        self.clock.advance_ms(ms)
        self.stats.snapshot()


def test_rates_are_averages_over_three_windows() -> None:
    rig = Rig()
    assert rig.stats.rates("put_messages") == (0, 0, 0), "no time has passed"
    rig.run(20)
    assert rig.stats.rates("put_messages") == (2, 2, 2)
    for _ in range(40):
        rig.tick()
    fast, minute, long = rig.stats.rates("put_messages")
    assert (fast, round(minute, 3), round(long, 3)) == (0, round(40 / 60, 3), round(40 / 60, 3))
    assert rig.stats.rates_text("put_messages", "pulls_found") == "0.00 0.67 0.67"


def test_a_rate_counts_what_came_since_the_last_snapshot() -> None:
    rig = Rig()
    rig.stats.counters.pulls_found += 5
    rig.clock.advance_ms(500)
    assert rig.stats.rates("pulls_found") == (10, 10, 10)


def test_a_topic_is_told_apart_by_minute_hour_and_day() -> None:
    rig = Rig()
    rig.run(60)
    for _ in range(2 * 3_600 // 10):
        rig.tick(10_000)
    rig.run(30)
    nums = rig.stats.view("TOPIC_PUT_NUMS", "orders", "c")
    size = rig.stats.view("TOPIC_PUT_SIZE", "orders", "c")
    assert nums is not None and size is not None
    assert (nums.stats_minute.sum, nums.stats_hour.sum, nums.stats_day.sum) == (60, 60, 180)
    assert (size.stats_minute.sum, size.stats_day.sum) == (6_000, 18_000)
    assert (nums.stats_minute.avgpt, size.stats_minute.avgpt) == (1.0, 100.0)
    assert nums.stats_minute.tps == pytest.approx(60 / 60, rel=0.2)
    assert rig.stats.put_rate("orders") == nums.stats_minute.tps


def test_groups_are_counted_per_topic_and_pulls_as_calls() -> None:
    rig = Rig()
    rig.stats.counters.gets["orders", "readers"] += CALL + 32 * MESSAGE + 3_200
    rig.stats.counters.gets["orders", "others"] += CALL + MESSAGE + 1
    rig.tick(10_000)
    found = rig.stats.view("GROUP_GET_NUMS", "orders@readers", "c")
    assert found is not None
    assert (found.stats_minute.sum, found.stats_minute.avgpt, found.stats_minute.tps) == (32, 32.0, 3.2)
    assert rig.stats.get_rate("orders", "readers") == 3.2
    whole = rig.stats.view("BROKER_GET_NUMS", "c", "c")
    assert whole is not None and whole.stats_day.sum == 33


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "unknown"),
        ("TOPIC_PUT", "orders"),
        ("TOPIC_PUT_LATENCY", "orders"),
        ("GROUP_GET_NUMS", "orders"),
        ("BROKER_PUT_NUMS", "other cluster"),
        ("BROKER_PUT_SIZE", "c"),
        ("", ""),
    ],
)
def test_statistics_that_are_not_kept_are_none_and_asking_leaves_no_trace(name: str, key: str) -> None:
    rig = Rig()
    rig.run(1)
    assert rig.stats.view(name, key, "c") is None
    assert list(rig.stats.counters.puts) == ["orders"] and not rig.stats.counters.gets


def test_what_did_not_move_for_a_day_is_forgotten_and_starts_anew() -> None:
    clock = ManualClock()
    window_counters: WindowCounters[str] = WindowCounters(clock)
    window_counters.totals["idle"] += ONE_MESSAGE
    for _ in range(26):
        window_counters.totals["busy"] += ONE_MESSAGE
        clock.advance_ms(HOUR_MS)
        window_counters.tick()
    assert list(window_counters.totals) == ["busy"]
    assert window_counters.growth("idle", Window.DAY) == WindowGrowth(0, 0, 0, 24 * HOUR_MS)
    window_counters.totals["idle"] += ONE_MESSAGE + 5
    assert window_counters.growth("idle", Window.DAY)[:3] == (1, 1, 5)


def test_tallies_hold_more_than_anybody_sends() -> None:
    clock = ManualClock()
    window_counters: WindowCounters[str] = WindowCounters(clock)
    for _ in range(3):
        window_counters.totals["orders"] += CALL + (1 << 40) * MESSAGE + (1 << 60)
    clock.advance_ms(1)
    assert window_counters.growth("orders", Window.MINUTE) == WindowGrowth(3, 3 << 40, 3 << 60, 1)


def test_days_are_told_by_their_mornings() -> None:
    rig = Rig()
    rig.run(3)
    rig.tick(DAY_MS)
    rig.run(2)
    days = rig.stats.days("put_messages")
    assert (days.yesterday_morning, days.this_morning, days.now) == (0, 6, 10)
    rig.tick(DAY_MS)
    days = rig.stats.days("put_messages")
    assert (days.yesterday_morning, days.this_morning, days.now) == (6, 10, 10)
