"""Messages of topics in an Iceberg table, each exactly once, without Spark; the catalog is a SQLite file beside it.

    warehouse/
    ├── catalog.db                    which metadata file is the table's: the commit is one row of it
    └── pyromq/messages/
        ├── data/<uuid>.parquet       written first; no reader knows it before the commit
        └── metadata/<n>.metadata.json
                properties   pyromq.offset.orders:broker-a:0 = 1250     the next offset of a queue
                snapshot     summary pyromq.ranges                      which offsets it brought, for people

Rows and offsets are one transaction. Offsets are properties of the table, since snapshots expire. pyiceberg tries an
append again by itself when the table has moved, which would write rows twice: ``commit.retry.num-retries`` is 0, and a
commit that was refused is read again here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import OffsetRange, Offsets
from pyromq.pipeline.tables.bounds import SCHEMA
from pyromq.pipeline.tables.delta import TableVersion, plain_range, range_of
from pyromq.pipeline.tables.errors import PackageMissingError, TableWriteError
from pyromq.pipeline.tables.folders import take_folder

if TYPE_CHECKING:
    from pyiceberg.table import Table

CATALOG_FILE: Final = "catalog.db"
_NAMESPACE: Final = "pyromq"
_TABLE: Final = "pyromq.messages"
_OFFSET: Final = "pyromq.offset."
_RANGES: Final = "pyromq.ranges"
_KEPT: Final = timedelta(days=7)  # snapshots that readers may still use
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.parquet.compression-codec": "snappy",
}


class IcebergTable:
    """The Iceberg table of a folder; the interface is that of ``delta.MessageTable``."""

    def __init__(
        self, folder: Path, *, creates: bool = True, on_step: Callable[[str], None] = lambda step: None
    ) -> None:
        """Open the table, or create it. Raises ConfigError, PackageMissingError."""
        try:
            from pyiceberg.catalog.sql import SqlCatalog
            from pyiceberg.exceptions import CommitFailedException
        except ImportError as error:
            raise PackageMissingError("pyiceberg", "iceberg", "an Iceberg table") from error
        if not creates and not (folder / CATALOG_FILE).exists():
            raise ConfigError(f"there is no Iceberg table in {folder}")
        take_folder(folder, CATALOG_FILE, "Iceberg")
        self.folder = folder
        self._on_step = on_step
        self._conflicts: Any = (CommitFailedException,)
        place = folder.absolute()
        self._catalog = SqlCatalog(
            "pyromq", uri=f"sqlite:///{place / CATALOG_FILE}", warehouse=f"file://{place}", echo="false"
        )
        self._catalog.create_namespace_if_not_exists(_NAMESPACE)
        schema = pa.schema(list(SCHEMA))
        self._table: Table = self._catalog.create_table_if_not_exists(_TABLE, schema, properties=_PROPERTIES)
        if (found := [field.name for field in self._table.schema().fields]) != SCHEMA.names:
            raise ConfigError(f"the table in {folder} has other columns than messages have: {', '.join(found)}")

    @property
    def version(self) -> int:
        found = self._table.current_snapshot()
        return found.sequence_number or 0 if found is not None else 0

    def reload(self) -> None:
        self._table = self._catalog.load_table(_TABLE)

    def next_offsets(self, queues: Iterable[QueueId]) -> Offsets:
        """The next offset of each queue of which the table has messages."""
        found = {queue: self._table.properties.get(_name_of(queue)) for queue in queues}
        return {queue: int(offset) for queue, offset in found.items() if offset is not None}

    def append(self, rows: pa.Table, ranges: Iterable[OffsetRange]) -> bool:
        """Commit the messages of these ranges; False when another writer was faster, and nothing was committed. Call
        ``reload`` and ``next_offsets`` before the next one. Raises TableWriteError."""
        moved = tuple(ranges)
        before = self._table.metadata_location
        self._on_step("read")
        try:
            with self._table.transaction() as changes:
                changes.set_properties({_name_of(each.queue): str(each.end) for each in moved})
                summary = {_RANGES: json.dumps([plain_range(each) for each in moved])}
                changes.append(rows, snapshot_properties=summary)
                self._on_step("written")
        except self._conflicts as error:
            self.reload()
            if self._table.metadata_location == before:
                raise TableWriteError(f"the table in {self.folder} cannot be written: {error}") from error
            return False
        self._on_step("committed")
        return True

    def versions(self) -> list[TableVersion]:
        """Versions that brought messages, the newest first, as far as snapshots go back."""
        found = []
        for each in sorted(self._table.snapshots(), key=lambda snapshot: -(snapshot.sequence_number or 0)):
            text = (each.summary.additional_properties if each.summary is not None else {}).get(_RANGES)
            if text is not None:
                ranges = tuple(map(range_of, json.loads(text)))
                version = each.sequence_number or 0
                found.append(TableVersion(version=version, committed_ms=each.timestamp_ms, ranges=ranges))
        return found

    def rows_of(self, message_id: str) -> list[dict[str, Any]]:
        """Where messages with an id come from, by the rows of the table: topic, broker, queue, offset, store time."""
        terms = _expressions()
        wanted = terms.Or(terms.EqualTo("message_id", message_id), terms.EqualTo("offset_message_id", message_id))
        columns = ("topic", "broker", "queue_id", "queue_offset", "store_time")
        rows = self._table.scan(row_filter=wanted, selected_fields=columns).to_arrow()
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def files(self) -> list[str]:
        """Data files of the newest version. Raises ConfigError where another writer left deletes beside them."""
        tasks = list(self._table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise ConfigError(f"the table in {self.folder} has delete files of another writer: read it with Iceberg")
        return [task.file.file_path.removeprefix("file://") for task in tasks]

    def compact(self) -> int:
        """Merge no files, which pyiceberg cannot. Raises ConfigError."""
        raise ConfigError("Iceberg tables are merged by an engine of yours (rewrite_data_files of Spark or Trino)")

    def expire(self, days: float, now: datetime) -> int:
        """Delete messages stored earlier than so many days ago, and snapshots of more than a week ago; how many
        messages went."""
        old = _expressions().LessThan("store_time", (now - timedelta(days=days)).isoformat())
        count = self._table.scan(row_filter=old, selected_fields=("queue_offset",)).to_arrow().num_rows
        if not count:
            return 0
        try:
            self._table.delete(old)
            self.reload()
            self._table.maintenance.expire_snapshots().older_than((now - _KEPT).replace(tzinfo=None)).commit()
        except self._conflicts:
            logging.getLogger(__name__).info("expiry left to the next run: another writer was faster")
            return 0
        return int(count)


def _expressions() -> Any:
    """The package's expressions, whose types promise less than they take."""
    return import_module("pyiceberg.expressions")


def _name_of(queue: QueueId) -> str:
    return f"{_OFFSET}{queue.topic}:{queue.broker}:{queue.number}"
