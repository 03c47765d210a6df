"""Streaming queries of jobs: run to their end with progress, and when one fails its reason in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from pyromq.pipeline.core.offsets import from_json, from_tree
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.common.errors import FormatMissingError, JobFailedError
from pyromq.pipeline.jobs.common.interrupts import noted_interrupts

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_S: Final = 1.0  # each look costs the JVM some ms for every batch that it remembers; the end is seen at once
_PACKAGES: Final = {
    "delta": "io.delta:delta-spark_{}_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{}_2.13",
}
# the last line of a Python traceback, or the only one: what was raised, and why
_raised = re.compile(r"(?:^|: )(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE).findall
# what stands around the reason: ids of the query, codes of the SQL standard
_around = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: |\s*SQLSTATE: \w+\b.*$").sub


def trigger_of(follow_s: float | None) -> dict[str, Any]:
    """Arguments of Spark's ``trigger``: everything there is and then an end, or every so many seconds."""
    if follow_s is None:
        return {"availableNow": True}
    return {"processingTime": f"{int(follow_s * 1000)} milliseconds"}


def drain(
    query: StreamingQuery,
    tell: Tell = silent,
    rows_of: Callable[[Any], int] | None = None,
    *,
    endless: bool = False,
) -> int:
    """Run one query to its end; see ``drain_all``."""
    return drain_all([query], tell, rows_of, endless=endless)[0]


def drain_all(
    queries: Sequence[StreamingQuery],
    tell: Tell = silent,
    rows_of: Callable[[Any], int] | None = None,
    *,
    endless: bool = False,
    looks_at: Callable[[int, Any], None] = lambda *_: None,
) -> list[int]:
    """Waits until all queries have ended and returns the rows of each. When one fails the others are stopped.

    All are stopped when this is interrupted, as endless ones have to be. ``rows_of`` counts the rows of one progress
    where Spark counts something else; ``looks_at`` gets the number of a query and each progress, some of them again.
    Raises JobFailedError.
    """
    seen: list[dict[int, int]] = [{} for _ in queries]
    running = list(queries)
    with noted_interrupts() as interrupt:
        try:
            with failures_in_words(), suppress(KeyboardInterrupt) if endless else nullcontext():
                while not interrupt.is_wanted and (
                    running := [query for query in running if not _has_ended(query, _LOOK_S / len(running))]
                ):
                    _count(queries, seen, tell, rows_of, looks_at)
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()
        _count(queries, seen, tell, rows_of, looks_at)
    if interrupt.is_wanted and not endless:
        raise KeyboardInterrupt
    return [sum(each.values()) for each in seen]


def _has_ended(query: StreamingQuery, timeout_s: float) -> bool:
    return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # fractions of a second are fine


def _count(
    queries: Sequence[StreamingQuery],
    seen: Sequence[dict[int, int]],
    tell: Tell,
    rows_of: Callable[[Any], int] | None,
    looks_at: Callable[[int, Any], None],
) -> None:
    """Spark remembers the last hundred batches only, so they are added up on the way."""
    done, total = 0, None
    for number, (query, batches) in enumerate(zip(queries, seen, strict=True)):
        last: Any = None
        for last in query.recentProgress:
            looks_at(number, last)
            batches[last["batchId"]] = max((rows_of or rows_read)(last), batches.get(last["batchId"], 0))
        done += sum(batches.values())
        if last is not None:
            total = (total or 0) + sum(batches.values()) + _lag(last)
    tell(done, total)


def _lag(progress: Any) -> int:
    try:
        return int(from_json(progress["sources"][0]["latestOffset"])["lag"])
    except (KeyError, IndexError, TypeError, ValueError):
        return 0


def rows_read(progress: Any) -> int:
    """By all sources of a batch; Spark Connect leaves their sum out."""
    rows = progress["numInputRows"]
    return int(sum(source["numInputRows"] for source in progress["sources"]) if rows is None else rows)


def offsets_read(progress: Any) -> int:
    """How many messages a batch went over, by the offsets of our source."""
    try:
        source = progress["sources"][0]
        start, end = from_tree(from_json(source["startOffset"])), from_tree(from_json(source["endOffset"]))
    except (KeyError, IndexError, TypeError, ValueError):
        return 0
    return sum(max(0, offset - start.get(queue, offset)) for queue, offset in end.items())


@contextmanager
def failures_in_words() -> Iterator[None]:
    """Errors of Spark become JobFailedError or FormatMissingError with the line that matters."""
    from pyspark.errors import PySparkException

    kinds: list[type[Exception]] = [PySparkException]
    with suppress(ImportError):  # it does not come with the client of Spark Connect alone
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # what PySpark does not translate

        kinds.append(Py4JJavaError)
    try:
        yield
    except tuple(kinds) as error:
        raise translated(str(error)) from error


def _spark_version() -> str:
    """Spark's version as names of packages have it: 4.3."""
    import pyspark

    return ".".join(pyspark.__version__.split(".")[:2])


def translated(text: str) -> JobFailedError | FormatMissingError:
    for name, package in _PACKAGES.items():
        if "DATA_SOURCE_NOT_FOUND" in text and re.search(rf"data source: {name}\b", text):
            return FormatMissingError(
                f"Spark has no package for the format {name}: start it with spark.jars.packages="
                f"{package.format(_spark_version())}:VERSION (--conf on the command line) if there is one for this "
                "Spark, or write parquet"
            )
    raised = _raised(text)
    if raised:
        name, reason = raised[-1]
        return JobFailedError(reason if not name.startswith("PySpark") else f"{name}: {reason}")
    return JobFailedError(_around("", text.strip().split("\n", 1)[0]))
