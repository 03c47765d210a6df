"""A streaming query's planning, call by call as Spark makes them."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import DataLossError, GroupSharedError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange
from pyromq.pipeline.core.places import AtTime, RelativeOffset
from pyromq.pipeline.reading.broker_ranges import GroupUsage
from pyromq.pipeline.reading.stream import OFFSET_END
from tests.unit.pipeline.brokers import FakeCluster
from tests.unit.pipeline.reading.lives import NEW, A, B, Life, cluster

# --- the start ---


def test_latest_is_stored_before_it_is_told_and_stays() -> None:
    brokers = cluster()
    life = Life(brokers)
    assert life.stream.initial() == {A: 40, B: 40}
    assert brokers.group == {A: 40, B: 40}
    brokers.held_now = {A: HeldRange(0, 70), B: HeldRange(0, 40)}
    assert life.stream.initial() == {A: 40, B: 40}


def test_a_crash_in_the_first_batch_loses_nothing() -> None:
    brokers = cluster()
    first = Life(brokers)
    start = first.stream.initial()
    brokers.held_now = {A: HeldRange(0, 45), B: HeldRange(0, 40)}
    end = first.stream.latest(start)
    assert end == {A: 45, B: 40}
    brokers.held_now = {A: HeldRange(0, 99), B: HeldRange(0, 99)}
    second = Life(brokers)  # the driver was killed; Spark has the end of the batch, not its start
    assert second.stream.initial() == start
    assert second.stream.partitions(start, end) == [(OffsetRange(A, 40, 45),)]


def test_what_the_group_has_is_not_moved_by_a_start_elsewhere() -> None:
    brokers = cluster(group={A: 7})
    assert Life(brokers, starting=RelativeOffset.EARLIEST).stream.initial() == {A: 0, B: 0}
    assert brokers.group == {A: 7, B: 0}


def test_a_start_by_time() -> None:
    brokers = cluster()
    brokers.by_time = {A: 11, B: 12}
    assert Life(brokers, starting=AtTime(5)).stream.initial() == {A: 11, B: 12}


# --- the end of a batch ---


def test_nothing_new_is_waited_for_a_little() -> None:
    brokers = cluster()
    life = Life(brokers, long_poll_ms=300)
    before_ms = life.clock.monotonic_ms()
    assert life.stream.latest({A: 40, B: 40}) == {A: 40, B: 40}
    assert life.clock.monotonic_ms() - before_ms >= 300
    assert brokers.asked < 30


def test_a_limit_counts_unless_spark_wants_all() -> None:
    life = Life(cluster(), max_offsets=20)
    assert life.stream.latest({A: 0, B: 0}) == {A: 10, B: 10}
    assert life.stream.latest({A: 0, B: 0}, limited=False) == {A: 40, B: 40}


def test_a_limit_of_bytes() -> None:
    life = Life(cluster(), max_bytes=2_000)
    assert life.stream.latest({A: 0, B: 0}) == {A: 10, B: 10}


def test_few_messages_wait_until_the_delay_is_over() -> None:
    life = Life(cluster(), min_offsets=50, max_trigger_delay_ms=60_000)
    start = {A: 30, B: 40}
    assert life.stream.latest(start) == start
    life.clock.advance_ms(60_000)
    assert life.stream.latest(start) == {A: 40, B: 40}
    assert life.stream.latest({A: 39, B: 40}) == {A: 39, B: 40}, "the delay counts from the last batch"


def test_available_now_reads_what_was_there_and_ends() -> None:
    brokers = cluster()
    life = Life(brokers, max_offsets=50, min_offsets=45)
    life.stream.freeze()
    brokers.held_now = {A: HeldRange(0, 99), B: HeldRange(0, 99), NEW: HeldRange(3, 9)}
    at, seen = {A: 0, B: 0}, []
    while (end := life.stream.latest(at)) != at:
        seen.append(end)
        at = end
    assert seen[-1] == {A: 40, B: 40, NEW: 3}
    assert len(seen) == 2


def test_a_new_queue_is_noted_first_and_read_from_its_beginning() -> None:
    brokers = cluster()
    life = Life(brokers)
    brokers.held_now[NEW] = HeldRange(3, 9)
    start = {A: 40, B: 40}
    noted = life.stream.latest(start)
    assert noted == {A: 40, B: 40, NEW: 3}
    assert life.stream.partitions(start, noted) == []
    end = life.stream.latest(noted)
    assert end == {A: 40, B: 40, NEW: 9}
    assert life.stream.partitions(noted, end) == [(OffsetRange(NEW, 3, 9),)]


# --- what is gone ---


def test_offsets_below_the_log_end_the_query() -> None:
    brokers = FakeCluster({A: HeldRange(25, 40)})
    with pytest.raises(DataLossError, match=r"queue 0 of topic orders on broker broker-a begins at 25.*failOnDataLoss"):
        Life(brokers).stream.latest({A: 10})


def test_offsets_below_the_log_are_skipped_by_option(caplog: pytest.LogCaptureFixture) -> None:
    life = Life(FakeCluster({A: HeldRange(25, 40)}), fail_on_data_loss=False)
    end = life.stream.latest({A: 10})
    assert end == {A: 40}
    assert life.stream.partitions({A: 10}, end) == [(OffsetRange(A, 25, 40),)]
    assert "begins at 25" in caplog.text


def test_a_queue_that_went_is_waited_for_then_lost() -> None:
    brokers = cluster()
    life = Life(brokers, retry_ms=60_000)
    del brokers.held_now[B]
    before_ms = life.clock.monotonic_ms()
    with pytest.raises(DataLossError, match=r"queue 1 .* no longer exists"):
        life.stream.latest({A: 40, B: 40})
    assert life.clock.monotonic_ms() - before_ms >= 60_000


def test_a_queue_that_went_for_good_is_waited_for_only_once_by_option() -> None:
    brokers = cluster()
    life = Life(brokers, retry_ms=60_000, fail_on_data_loss=False)
    del brokers.held_now[B]
    assert life.stream.latest({A: 30, B: 30}) == {A: 40, B: 30}
    before_ms = life.clock.monotonic_ms()
    assert life.stream.latest({A: 40, B: 30}) == {A: 40, B: 30}
    assert life.clock.monotonic_ms() - before_ms < 1_000
    brokers.held_now[B] = HeldRange(0, 41)
    assert life.stream.latest({A: 40, B: 30}) == {A: 40, B: 41}


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_by_option() -> None:
    life = Life(FakeCluster({A: HeldRange(0, 5)}), fail_on_data_loss=False)
    end = life.stream.latest({A: 40})
    assert end == {A: 5}
    assert life.stream.partitions({A: 40}, end) == [(OffsetRange(A, 0, 5),)]
    with pytest.raises(DataLossError, match="ends at 5, before 40"):
        Life(FakeCluster({A: HeldRange(0, 5)})).stream.latest({A: 40})


# --- progress ---


def test_the_group_is_told_where_the_last_batch_ended() -> None:
    brokers = cluster()
    life = Life(brokers)
    life.stream.latest({A: 10, B: 0})
    life.stream.latest({A: 10, B: 20})
    life.stream.latest({A: 10, B: 20})
    assert brokers.commits == [{A: 10, B: 0}, {B: 20}]


def test_progress_that_cannot_be_stored_does_not_end_a_query(caplog: pytest.LogCaptureFixture) -> None:
    brokers = cluster()
    brokers.is_deaf = True
    life = Life(brokers)
    assert life.stream.latest({A: 10, B: 0}) == {A: 40, B: 40}
    assert "progress not stored" in caplog.text
    brokers.is_deaf = False
    life.stream.latest({A: 10, B: 0})
    assert brokers.commits == [{A: 10, B: 0}]


def test_the_report_says_what_the_batch_leaves() -> None:
    life = Life(cluster(), max_offsets=20, nameserver="n:1")
    assert life.stream.report() is None
    life.stream.latest({A: 0, B: 0})
    report = life.stream.report()
    assert report == {
        "offsets": {"orders": {"broker-a": {"0": 40, "1": 40}}},
        "lag": 60,
        "minOffsetsBehindLatest": 30,
        "maxOffsetsBehindLatest": 30,
        "avgOffsetsBehindLatest": 30.0,
        "group": "reports",
        "nameserver": "n:1",
    }


def test_a_stream_that_has_nothing_to_do_waits_at_the_brokers() -> None:
    life = Life(cluster(), long_poll_ms=300)
    start = {A: 40, B: 40}
    assert life.stream.latest(start) is start
    assert brokers_waited(life) and max(life.cluster.waits) == 300


def test_an_idle_stream_compares_no_queues_again_and_again() -> None:
    """With 10 000 of them that took 2 % of a core."""
    looks = []

    class Steady(FakeCluster):
        def held(self, *, missing_ok: bool = False, fresh: bool = True) -> dict[QueueId, HeldRange]:
            return self.held_now  # the same object while nothing changed, as a cluster gives it

    class Counted(dict[QueueId, int]):
        def items(self) -> Any:
            looks.append(None)
            return super().items()

    life = Life(Steady({A: HeldRange(0, 40), B: HeldRange(0, 40)}), long_poll_ms=300)
    start = Counted({A: 40, B: 40})
    assert life.stream.latest(start) is start
    before = len(looks)
    assert life.stream.latest(start) is start
    assert len(looks) == before > 0


def test_progress_is_repeated_once() -> None:
    """A broker that crashed may have forgotten it; afterwards an idle stream says nothing."""
    life = Life(cluster(), long_poll_ms=300)
    start = {A: 40, B: 40}
    for _ in range(200):
        life.stream.latest(start)
    assert life.cluster.commits == [start, start]


def brokers_waited(life: Life) -> bool:
    return sum(life.cluster.waits) >= 300


def test_a_group_that_others_use_is_told_of_once_and_in_the_report(caplog: pytest.LogCaptureFixture) -> None:
    life = Life(cluster())
    life.cluster.others = GroupUsage(consumers=2)
    life.stream.initial()
    life.stream.latest({A: 0, B: 0})
    report = life.stream.report()
    assert report is not None and report["sharedWith"] == {"consumers": 2, "streams": 0}
    assert caplog.text.count("2 consumers and 0 other streams") == 1
    life.cluster.others = GroupUsage()
    life.stream.latest({A: 1, B: 0})
    report = life.stream.report()
    assert report is not None and "sharedWith" not in report


def test_an_exclusive_query_ends_when_its_group_is_used_by_others() -> None:
    life = Life(cluster(), exclusive=True)
    start = life.stream.initial()
    life.cluster.others = GroupUsage(streams=1)
    with pytest.raises(GroupSharedError, match="group reports is used by 0 consumers and 1 other streams"):
        life.stream.latest(start)
    with pytest.raises(GroupSharedError):
        Life(life.cluster, exclusive=True).stream.initial()


def test_ranges_of_real_time_mode_have_no_end_and_know_new_queues() -> None:
    brokers = cluster()
    brokers.held_now = {A: HeldRange(0, 45), B: HeldRange(0, 40), NEW: HeldRange(3, 9)}
    life = Life(brokers)
    assert life.stream.open_ranges({A: 42, B: 40}) == [
        OffsetRange(A, 42, OFFSET_END),
        OffsetRange(B, 40, OFFSET_END),
        OffsetRange(NEW, 3, OFFSET_END),
    ]
    assert brokers.group == {A: 42, B: 40}, "what lies before is done"
    brokers.held_now = {A: HeldRange(43, 45), B: HeldRange(0, 40), NEW: HeldRange(3, 9)}
    with pytest.raises(DataLossError, match="begins at 43, offsets 42 to 43 are gone"):
        life.stream.open_ranges({A: 42, B: 40, NEW: 3})
