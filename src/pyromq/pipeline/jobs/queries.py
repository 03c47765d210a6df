"""Running a streaming query to its end, with progress, and saying in one line why it failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.errors import FormatMissingError, JobFailedError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_S: Final = 0.2
_PACKAGES: Final = {
    "delta": "io.delta:delta-spark_4.1_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
}
# the last line of a Python traceback: what was raised, and why
_raised = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE).findall


def drain(
    query: StreamingQuery,
    tell: Tell = silent,
    rows_of: Callable[[Any], int] | None = None,
    *,
    endless: bool = False,
) -> int:
    """Waits until the query ends and returns its rows; stops it when this is interrupted, as an endless one has to be.

    ``rows_of`` counts the rows of one progress where Spark counts something else. Raises JobFailedError.
    """
    seen: dict[int, int] = {}
    try:
        with failures_in_words(), suppress(KeyboardInterrupt) if endless else nullcontext():
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # fractions of a second are fine
                _count(query, seen, tell, rows_of)
    finally:
        if query.isActive:
            query.stop()
    _count(query, seen, tell, rows_of)
    return sum(seen.values())


def _count(query: StreamingQuery, seen: dict[int, int], tell: Tell, rows_of: Callable[[Any], int] | None) -> None:
    """Spark remembers the last hundred batches only, so they are added up on the way."""
    last: Any = None
    for last in query.recentProgress:
        rows = rows_of(last) if rows_of else int(last["numInputRows"])
        seen[last["batchId"]] = max(rows, seen.get(last["batchId"], 0))
    done = sum(seen.values())
    tell(done, done + _lag(last) if last is not None else None)


def _lag(progress: Any) -> int:
    try:
        latest = progress["sources"][0]["latestOffset"]
        return int((json.loads(latest) if isinstance(latest, str) else latest)["lag"])
    except (KeyError, IndexError, TypeError, ValueError):
        return 0


@contextmanager
def failures_in_words() -> Iterator[None]:
    """Errors of Spark become JobFailedError or FormatMissingError with the line that matters."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # what PySpark does not translate
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise translated(str(error)) from error


def translated(text: str) -> JobFailedError | FormatMissingError:
    for name, package in _PACKAGES.items():
        if "DATA_SOURCE_NOT_FOUND" in text and re.search(rf"data source: {name}\b", text):
            return FormatMissingError(
                f"Spark has no package for the format {name}: start it with spark.jars.packages={package}:VERSION "
                "(--conf on the command line), or write parquet"
            )
    raised = _raised(text)
    if raised:
        name, reason = raised[-1]
        return JobFailedError(reason if not name.startswith("PySpark") else f"{name}: {reason}")
    return JobFailedError(text.strip().split("\n", 1)[0])
