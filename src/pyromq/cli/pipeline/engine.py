"""Which engine does a job: Spark needs seconds to start, so few messages are read by this process alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from pyromq.cli.pipeline.options import EngineOptions, JobEngine, SparkOptions, one_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LETTERS_MAX: Final = 10_000  # with their bodies
MESSAGES_MAX: Final = 100_000  # without


def on_engine(
    run_in: EngineOptions,
    started: Callable[[SparkOptions], AbstractContextManager[SparkSession]],
    is_small: Callable[[], bool],
    work: Callable[[SparkSession | None], Any],
) -> Any:
    """Do the work with Spark, or with None. ``auto`` asks ``is_small``, unless options of Spark are given; messages
    that turn out to be too large for memory are left to Spark. Raises click.BadParameter, and what the work raises.
    """
    from pyromq.pipeline.jobs.common.errors import TooLargeForMemoryError

    engine = one_of(JobEngine, run_in.engine, "--engine")
    if engine is JobEngine.PYTHON:
        return work(None)
    if engine is JobEngine.AUTO and not run_in.is_set and is_small():
        try:
            return work(None)
        except TooLargeForMemoryError:
            pass  # raised by the first reading: nothing was sent or asked yet
    with started(run_in) as spark:
        return work(spark)
