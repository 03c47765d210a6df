"""A consumer group whose work is done by Spark.

    def handle(record):
        save(json.loads(record.body))          # an exception: this row comes again later, the others are not disturbed

    running = consume(spark, "orders", "billing", handle)
    running.query.awaitTermination()

The promises are those of a push consumer: every message is handled at least once, failures come again on the ladder of
delays and end in ``%DLQ%group``, and the group's progress never passes a row that is not done, sent back or dead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyromq.client.core.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import spark_type
from pyromq.pipeline.consuming.rows import columns_of
from pyromq.pipeline.consuming.verdicts import DONE, Dead, Retry
from pyromq.pipeline.core.options import Use, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyromq.pipeline.consuming.writer import Counts

__all__ = ["DONE", "Consumption", "Dead", "Retry", "consume"]

ATTEMPTS_MAX: Final = 16
_STARTS: Final = {"latest": "latest", "earliest": "group"}  # for a group that stands nowhere yet


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumer group at work. ``query`` is Spark's."""

    query: StreamingQuery
    checkpoint: str
    spark: SparkSession

    @property
    def counts(self) -> Counts:
        """As of the last batch that was committed."""
        from pyromq.pipeline.consuming.writer import counts_log, read_counts, read_counts_there
        from pyromq.pipeline.spark.session import is_connect

        if is_connect(self.spark):
            return read_counts_there(self.spark, self.checkpoint)
        return read_counts(counts_log(self.checkpoint))

    def stop(self) -> None:
        """A batch under way is given up; it will be run again."""
        self.query.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """True when the query has ended. Raises what ended it."""
        if timeout_s is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]


def consume(
    spark: SparkSession,
    topics: str | Sequence[str],
    group: str,
    handler: Callable[[Any], Any],
    *,
    nameserver: str = "",
    batches: bool = False,
    columns: Sequence[str] = (),
    start: str = "latest",
    attempts_max: int = ATTEMPTS_MAX,
    checkpoint: str = "",
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, object] | None = None,
    name: str = "",
) -> Consumption:
    """Starts a query that hands the messages of topics, and the group's retries, to ``handler`` on Spark's workers.

    ``handler(record)`` returns None (done), Retry or Dead; what it raises is a Retry. With ``batches`` it gets record
    batches of Arrow and returns one verdict per row, or None when all are done; ``columns`` adds to those that are
    there. ``start`` is for a group that stands nowhere yet: latest or earliest. Without ``checkpoint`` the group's
    progress at the brokers is what a restart goes on from. ``trigger`` as Spark's ``trigger(**trigger)``, ``options``
    as the source has them. Raises OptionError, SchemaError, ConfigError.
    """
    from pyspark import cloudpickle

    from pyromq.pipeline.consuming.writer import NAME, ConsumeSource, Work
    from pyromq.pipeline.spark.session import register

    if start not in _STARTS:
        raise ConfigError(f"start must be latest or earliest, not {start!r}")
    if not callable(handler):
        raise ConfigError(f"handler must be a function, not {type(handler).__name__}")
    if attempts_max < 0:
        raise ConfigError(f"attempts_max must not be negative: {attempts_max}")
    source = source_options(topics, group, nameserver, _STARTS[start], options or {})
    reaching = parse_options(source, Use.STREAM)
    nameservers = ClientSettings(nameservers=reaching.nameserver).nameservers  # workers may have another environment
    reaching = replace(reaching, nameserver=";".join(nameservers))
    work = Work(reaching, group, attempts_max, batches, cloudpickle.dumps(handler))  # type: ignore[no-untyped-call]
    schema = ", ".join(f"{column} {spark_type(column, properties_as_map=False)}" for column in columns_of(columns))
    checkpoint = checkpoint or tempfile.mkdtemp(prefix=f"pyromq-{group}-")
    register(spark)
    spark.dataSource.register(ConsumeSource)
    rows = spark.readStream.format("pyromq").options(**source).schema(schema).load()
    writing = rows.writeStream.format(NAME).option("work", work.as_option()).option("checkpointLocation", checkpoint)
    if name:
        writing = writing.queryName(name)
    if trigger:
        writing = writing.trigger(**trigger)
    return Consumption(writing.start(), checkpoint, spark)


def source_options(
    topics: str | Sequence[str], group: str, nameserver: str, start: str, more: Mapping[str, object]
) -> dict[str, str]:
    """For the source: the group's topics and its retries."""
    given = {
        "topic": topics if isinstance(topics, str) else ",".join(topics),
        "group": group,
        "includeRetry": "true",
        "properties": "raw",
        "startingOffsets": start,
        **({"nameserver": nameserver} if nameserver else {}),
    }
    for key, value in more.items():
        if key.lower() in (name.lower() for name in given):
            raise ConfigError(f"option {key} is set by consume itself")
        given[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return given
