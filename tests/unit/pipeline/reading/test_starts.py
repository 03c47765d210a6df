"""Where queries begin and batch reads end."""

from __future__ import annotations

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.offsets import HeldRange
from pyromq.pipeline.core.places import AtOffsets, AtTime, AtTimes, RelativeOffset, Where
from pyromq.pipeline.reading.starts import ending_offsets, needs_group, require_matches, starting_offsets, times_of

A, B, C = (QueueId("orders", "broker-a", number) for number in range(3))
HELD = {A: HeldRange(10, 90), B: HeldRange(0, 50), C: HeldRange(0, 0)}
STORED = {A: 33}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (RelativeOffset.EARLIEST, (10, 0, 0)),
        (RelativeOffset.LATEST, (33, 50, 0)),
        (RelativeOffset.GROUP, (33, 0, 0)),
        (AtOffsets(((A, 44), (B, -1))), (44, 50, 0)),
        (AtOffsets(((A, -1), (B, -2), (C, 0))), (33, 0, 0)),
        (AtTime(5), (12, 20, 0)),
        (AtTimes(((A, 5), (B, 6))), (12, 20, 0)),
    ],
)
def test_starts(where: Where, expected: tuple[int, int, int]) -> None:
    found = starting_offsets(where, HELD, STORED, {A: 12, B: 20, C: 0})
    assert found == dict(zip((A, B, C), expected, strict=True))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (RelativeOffset.LATEST, (90, 50, 0)),
        (RelativeOffset.GROUP, (33, 0, 0)),
        (AtOffsets(((A, 44), (B, -1))), (44, 50, 0)),
        (AtTime(5), (12, 20, 0)),
    ],
)
def test_ends(where: Where, expected: tuple[int, int, int]) -> None:
    found = ending_offsets(where, HELD, STORED, {A: 12, B: 20, C: 0})
    assert found == dict(zip((A, B, C), expected, strict=True))


def test_a_queue_that_is_not_there_is_named() -> None:
    where = AtOffsets(((QueueId("orders", "broker-b", 7), 1),))
    with pytest.raises(OptionError, match=r"startingOffsets.*no queue 7 of topic orders on broker broker-b"):
        starting_offsets(where, HELD, {}, {})
    with pytest.raises(OptionError, match="endingOffsets"):
        ending_offsets(where, HELD, {}, {})


def test_the_group_is_asked_only_where_it_matters() -> None:
    assert [needs_group(where) for where in RelativeOffset] == [False, True, True]
    assert needs_group(AtOffsets(((A, 1), (B, -1))))
    assert not needs_group(AtOffsets(((A, 1), (B, -2))))
    assert not needs_group(AtTime(1))


def test_queues_without_a_time_are_read_whole() -> None:
    where = AtTimes(((A, 5),))
    assert times_of(where, HELD, "startingOffsetsByTimestamp") == {A: 5}
    assert starting_offsets(where, HELD, {}, {A: 12}) == {A: 12, B: 0, C: 0}
    assert ending_offsets(where, HELD, {}, {A: 12}) == {A: 12, B: 50, C: 0}
    with pytest.raises(OptionError, match="endingOffsetsByTimestamp: there is no queue 9"):
        times_of(AtTimes(((QueueId("orders", "broker-a", 9), 5),)), HELD, "endingOffsetsByTimestamp")


def test_a_time_after_the_last_message_may_be_an_error() -> None:
    require_matches({A: 5, B: 5}, {A: 12, B: 49}, HELD)
    with pytest.raises(OptionError, match=r"queue 1 of topic orders.*stored at 6 or later"):
        require_matches({A: 5, B: 6}, {A: 12, B: 50}, HELD)
