"""Messages of topics in a Delta table, each exactly once, without Spark: how a batch becomes part of the table.

    table/
    ├── <uuid>.parquet            written first; no reader knows it before the commit names it
    └── _delta_log/<version>.json
            add   the file
            txn   pyromq:orders:broker-a:0 → 1250      the next offset of a queue: one for each queue that moved
            commitInfo   pyromq.ranges                 which offsets the commit brought: for people, and for where_is

The next offset of a queue stands in the commit that brings the messages before it, so both are there or neither is.
Delta keeps ``txn`` through checkpoints and compaction, and refuses a commit when another one has moved the same queue
since the table was read: two writers of one topic are safe, one of them reads again. A crash leaves at worst a file
that nobody names, which ``vacuum`` removes.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import OffsetRange, Offsets
from pyromq.pipeline.tables.bounds import SCHEMA
from pyromq.pipeline.tables.errors import PackageMissingError, TableWriteError
from pyromq.pipeline.tables.folders import take_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

_APP: Final = "pyromq"
_RANGES: Final = "pyromq.ranges"
_COUNTED: Final = tuple(field.name for field in SCHEMA if field.name not in ("properties", "body"))
_TIME: Final = SCHEMA.field("store_time").type
_TEXT_MAX: Final = 32  # characters of a text in statistics


class TableVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the table that brought messages: offsets [start, end) of each queue."""

    version: int
    committed_ms: int
    ranges: tuple[OffsetRange, ...]

    def holds(self, queue: QueueId, offset: int) -> bool:
        return any(each.queue == queue and each.start <= offset < each.end for each in self.ranges)


class MessageTable:
    """The Delta table in a folder. One object is one reader of its log; ``reload`` sees what others committed."""

    def __init__(self, folder: Path, *, on_step: Callable[[str], None] = lambda step: None) -> None:
        """Open the table, or create it. ``on_step`` hears of each step of a commit. Raises ConfigError,
        PackageMissingError."""
        try:
            import deltalake
        except ImportError as error:
            raise PackageMissingError("deltalake", "delta", "a Delta table") from error
        take_folder(folder, "_delta_log", "Delta")
        self.folder = folder
        self._on_step = on_step
        self._conflicts: Any = (deltalake.exceptions.CommitFailedError,)
        self._table: DeltaTable = deltalake.DeltaTable.create(folder, pa.schema(SCHEMA), mode="ignore")
        self.reload()
        if (found := self._table.to_pyarrow_dataset().schema.names) != SCHEMA.names:
            raise ConfigError(f"the Delta table in {folder} has other columns than messages have: {', '.join(found)}")

    @property
    def version(self) -> int:
        return self._table.version()

    def reload(self) -> None:
        from deltalake import DeltaTable

        self._table = DeltaTable(self.folder)

    def next_offsets(self, queues: Iterable[QueueId]) -> Offsets:
        """The next offset of each queue of which the table has messages."""
        found = {queue: self._table.transaction_version(_app_of(queue)) for queue in queues}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def append(self, rows: pa.Table, ranges: Iterable[OffsetRange]) -> bool:
        """Commit the messages of these ranges; False when another writer has moved one of the queues meanwhile, and
        nothing was committed. Call ``reload`` and ``next_offsets`` before the next one. Raises TableWriteError."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        moved = tuple(ranges)
        self._on_step("read")
        name = f"{uuid.uuid4()}.parquet"
        path = self.folder / name
        _write_file(path, rows)
        self._on_step("written")
        add = AddAction(name, path.stat().st_size, {}, _now_ms(), True, _stats(rows))
        properties = CommitProperties(
            custom_metadata={_RANGES: json.dumps([plain_range(each) for each in moved])},
            app_transactions=[Transaction(_app_of(each.queue), each.end) for each in moved],
        )
        before = self.version
        try:
            self._table.create_write_transaction([add], "append", SCHEMA, commit_properties=properties)
        except self._conflicts as error:  # the file stays: who knows whether the commit is there after all?
            self._require_newer(before, error)
            return False
        self._on_step("committed")
        return True

    def versions(self) -> list[TableVersion]:
        """Versions that brought messages, the newest first, as far as the log of the table goes back."""
        return [
            TableVersion(
                version=each["version"], committed_ms=each["timestamp"],
                ranges=tuple(map(range_of, json.loads(each[_RANGES]))),
            )
            for each in self._table.history() if _RANGES in each
        ]  # fmt: skip

    def rows_of(self, message_id: str) -> list[dict[str, Any]]:
        """Where messages with an id come from, by the rows of the table: topic, broker, queue, offset, store time."""
        wanted = (pc.field("message_id") == message_id) | (pc.field("offset_message_id") == message_id)
        columns = ["topic", "broker", "queue_id", "queue_offset", "store_time"]
        found: list[dict[str, Any]] = self._table.to_pyarrow_dataset().to_table(columns, filter=wanted).to_pylist()
        return found

    def compact(self) -> int:
        """Merge small files; how many went. Another writer's commit comes first: then nothing is merged."""
        before = self.version
        try:
            done = self._table.optimize.compact()
        except self._conflicts as error:
            self._require_newer(before, error)
            return 0
        return int(done["numFilesRemoved"])

    def expire(self, days: float, now: datetime) -> int:
        """Delete messages stored earlier than so many days ago, and files that no version of the last week names; how
        many messages went."""
        bound, before = now - timedelta(days=days), self.version
        if not self._table.to_pyarrow_dataset().count_rows(pc.field("store_time") < pa.scalar(bound, _TIME)):
            return 0  # a delete would make a version all the same
        try:
            done = self._table.delete(f"store_time < '{bound:%Y-%m-%dT%H:%M:%S.%fZ}'")
        except self._conflicts as error:
            self._require_newer(before, error)
            return 0
        self._table.vacuum(dry_run=False)
        return int(done.get("num_deleted_rows") or 0)

    def _require_newer(self, before: int, error: Exception) -> None:
        """A refused commit is a conflict where another one came first; else nobody can commit. Raises
        TableWriteError."""
        self.reload()
        if self.version == before:
            raise TableWriteError(f"the table in {self.folder} cannot be written: {error}") from error


