"""Batch reads: the ranges between two positions, and what is gone of them."""

from __future__ import annotations

import pytest

from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtOffsets, AtTime, Place
from pyromq.pipeline.reading.batch import plan_batch
from tests.unit.pipeline.brokers import FakeCluster
from tests.unit.pipeline.reading.lives import A, B, cluster


def test_a_batch_read_plans_between_two_places() -> None:
    brokers = cluster(group={A: 11})
    options = SourceOptions(topics=("orders",), group="reports", starting=Place.GROUP)
    assert plan_batch(options, brokers) == [(OffsetRange(A, 11, 40),), (OffsetRange(B, 0, 40),)]
    brokers.by_time = {A: 30, B: 0}
    options = SourceOptions(topics=("orders",), ending=AtTime(7))
    assert plan_batch(options, brokers) == [(OffsetRange(A, 0, 30),)]


def test_a_batch_read_beyond_what_is_there_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    brokers = FakeCluster({A: HeldRange(20, 40)}, {A: 5})
    options = SourceOptions(topics=("orders",), group="reports", starting=Place.GROUP)
    with pytest.raises(DataLossError, match="begins at 20"):
        plan_batch(options, brokers)
    options = SourceOptions(topics=("orders",), group="reports", starting=Place.GROUP, fail_on_data_loss=False)
    assert plan_batch(options, brokers) == [(OffsetRange(A, 20, 40),)]
    assert "begins at 20" in caplog.text


def test_a_batch_read_from_an_offset_that_no_queue_has_reached_is_a_loss() -> None:
    options = SourceOptions(topics=("orders",), starting=AtOffsets(((A, 41),)))
    with pytest.raises(DataLossError, match="ends at 40, before 41"):
        plan_batch(options, cluster())
