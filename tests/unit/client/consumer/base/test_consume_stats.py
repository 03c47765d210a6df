from __future__ import annotations

from pyromq.client.consumer.base.consume_stats import SAMPLE_MS, ConsumeStats, Totals
from pyromq.testing import ManualClock


def test_totals_add_up_over_topics() -> None:
    stats = ConsumeStats(ManualClock())
    assert stats.totals() == Totals()
    stats.of("one").pulled_some(32, 0.5)
    stats.of("one").consumed(2, 1, 0.25)
    stats.of("two").consumed(1, 0, 1.0)
    assert stats.totals() == Totals(pulls=1, pulled=32, pull_s=0.5, ok=3, failed=1, consume_s=1.75)


def test_rates_are_those_of_the_last_minute_and_failures_those_of_the_last_hour() -> None:
    clock = ManualClock()
    stats = ConsumeStats(clock)
    counts = stats.of("orders")
    counts.consumed(0, 7, 0.1)
    for _ in range(30):
        clock.advance_ms(SAMPLE_MS)
        stats.sample()
        counts.consumed(100, 0, 0.002)
        counts.pulled_some(100, 0.01)
    rates = stats.rates()["orders"]
    assert round(rates.consume_ok_tps) in (10, 12) and rates.consume_failed_tps == 0
    assert round(rates.consume_rt, 3) == 2.0 and round(rates.pull_rt, 3) == 10.0
    assert rates.consume_failed_messages == 7
    for _ in range(400):
        clock.advance_ms(SAMPLE_MS)
        stats.sample()
    assert stats.rates()["orders"].consume_failed_messages == 0