def _app_of(queue: QueueId) -> str:
    return f"{_APP}:{queue.topic}:{queue.broker}:{queue.number}"


def plain_range(part: OffsetRange) -> list[Any]:
    return [part.queue.topic, part.queue.broker, part.queue.number, part.start, part.end]


def range_of(plain: list[Any]) -> OffsetRange:
    topic, broker, number, start, end = plain
    return OffsetRange(QueueId(topic, broker, number), start, end)


def _write_file(path: Path, rows: pa.Table) -> None:
    """A file that is whole and on disk when this returns."""
    with path.open("wb") as file:
        pq.write_table(rows, file, compression="snappy")
        file.flush()
        os.fsync(file.fileno())


def _stats(rows: pa.Table) -> str:
    """What readers need to pass over a file. A column without its count of nulls, or with values and without its least
    and greatest, would be taken for one of nulls alone."""
    ends = {name: pc.min_max(rows[name]).as_py() for name in _COUNTED}
    least = {name: _lower(each["min"]) for name, each in ends.items() if each["min"] is not None}
    most = {name: _upper(each["max"]) for name, each in ends.items() if each["max"] is not None}
    nulls = {name: rows[name].null_count for name in _COUNTED}
    return json.dumps({"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def _lower(value: Any) -> Any:
    """A bound that is not above a value: texts are cut, times are in milliseconds."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    return value[:_TEXT_MAX] if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    """A bound that is not below a value."""
    is_cut = isinstance(value, str) and len(value) > _TEXT_MAX
    return f"{value[:_TEXT_MAX]}\U0010ffff" if is_cut else _lower(value)


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
