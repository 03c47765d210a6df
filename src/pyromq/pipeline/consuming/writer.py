"""Where the work of a consumer group is done: the last step of its query, a sink that calls the handler in its tasks.

One pass: a task reads rows, handles them, sends back those that failed, and only then is done. So Spark commits a
batch, and the group learns of it, when every row of it is done, sent back or dead.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyromq.pipeline.consuming.brake import NO_TRIES, BrakeLog, FirstTries, first_tries
from pyromq.pipeline.consuming.rows import judge_batch, judge_records
from pyromq.pipeline.consuming.send_back import RowSendBack, Telling
from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.checkpoint_log import FOLDER, CheckpointLog
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "pyromq_consume"
_PART, _TOTALS = "consumed", "totals"


@dataclass(frozen=True, slots=True)
class Work:
    """What tasks need; travels as an option."""

    reaching: SourceOptions
    group: str
    attempts_max: int
    in_batches: bool
    handler: bytes  # pickled by value: it may be written in a notebook
    mask: bytes = b""  # likewise; empty when there is none
    code_version: str = ""
    failure_share_max: float = 1.0
    traceback_bytes: int = 0

    def telling(self) -> Telling:
        """What rows that are not done report about it."""
        return Telling(self.code_version, pickle.loads(self.mask) if self.mask else None, self.traceback_bytes)

    def as_option(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Counts of rows since the query was first started with its checkpoint; batches that were run again count once."""

    batch: int = -1
    rows: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0

    def plus(self, batch: int, rows: int, retried: int, dead: int) -> RowCounts:
        done = self.done + rows - retried - dead
        return RowCounts(batch, self.rows + rows, done, self.retried + retried, self.dead + dead)


@dataclass(frozen=True)
class Handled(WriterCommitMessage):
    """What one task tells the driver."""

    rows: int
    retried: int
    dead: int
    tries: FirstTries = NO_TRIES


class ConsumeSource(DataSource):
    """Data source that only ``consume`` uses."""

    @classmethod
    def name(cls) -> str:
        return NAME

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        writer = ConsumeWriter(self.options["work"], self.options["checkpointLocation"])
        writer.brake.check()
        return writer


class ConsumeWriter(DataSourceStreamArrowWriter):
    """Writer of one batch."""

    def __init__(self, work: str, checkpoint: str) -> None:
        self._work = work
        self._checkpoint = checkpoint

    @property
    def brake(self) -> BrakeLog:
        facts, _ = _work(self._work)
        return BrakeLog(counts_log(self._checkpoint), facts.group, facts.failure_share_max)

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        local = context.getLocalProperty
        return handle_rows(
            _work(self._work), f"{local('sql.streaming.queryId')}/{local('streaming.sql.batchId')}", iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        log = counts_log(self._checkpoint)
        before = read_counts(log)
        if batchId > before.batch:
            handled = [each for each in messages if isinstance(each, Handled)]
            rows, retried, dead = (sum(getattr(each, name) for each in handled) for name in ("rows", "retried", "dead"))
            log.write(_TOTALS, json.dumps(asdict(before.plus(batchId, rows, retried, dead))), durable=False)
            self.brake.add(batchId, reduce(FirstTries.plus, (each.tries for each in handled), NO_TRIES))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Rows that were sent back come twice: at least once is what a group promises."""


@lru_cache(8)
def _work(text: str) -> tuple[Work, Any]:
    """Unpacked once per worker."""
    work: Work = pickle.loads(base64.b64decode(text))
    return work, pickle.loads(work.handler)


def handle_rows(work: tuple[Work, Any], batch: str, batches: Iterator[pa.RecordBatch]) -> Handled:
    """Every row is done, sent back or dead when it returns. Raises TooManyFailuresError, WrongVerdictError."""
    facts, handler = work
    judge: Any = judge_batch if facts.in_batches else judge_records
    send_back: RowSendBack | None = None
    rows, tries, telling = 0, NO_TRIES, facts.telling()
    for each in batches:
        rows += each.num_rows
        judged = judge(each, handler, facts.traceback_bytes > 0)
        tries = tries.plus(first_tries(each, judged, telling.masked))
        tries.check(facts.failure_share_max)
        if judged:
            if send_back is None:
                connected, limit = connect(facts.reaching), facts.attempts_max
                send_back = RowSendBack(connected, facts.reaching, facts.group, limit, batch, telling)
            send_back.send_back(judged)
    retried, dead = (send_back.retried, send_back.dead) if send_back is not None else (0, 0)
    return Handled(rows, retried, dead, tries)


def counts_log(checkpoint: str) -> CheckpointLog:
    return CheckpointLog(checkpoint, _PART)


def read_counts(log: CheckpointLog) -> RowCounts:
    return _counts(log.read(_TOTALS))


def read_counts_there(spark: SparkSession, checkpoint: str) -> RowCounts:
    """Read the counts through a Spark that is elsewhere: the file lies on its side."""
    try:
        rows = spark.read.text(f"{checkpoint.rstrip('/')}/{FOLDER}/{_PART}/{_TOTALS}", wholetext=True).collect()
    except AnalysisException:  # no batch is committed yet
        return RowCounts()
    return _counts(rows[0]["value"] if rows else None)


def _counts(text: str | None) -> RowCounts:
    found: Mapping[str, int] = json.loads(text) if text else {}
    return RowCounts(**found)
