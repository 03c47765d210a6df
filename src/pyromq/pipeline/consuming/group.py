"""A consumer group whose work is done by Spark.

    def handle(record):
        save(json.loads(record.body))          # an exception: this row comes again later, the others go on

    running = consume(spark, "orders", "billing", handle)
    running.query.awaitTermination()

The promises are those of a push consumer: every message is handled at least once, failures come again on the ladder of
delays and end in ``%DLQ%group``, and the group's progress never passes a row that is not done, sent back or dead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Unpack

from pyromq.client.consumer.base.failure_recorder import code_version
from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import spark_type
from pyromq.pipeline.consuming.options import STARTS, ConsumeOptions, ConsumeSettings
from pyromq.pipeline.consuming.rows import columns_of
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.core.options import Use, parse_options, with_nameservers_known_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyromq.pipeline.consuming.writer import RowCounts

_TYPED: Final = frozenset(("payload", "schema", "payloadmode"))
"""Options of typed reads, in lower case: handlers get bodies."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumer group at work. ``query`` is Spark's."""

    query: StreamingQuery
    checkpoint: str
    spark: SparkSession

    @property
    def counts(self) -> RowCounts:
        """Row counts as of the last batch that was committed."""
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
    **options: Unpack[ConsumeOptions],
) -> Consumption:
    """Starts a query that hands the messages of topics, and the group's retries, to ``handler`` on Spark's workers.

    ``handler(record)`` returns None (done), Retry or Dead; what it raises is a Retry, and anything else that it returns
    ends the query, as does a share of failures above ``failure_share_max``. With ``batches`` it gets record
    batches of Arrow and returns one verdict per row, or None when all are done; ``columns`` adds to those that are
    there. ``start`` is for a group that has no progress yet: latest or earliest. Without ``checkpoint`` a restart goes
    on from the group's progress at the brokers. ``trigger`` as Spark's ``trigger(**trigger)``, ``options`` as the
    source has them. What fails says why: ``code_version`` names the version of the code, ``mask_error`` gets the text
    of an error and returns what may be stored of it, ``traceback_bytes`` adds the end of its traceback. Raises
    OptionError, SchemaError, ConfigError, and TypeError for an option that does not exist.
    """
    from pyspark import cloudpickle

    from pyromq.pipeline.consuming.writer import NAME, ConsumeSource, Work
    from pyromq.pipeline.spark.session import make_known, register

    settings = settings_from(ConsumeSettings, options, "consume")
    if not callable(handler):
        raise ConfigError(f"handler must be a function, not {type(handler).__name__}")
    if iscoroutinefunction(handler):
        raise ConfigError("handler is a coroutine function, and Spark has no loop to run it: give it a plain function")
    source = source_options(topics, group, settings.nameserver, STARTS[settings.start], settings.options or {})
    reaching = with_nameservers_known_here(parse_options(source, Use.STREAM))
    code: bytes = cloudpickle.dumps(handler)  # type: ignore[no-untyped-call]
    mask = b"" if settings.mask_error is None else cloudpickle.dumps(settings.mask_error)  # type: ignore[no-untyped-call]
    version = code_version(settings.code_version)  # as it is known here: workers may have another environment
    work = Work(
        reaching,
        group,
        settings.attempts_max,
        settings.batches,
        code,
        mask,
        version,
        settings.failure_share_max,
        settings.traceback_bytes,
    )
    columns = columns_of(settings.columns)
    schema = ", ".join(f"{column} {spark_type(column, properties_as_map=False)}" for column in columns)
    checkpoint = settings.checkpoint or tempfile.mkdtemp(prefix=f"pyromq-{group}-")
    register(spark)
    make_known(spark, ConsumeSource)
    rows = spark.readStream.format("pyromq").options(**source).schema(schema).load()
    writing = rows.writeStream.format(NAME).option("work", work.as_option()).option("checkpointLocation", checkpoint)
    if settings.name:
        writing = writing.queryName(settings.name)
    if settings.trigger:
        writing = writing.trigger(**settings.trigger)
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
            raise ConfigError(f"option {key} is set by consume itself; leave it out")
        if key.lower() in _TYPED:
            raise ConfigError(f"option {key} is of typed reads; a handler gets rows with body, and decodes that itself")
        given[key] = option_text(value)
    return given
