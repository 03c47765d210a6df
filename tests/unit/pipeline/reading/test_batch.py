"""Batch reads: the ranges between two positions, and what is gone of them."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import BackwardRangeError, DataLossError, OptionError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, total
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtOffsets, AtTime, AtTimes, NoMatch, RelativeOffset
from pyromq.pipeline.reading.batch import plan_batch
from tests.unit.pipeline.brokers import FakeCluster
from tests.unit.pipeline.reading.lives import A, B, cluster


def test_a_batch_read_plans_between_two_places() -> None:
    brokers = cluster(group={A: 11})
    options = SourceOptions(topics=("orders",), group="reports", starting=RelativeOffset.GROUP)
    assert plan_batch(options, brokers) == [(OffsetRange(A, 11, 40),), (OffsetRange(B, 0, 40),)]
    brokers.by_time = {A: 30, B: 0}
    options = SourceOptions(topics=("orders",), ending=AtTime(7))
    assert plan_batch(options, brokers) == [(OffsetRange(A, 0, 30),)]


def test_a_batch_read_beyond_what_is_there_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    brokers = FakeCluster({A: HeldRange(20, 40)}, {A: 5})
    options = SourceOptions(topics=("orders",), group="reports", starting=RelativeOffset.GROUP)
    with pytest.raises(DataLossError, match="begins at 20"):
        plan_batch(options, brokers)
    options = SourceOptions(topics=("orders",), group="reports", starting=RelativeOffset.GROUP, fail_on_data_loss=False)
    assert plan_batch(options, brokers) == [(OffsetRange(A, 20, 40),)]
    assert "begins at 20" in caplog.text


def test_a_batch_read_from_an_offset_that_no_queue_has_reached_is_a_loss() -> None:
    options = SourceOptions(topics=("orders",), starting=AtOffsets(((A, 41),)))
    with pytest.raises(DataLossError, match="ends at 40, before 41"):
        plan_batch(options, cluster())


def test_a_start_beyond_its_end_is_refused_with_both() -> None:
    brokers = cluster(group={A: 30, B: 0})
    options = SourceOptions(topics=("orders",), group="g", starting=RelativeOffset.GROUP, ending=AtOffsets(((A, 7),)))
    with pytest.raises(BackwardRangeError) as caught:
        plan_batch(options, brokers)
    assert f"queue {A.number} of topic {A.topic} on broker {A.broker} starts at 30 (startingOffsets group)" in str(
        caught.value
    )
    assert "and ends at 7 (endingOffsets)" in str(caught.value)
    assert len(caught.value.ranges) == 1


def test_a_time_that_leaves_nothing_of_a_queue_is_told_and_the_others_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers = cluster()
    brokers.by_time = {A: 30, B: 3}
    ends = AtOffsets(((A, 7), (B, 7)))
    options = SourceOptions(topics=("orders",), starting=AtTime(5), ending=ends)
    assert plan_batch(options, brokers) == [(OffsetRange(B, 3, 7),)]
    assert "starts at 30 (startingTimestamp 5) and ends at 7 (endingOffsets)" in caplog.text
    brokers.by_time[B] = 7
    with pytest.raises(BackwardRangeError):
        plan_batch(options, brokers)


@pytest.mark.parametrize(
    ("options", "group", "text"),
    [
        (SourceOptions(topics=("orders",), ending=AtOffsets(((A, 7),))), {}, "begins at 20, after 7"),
        (SourceOptions(topics=("orders",), group="g", starting=RelativeOffset.GROUP), {A: 50}, "ends at 40, before 50"),
    ],
)
def test_a_range_outside_of_what_a_queue_holds_is_a_loss(options: SourceOptions, group: Offsets, text: str) -> None:
    with pytest.raises(DataLossError, match=text):
        plan_batch(options, FakeCluster({A: HeldRange(20, 40)}, group))
    assert plan_batch(replace(options, fail_on_data_loss=False), FakeCluster({A: HeldRange(20, 40)}, group)) == []


def test_a_batch_read_between_times_of_single_queues() -> None:
    brokers = cluster()
    brokers.by_time = {A: 30, B: 40}
    options = SourceOptions(topics=("orders",), starting=AtTimes(((A, 7),)), ending=AtTimes(((B, 7),)))
    assert plan_batch(options, brokers) == [(OffsetRange(A, 30, 40),), (OffsetRange(B, 0, 40),)]
    options = SourceOptions(topics=("orders",), starting=AtTimes(((B, 7),)), starting_no_match=NoMatch.ERROR)
    with pytest.raises(OptionError, match="no message that was stored at 7"):
        plan_batch(options, brokers)


@pytest.mark.parametrize("messages", [10**4, 10**8])
def test_a_plan_takes_the_same_memory_however_many_messages_there_are(messages: int) -> None:
    """10 000 queues; what is planned are ranges, and their number does not depend on how long they are."""
    queues = [QueueId(f"t{topic}", "broker-a", number) for topic in range(625) for number in range(16)]
    brokers = FakeCluster({queue: HeldRange(0, messages // len(queues)) for queue in queues})
    options = SourceOptions(topics=tuple(f"t{topic}" for topic in range(625)))
    plan_batch(options, brokers)
    tracemalloc.start()
    planned = plan_batch(options, brokers)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(total(partition) for partition in planned) == messages
    assert sum(map(len, planned)) <= len(queues) + len(planned), "no more ranges than queues and cuts"
    assert peak_bytes < 16 << 20
