"""Where queries begin and batch reads end."""

from __future__ import annotations

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.offsets import HeldRange
from pyromq.pipeline.core.places import AtOffsets, AtTime, RelativeOffset, Where
from pyromq.pipeline.reading.starts import ending_offsets, needs_group, starting_offsets

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
