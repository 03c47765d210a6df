"""Jobs done by both engines, which must agree: Spark, and this process without it."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.pipeline import jobs


def report(spark: Any, topics: list[str], **options: Any) -> jobs.Report:
    """The report by Spark; the one without Spark is the same, but for the time that it took."""
    by_spark = jobs.report(spark, topics, **options)
    by_python = jobs.report(None, topics, **options)
    assert _timeless(by_python) == _timeless(by_spark)
    return by_spark


def _timeless(found: jobs.Report) -> jobs.Report:
    return msgspec.structs.replace(found, made_ms=0, took_s=0)


def redrive(spark: Any, group: str, **options: Any) -> jobs.Redriving:
    """The redrive by Spark; before it both say the same of what would be done."""
    dry = {name: value for name, value in options.items() if name != "dry_run"}
    by_spark, by_python = jobs.redrive(spark, group, **dry), jobs.redrive(None, group, **dry)
    assert by_python.letters == by_spark.letters
    return jobs.redrive(spark, group, **options)


def replay(spark: Any, selection: jobs.Selection, to_topic: str, **options: Any) -> jobs.ReplaySummary:
    """The replay by Spark; before it both count and show the same."""
    dry = {name: value for name, value in options.items() if name != "dry_run"}
    if "RLIKE" not in selection.where:  # which DuckDB does not know
        by_spark = jobs.replay(spark, selection, to_topic, **dry)
        by_python = jobs.replay(None, selection, to_topic, **dry)
        assert (by_python.found, by_python.samples) == (by_spark.found, by_spark.samples)
    return jobs.replay(spark, selection, to_topic, **options)
