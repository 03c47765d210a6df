"""Samples of brokers: what they tell in RocketMQ's words, forecasts of disks, and what is remembered."""

from __future__ import annotations

import pytest

from pyromq.aio import Admin
from pyromq.console.disk_forecast import forecast
from pyromq.console.history.keeper import History
from pyromq.console.history.names import CLUSTER_IN, broker_number
from pyromq.console.history.spans import TimeSpan
from pyromq.console.queue_rates import QueueRates
from pyromq.console.sampling import EVERY_MS, ClusterSample, Sampler, numbers_of
from pyromq.console.views.cluster import free_before, rates_chart
from pyromq.errors import ConnectFailedError
from pyromq.model.queue import QueueId
from pyromq.model.system_names import TopicKind, kind_of_topic, names_of_servers
from pyromq.model.topic import TopicConfig
from pyromq.operate.brokers import BrokerRow, capacity, cluster_rates, row_of
from pyromq.operate.sweep import BrokerProcess
from pyromq.testing import ManualClock
from tests.unit.console.rig import ConsoleRig

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Total : 1000, Free : 400.", (1000, 400)),
        ("Total : 1.5 GiB, Free : 512.0 MiB.", (1_610_612_736, 536_870_912)),
        ("Total : 2.0 TB, Free : 1.0 kB.", (2_000_000_000_000, 1_000)),
        ("", (0, 0)),
        ("nonsense", (0, 0)),
    ],
)
def test_disks_are_told_in_bytes_or_in_words(text: str, expected: tuple[int, int]) -> None:
    assert capacity(text) == expected


def test_a_broker_that_tells_little_is_shown_as_far_as_it_goes() -> None:
    told = {"putTps": "12.5 3 1", "commitLogDiskRatio": "0.5", "bootTimestamp": "x"}
    row = row_of(BrokerProcess(cluster="c", broker="b", number=0, address="a", time_ms=1, told=told))
    assert (row.put_rate, row.disk_percent, row.started_ms, row.get_rate) == (12.5, 50, 0, 0)


def broker_at(time_ms: int, free: int, **more: int) -> BrokerRow:
    return BrokerRow(
        broker="b", cluster="c", number=0, address="a", time_ms=time_ms, disk_total=1_000, disk_free=free, **more
    )


def test_a_disk_that_fills_has_a_time_when_it_is_full() -> None:
    past = [(0, 700.0), (HOUR_MS, 600.0)]
    told = forecast(past, broker_at(2 * HOUR_MS, 500))
    assert told.full_in_ms == 5 * HOUR_MS
    assert told.text == "full in 5 h, as in the last 2 h"


def test_a_disk_that_does_not_fill_or_is_not_known_says_so() -> None:
    assert forecast([(0, 500)], broker_at(HOUR_MS, 500)).text == "not filling up"
    assert forecast([(0, 400)], broker_at(HOUR_MS, 500)).text == "not filling up", "old files were deleted"
    assert forecast([], broker_at(1_000, 500, started_ms=0)).text == "no forecast yet"
    assert forecast([(0, 501)], broker_at(HOUR_MS * 24, 500)).text == "not full within a year"
    unknown = BrokerRow(broker="b", cluster="c", number=0, address="a", time_ms=1)
    assert forecast([], unknown).full_in_ms is None


def test_without_a_past_the_average_since_the_start_counts() -> None:
    told = forecast([], broker_at(HOUR_MS, 500, started_ms=0, put_bytes=100))
    assert told.full_in_ms == 5 * HOUR_MS
    assert "at its average since it started" in told.text


def test_a_disk_that_was_made_larger_has_a_past_of_its_new_size_alone() -> None:
    clock = ManualClock()
    history = History(clock)

    def sampled(total: int, free: int) -> BrokerRow:
        row = BrokerRow(
            broker="b", cluster="c", number=0, address="a", time_ms=clock.now_ms(), disk_total=total, disk_free=free
        )
        history.add(numbers_of(ClusterSample(time_ms=clock.now_ms(), brokers=(row,))))
        clock.advance_ms(EVERY_MS)
        return row

    for _ in range(3):
        sampled(1_000, 100)
    begin_ms = clock.now_ms() // EVERY_MS * EVERY_MS
    for free in (1_100, 1_000):
        row = sampled(2_000, free)
    assert free_before(history, row) == [(begin_ms, 1_100), (begin_ms + EVERY_MS, 1_000)]


