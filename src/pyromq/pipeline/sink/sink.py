"""Spark's writers: ``df.write.format("pyromq")`` and ``df.writeStream.format("pyromq")`` over the modules of this room.

Spark makes a writer for every batch on the driver, sends a copy of it to every task, and makes another one to commit.
Copies are made by pickling, so that is when a writer finds out what its tasks have to know: once per batch, before any
of them is run, and never in the process that only commits.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyromq.client.core.transaction import TransactionOutcome, prepared_properties
from pyromq.errors import ConfigError
from pyromq.model import property_names as names
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.option_texts import LaneChoice
from pyromq.pipeline.core.options import LANE_MARK, Use
from pyromq.pipeline.payload.encoding import BodyEncoder, encoded_schema, marks_of
from pyromq.pipeline.payload.lookup import looked_up
from pyromq.pipeline.payload.typed_rows import payload_schema
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.sink.bad_rows import RowPacker, Sieve, side_output
from pyromq.pipeline.sink.check_backs import keep_answering
from pyromq.pipeline.sink.columns import SINK_COLUMNS, check_sink_schema
from pyromq.pipeline.sink.joined import JoinedPacker, can_join
from pyromq.pipeline.sink.keys import RowKeys
from pyromq.pipeline.sink.options import Mode, SinkOptions, parse_sink_options
from pyromq.pipeline.sink.replay import (
    FoundRows,
    NotRepeatableError,
    Numbering,
    ReplayedStretch,
    marker_of,
    marker_options,
    move_marker,
    plan_replay,
    read_found,
)
from pyromq.pipeline.sink.requests import Packer, SinkRequest
from pyromq.pipeline.sink.sender import PreparedRow, RequestSender
from pyromq.pipeline.sink.transactions import decisions_of, end_all, with_group
from pyromq.typed.schemas.given import BodySchema
from pyromq.wire.flags import SysFlag
from pyromq.wire.property_text import join_items

_OVERWRITING: Final = {
    Use.STREAM: ("output mode complete", ".outputMode('append')"),
    Use.BATCH: ("save mode overwrite", ".mode('append')"),
}
"""What the user asked for in Spark's words, and should."""
NO_LANE: Final = (
    "jvm is not there: Spark needs its jar from the start (pyromq.pipeline.session() gives it, for others there is "
    "pyromq.pipeline.lane_jar()), which takes a Java compiler; it has no mode transactional, no payload, "
    "no client certificates, no URL of name servers or of badRows, no namespace without topic. With auto Python writes "
    "there"
)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Make the writer of a streaming query. Raises OptionError, SchemaError, ConfigError."""
    return StreamWriter(checked_options(options, schema, overwrite, Use.STREAM))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Make the writer of a batch write. Raises OptionError, SchemaError, ConfigError."""
    return BatchWriter(checked_options(options, schema, overwrite, Use.BATCH))


def checked_options(given: Mapping[str, str], schema: StructType, overwrite: bool, use: Use) -> SinkOptions:
    """What a write asks for. Raises OptionError, SchemaError, ConfigError."""
    options = parse_sink_options(given, use)
    if options.lane is LaneChoice.JVM and LANE_MARK not in given:
        raise OptionError("lane", NO_LANE)
    if overwrite:  # Spark's mode, not our option of that name
        asked, write = _OVERWRITING[use]
        raise ConfigError(f"{asked}: a topic cannot be overwritten; write with {write}")
    payload, known = looked_up(options.reaching, options.payload, options.schema, options.topics)
    options = replace(options, payload=payload, body_schema=known)
    check_sink_schema(schema, options)
    if options.payload is not None:
        options = replace(options, body_schema=_body_schema(options, schema))
    return with_group(options) if options.mode is Mode.TRANSACTIONAL else options


