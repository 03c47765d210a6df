"""What a stream says of messages that it could not read, and of topics that are not those they were."""

from __future__ import annotations

import pytest

from pyromq.pipeline.core.offsets import HeldRange, OffsetRange
from tests.unit.pipeline.brokers import FakeCluster
from tests.unit.pipeline.reading.lives import A, B, Life, cluster


def test_what_was_skipped_is_in_the_progress() -> None:
    brokers = cluster()
    life = Life(brokers, fail_on_data_loss=False)
    life.stream.latest({A: 40, B: 40})
    report = life.stream.report()
    assert report is not None and "skipped" not in report
    brokers.held_now = {A: HeldRange(50, 60), B: HeldRange(0, 40)}
    life.stream.latest({A: 40, B: 40})
    report = life.stream.report()
    assert report is not None
    assert report["skipped"] == ["queue 0 of topic orders on broker broker-a begins at 50, offsets 40 to 50 are gone"]


def test_gaps_of_a_batch_that_was_planned_in_another_life_are_told_with_the_next_one() -> None:
    """Spark runs it before it asks for anything else, and its progress shows nothing of ours."""
    life = Life(FakeCluster({A: HeldRange(25, 70)}), fail_on_data_loss=False)
    assert life.stream.partitions({A: 10}, {A: 40}) == [(OffsetRange(A, 25, 40),)]
    assert life.stream.latest({A: 40}) == {A: 70}
    report = life.stream.report()
    assert report is not None
    assert report["skipped"] == ["queue 0 of topic orders on broker broker-a begins at 25, offsets 10 to 25 are gone"]


def test_a_topic_that_was_made_anew_under_a_query_is_read_from_its_beginning_however_long_it_is() -> None:
    """Its offsets say nothing: but the group stands nowhere in it."""
    brokers = FakeCluster({A: HeldRange(0, 40), B: HeldRange(0, 40)})
    life = Life(brokers, fail_on_data_loss=False, retry_ms=1_000)
    start = life.stream.latest({A: 0, B: 0})
    del brokers.held_now[B]
    assert life.stream.latest(start) == start
    del brokers.group[B]
    brokers.held_now[B] = HeldRange(0, 70)
    noted = life.stream.latest(start)
    assert noted == {A: 40, B: 0}
    assert life.stream.partitions(start, noted) == []
    end = life.stream.latest(noted)
    assert end == {A: 40, B: 70}
    assert life.stream.partitions(noted, end) == [(OffsetRange(B, 0, 70),)]
    report = life.stream.report()
    assert report is not None and any("was created again, 40 was next" in each for each in report["skipped"])


def test_a_topic_that_only_was_away_goes_on_where_it_was() -> None:
    brokers = cluster()
    life = Life(brokers, fail_on_data_loss=False, retry_ms=1_000)
    start = life.stream.latest({A: 0, B: 0})
    life.stream.tell(start)
    del brokers.held_now[B]
    assert life.stream.latest(start) == start
    brokers.held_now[B] = HeldRange(0, 70)
    assert life.stream.latest(start) == {A: 40, B: 70}


def test_a_broker_that_forgot_the_last_seconds_is_told_again() -> None:
    """Brokers save where groups stand every few seconds: one that crashed stands where it was."""
    brokers = cluster()
    life = Life(brokers)
    for _ in range(3):
        life.stream.latest({A: 40, B: 40})
    assert brokers.commits == [{A: 40, B: 40}]
    brokers.group = {A: 30}
    life.clock.advance_ms(10_000)
    life.stream.latest({A: 40, B: 40})
    assert brokers.group == {A: 40, B: 40}


def test_a_group_that_does_not_know_where_its_query_is_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    brokers = cluster(group={A: 30})
    Life(brokers).stream.latest({A: 30, B: 30})
    assert "the group does not know queue 1 of topic orders" in caplog.text and "made anew" in caplog.text
    caplog.clear()
    Life(brokers).stream.latest({A: 40, B: 40})
    assert "the group does not know" not in caplog.text
