"""Which engine does a job, and that a job too large for memory is done by Spark after all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest

from pyromq.cli.pipeline.engine import on_engine
from pyromq.cli.pipeline.options import EngineOptions, SparkOptions
from pyromq.pipeline.jobs.common.errors import TooLargeForMemoryError

A_SPARK: Any = "spark"


@contextmanager
def started(options: SparkOptions) -> Iterator[Any]:
    yield A_SPARK


def who_works(asked: str, *, is_small: bool, fits: bool = True, **more: Any) -> list[Any]:
    asked_of: list[Any] = []

    def work(spark: Any) -> None:
        asked_of.append(spark)
        if spark is None and not fits:
            raise TooLargeForMemoryError("too large")

    on_engine(EngineOptions(engine=asked, **more), started, lambda: is_small, work)
    return asked_of


def test_few_messages_need_no_spark() -> None:
    assert who_works("auto", is_small=True) == [None] and who_works("auto", is_small=False) == [A_SPARK]
    assert who_works("spark", is_small=True) == [A_SPARK] and who_works("python", is_small=False) == [None]


def test_options_of_spark_ask_for_spark() -> None:
    assert who_works("auto", is_small=True, master="local[2]") == [A_SPARK]
    assert who_works("auto", is_small=True, conf=["spark.ui.enabled=false"]) == [A_SPARK]


def test_what_turns_out_to_be_large_is_done_by_spark_unless_python_was_asked_for() -> None:
    assert who_works("auto", is_small=True, fits=False) == [None, A_SPARK]
    with pytest.raises(TooLargeForMemoryError):
        who_works("python", is_small=True, fits=False)


def test_an_engine_that_nobody_knows_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="auto, python, spark"):
        who_works("flink", is_small=True)