def _body_schema(options: SinkOptions, schema: StructType) -> BodySchema:
    """What bodies are written as, of the columns that are not the sink's. Raises OptionError, SchemaError."""
    columns = [each for each in to_arrow_schema(schema, timezone="UTC") if each.name not in SINK_COLUMNS]
    assert options.payload is not None
    found = encoded_schema(options.body_schema or payload_schema(options.payload, options.schema), columns)
    BodyEncoder(options.payload, found)  # what is missing is said here
    return found


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task tells the driver."""

    partition: int
    rows: int
    skipped: int = 0
    digest: str = ""
    run: int = 0
    prepared: Sequence[PreparedRow] = ()
    doubtful: Sequence[str] = ()

    @property
    def runs(self) -> tuple[int, int]:
        """Each doubtful prepared message took another number."""
        return self.run, self.run + len(self.doubtful)


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks have to know beside the options."""

    replay: ReplayedStretch = field(default_factory=ReplayedStretch)
    decided: int = -1  # batches up to this one need nothing any more


@dataclass(frozen=True, slots=True)
class Task:
    """Place of a task's rows: query, batch and partition."""

    identity: str
    batch: int
    partition: int
    attempt: int
    run: int = 0

    @property
    def name(self) -> str:
        """For files of the task."""
        return f"{self.batch}-{self.partition}-{self.attempt}"


def plan_of(options: SinkOptions) -> Plan:
    """Asked on the driver before every batch. Raises TopicNotFoundError, SourceUnreachableError."""
    match options.mode:
        case Mode.IDEMPOTENT:
            cluster = Cluster(marker_options(options))
            decided, replay = plan_replay(cluster, marker_of(options, cluster))
            return Plan(replay, decided)
        case Mode.TRANSACTIONAL:
            keep_answering(options)
            return Plan(decided=decisions_of(options).newest())
        case _:
            return Plan()


class _Writing:
    """What both writers do on the driver and in tasks."""

    _use: Use

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plan: Plan | None = None
        self._life = uuid.uuid4().hex  # stands for a query that Spark does not name

    @in_one_sentence
    def __getstate__(self) -> dict[str, Any]:
        if self._plan is None:
            self._plan = plan_of(self._options)
        return self.__dict__.copy()

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        assert self._plan is not None
        return write_rows(self._options, self._plan, self._task(), iterator)

    def _task(self) -> Task:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0) if self._use is Use.STREAM else 0
        query = context.getLocalProperty("sql.streaming.queryId") if self._use is Use.STREAM else None
        identity = query or self._options.sink_id or self._life
        run = random.getrandbits(31) or 1 if self._options.mode is Mode.TRANSACTIONAL else 0
        return Task(identity, batch, context.partitionId(), context.attemptNumber(), run)


def write_rows(options: SinkOptions, plan: Plan, task: Task, batches: Iterator[pa.RecordBatch]) -> Written:
    """All rows of a partition are confirmed by brokers when it returns."""
    if task.batch <= plan.decided:
        if plan.replay.again is None or task.batch < plan.decided:
            return Written(task.partition, 0, skipped=sum(batch.num_rows for batch in batches))
        plan = Plan(plan.replay.again)
    goes_on = plan.replay.goes_on or Numbering(task.batch, {})
    keys, first = RowKeys(task.identity, goes_on.batch, task.partition, task.run), goes_on.rows.get(task.partition, 0)
    transactional, system = options.mode is Mode.TRANSACTIONAL, _system(options)
    checks = _Checks(options, plan.replay, task, keys) if options.mode is Mode.IDEMPOTENT else None
    sender = RequestSender(
        connect(options.reaching),
        options,
        sys_flag=SysFlag.PREPARED.value if transactional else 0,
        keeps_prepared=transactional,
        is_stored=checks.is_stored if checks is not None else None,
    )
    packer: Packer | JoinedPacker | None = None

    def trial(batch: pa.RecordBatch) -> RowPacker:
        if can_join(batch.schema.names, options):
            return JoinedPacker(options, keys, system=system)
        return Packer(options, keys, sender.queues_of, system=system, alone=transactional)

    sieve = Sieve(trial, side_output(connect(options.reaching), options, task.name)) if options.bad_rows else None
    try:
        for batch in batches if sieve is None else map(sieve.good_rows, batches):
            if packer is None:
                columns = batch.schema.names
                found = checks.found(has_own="unique_key" in columns) if checks is not None else None
                is_sent = found.has if found is not None and len(found) else None
                if is_sent is None and not transactional and can_join(columns, options):
                    packer = JoinedPacker(options, keys, system=system, first=first)
                else:
                    packer = Packer(
                        options, keys, sender.queues_of, system=system, alone=transactional, is_sent=is_sent,
                        first=first,
                    )  # fmt: skip
            for request in packer.pack(batch):
                sender.put(request)
        for request in packer.rest() if packer is not None else ():
            sender.put(request)
        sent = sender.finish()
        if sieve is not None:
            sieve.finish()
    except BaseException:  # whatever ends the task, its sender must not be left running; raised again
        sender.give_up()
        raise
    skipped = packer.skipped if packer is not None else 0
    return Written(
        task.partition, sent.rows, skipped, keys.digest, task.run, tuple(sent.prepared), tuple(sent.doubtful)
    )


