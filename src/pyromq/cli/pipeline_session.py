"""The Spark of a command, and the bar that shows how far its job is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyromq.cli.pipeline_options import SparkOptions, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def started(options: SparkOptions, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Quiet: what goes wrong is told by our own errors; options go before ``settings``.

    Raises ConfigError for what is not installed.
    """
    from pyromq.errors import ConfigError
    from pyromq.pipeline.jobs.demo_job import why_not

    if missing := why_not():
        raise ConfigError(missing)
    from pyromq.pipeline import session

    quiet: dict[str, object] = {"spark.ui.enabled": False, "spark.log.level": "OFF"}
    spark = session(options.master, "pyromq pipeline", **{**quiet, **(settings or {}), **pairs(options.conf)})
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def bar(title: str) -> Iterator[Any]:
    from pyromq.pipeline.jobs import bars

    with bars.bar(title) as tell:
        yield tell