def test_a_cluster_takes_messages_at_masters_and_gives_them_everywhere() -> None:
    rates = [(0, 5.0, 2.0), (1, 5.0, 1.0)]  # a replica may count what is copied to it
    rows = tuple(
        BrokerRow(broker="b", cluster="c", number=number, address="a", put_rate=put, get_rate=get)
        for number, put, get in rates
    )
    sample = ClusterSample(time_ms=0, brokers=rows)
    assert (sample.put_rate, sample.get_rate) == cluster_rates(rows) == (5.0, 3.0)


async def test_samples_of_brokers_go_to_the_history() -> None:
    clock = ManualClock()
    async with ConsoleRig(clock=clock) as rig:
        rig.admin.client.clock = clock
        sampler = rig.desk.sampler
        for _ in range(60):
            await sampler.take()
            clock.advance_ms(EVERY_MS)
        assert len(rig.desk.history.points(CLUSTER_IN, TimeSpan.QUARTER)) == 60
        free = rig.desk.history.points(broker_number("broker-a/0", "free"), TimeSpan.QUARTER)
        assert len(free) == 60 and all(value for _, value in free)
        assert sampler.last is not None and sampler.last.brokers[0].disk_total > 0
        assert "<svg" in rates_chart(rig.desk, TimeSpan.QUARTER)


async def test_that_nobody_answers_is_a_sample() -> None:
    async def silent() -> None:
        raise ConnectFailedError("nobody")

    admin = Admin("127.0.0.1:1")
    admin.brokers.list = silent  # type: ignore[method-assign,assignment]
    history = History(ManualClock())
    sample = await Sampler(admin, ManualClock(), history).take()
    assert (sample.problem, sample.brokers) == ("nobody", ())
    assert history.points(CLUSTER_IN, TimeSpan.QUARTER) == [], "nobody answered: a gap, not a zero"


def test_kinds_of_topics_are_known_by_name_and_attribute() -> None:
    configs = {
        "fifo": TopicConfig(topic_name="fifo", attributes={"message.type": "FIFO"}),
        "odd": TopicConfig(topic_name="odd", attributes={"message.type": "STRANGE"}),
        "ordered": TopicConfig(topic_name="ordered", order=True),
    }
    names = "fifo odd ordered unknown %RETRY%g %DLQ%g TBW102 DefaultCluster c_REPLY_TOPIC".split()
    servers = names_of_servers(["DefaultCluster", "c"], [])
    found = {name: kind_of_topic(name, servers, configs.get(name)) for name in names}
    assert [found[name] for name in ("fifo", "odd", "ordered", "unknown")] == [
        TopicKind.FIFO, TopicKind.NORMAL, TopicKind.FIFO, TopicKind.NORMAL,
    ]  # fmt: skip
    assert found["%RETRY%g"] is TopicKind.RETRY and found["%DLQ%g"] is TopicKind.DEAD_LETTERS
    assert all(found[name] is TopicKind.SYSTEM for name in ("TBW102", "DefaultCluster", "c_REPLY_TOPIC"))


# --- rates of queues ---

Q0, Q1 = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1)


def test_a_queue_has_a_rate_from_the_second_look_on() -> None:
    clock = ManualClock()
    rates = QueueRates(clock)
    assert rates.look("orders", {Q0: 10, Q1: 0}) == {Q0: None, Q1: None}
    clock.advance_ms(500)
    assert rates.look("orders", {Q0: 12, Q1: 0}) == {Q0: None, Q1: None}, "too soon to say"
    clock.advance_ms(1_500)
    assert rates.look("orders", {Q0: 20, Q1: 0}) == {Q0: 5.0, Q1: 0.0}


def test_a_rate_is_that_of_the_last_minute() -> None:
    clock = ManualClock()
    rates = QueueRates(clock)
    for second in range(0, 200, 2):
        found = rates.look("orders", {Q0: 1_000 * min(second, 100)})
        clock.advance_ms(2_000)
    assert found == {Q0: 0.0}


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    clock = ManualClock()
    rates = QueueRates(clock)
    rates.look("orders", {Q0: 500})
    clock.advance_ms(2_000)
    assert rates.look("orders", {Q0: 3, Q1: 0}) == {Q0: None, Q1: None}
    clock.advance_ms(2_000)
    assert rates.look("orders", {Q0: 5, Q1: 0}) == {Q0: 1.0, Q1: 0.0}


def test_only_topics_that_were_looked_at_lately_are_remembered() -> None:
    rates = QueueRates(ManualClock())
    for number in range(1_000):
        rates.look(str(number), {Q0: 1})
    assert len(rates._looks) == 200


async def test_a_chart_without_a_line_says_what_it_waits_for() -> None:
    async with ConsoleRig() as rig:
        for path in ("/", "/brokers/broker-a"):
            page = await rig.page(path)
            assert "Waiting for the second sample" in page and "data-chart" not in page, path