def _system(options: SinkOptions) -> str:
    namespace = options.reaching.namespace
    pairs = [(names.INSTANCE_ID, namespace)] if namespace else []
    if options.payload is not None and options.body_schema is not None:
        pairs += marks_of(options.payload, options.body_schema)
    if options.mode is Mode.TRANSACTIONAL:
        group = connect(options.reaching).client.wire_name(options.group)
        pairs += prepared_properties(group, options.check_after_ms)
    return join_items(pairs)


class _Checks:
    """What an idempotent task asks of the queues."""

    def __init__(self, options: SinkOptions, replay: ReplayedStretch, task: Task, keys: RowKeys) -> None:
        self._options = options
        self._replay = replay
        self._task = task
        self._keys = keys
        self._cluster = Cluster(marker_options(options))

    def found(self, *, has_own: bool) -> FoundRows:
        """Rows of this partition that an earlier life, or an earlier attempt of this task, has sent."""
        ranges = self._replay.doubtful
        if self._task.attempt:
            time.sleep(self._options.settle_ms / 1000)  # what the earlier attempt sent may still be on its way
            ranges = self._replay.until(self._cluster.held())
        return read_found(self._options, ranges, self._keys.digest if has_own else self._keys.head)

    def is_stored(self, request: SinkRequest, queue: QueueId) -> bool:
        """Whether a request arrived that was not confirmed. Raises NotRepeatableError if a part of it did."""
        ranges = self._replay.since(queue, self._cluster.held())
        found = read_found(self._options, ranges, self._keys.digest)
        there = sum(key in found for key in request.keys)
        if 0 < there < len(request.keys):
            text = f"a broker stored {there} of {len(request.keys)} rows of one request before it stopped"
            raise NotRepeatableError(f"{text}; run the batch again, it sends the missing ones")
        return there > 0


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writer of one batch of a streaming query."""

    _use = Use.STREAM

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark may call it again for the same batch, in another life."""
        options, written = self._options, [each for each in messages if isinstance(each, Written)]
        match options.mode:
            case Mode.IDEMPOTENT:
                cluster = Cluster(marker_options(options))
                move_marker(batchId, cluster, marker_of(options, cluster))
            case Mode.TRANSACTIONAL:
                decisions = decisions_of(options)
                if batchId <= decisions.newest():
                    return
                digest = next((each.digest for each in written if each.digest), "")
                out = [key for each in written for key in each.doubtful]
                decisions.decide(batchId, digest, {each.partition: each.runs for each in written}, out)
                prepared = [row for each in written for row in each.prepared]
                end_all(connect(options.reaching), options.group, prepared, TransactionOutcome.COMMIT)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What other tasks have prepared is rolled back when brokers ask, once the batch is decided.

        Spark also calls it when ``commit`` failed, perhaps after the decision, which stands.
        """
        if self._options.mode is not Mode.TRANSACTIONAL or batchId <= decisions_of(self._options).newest():
            return
        prepared = [row for each in messages if isinstance(each, Written) for row in each.prepared]
        if prepared:
            end_all(connect(self._options.reaching), self._options.group, prepared, TransactionOutcome.ROLLBACK)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writer of one batch write. Its marker stays where the first attempt put it: so it can be repeated at any time."""

    _use = Use.BATCH

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the write; tasks have done everything."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was sent stays: a topic forgets nothing."""
