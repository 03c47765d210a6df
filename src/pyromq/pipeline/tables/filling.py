"""``table``: topics into a Delta or Iceberg table, from where it is to what topics hold, a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, TypedDict, Unpack

import msgspec
import pyarrow as pa

from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.offsets import OffsetRange, total
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options, with_nameservers_known_here
from pyromq.pipeline.core.places import EARLIEST, AtOffsets, RelativeOffset
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.pipeline.tables.answer import shown_value
from pyromq.pipeline.tables.bounds import SCHEMA
from pyromq.pipeline.tables.delta import MessageTable, TableVersion
from pyromq.pipeline.tables.errors import TableConflictError
from pyromq.pipeline.tables.iceberg import CATALOG_FILE, IcebergTable
from pyromq.pipeline.tables.sources import held_now

COMMIT_BYTES: Final = 64 << 20
_CONFLICTS_MAX: Final = 100
_COMMITS_UNTIDY: Final = 20
TIDY_EVERY_S: Final = 3_600.0  # a table that gets nothing new gets older all the same
_FORMATS: Final[dict[str, Any]] = {"delta": lambda folder: MessageTable(folder), "iceberg": lambda f: IcebergTable(f)}


class TableFilled(msgspec.Struct, frozen=True, kw_only=True):
    """What one run did; ``version`` is the newest of the table."""

    path: str
    version: int
    messages: int
    commits: int
    merged_files: int = 0
    expired: int = 0


class FillOptions(TypedDict, total=False):
    """Keywords of ``fill_table``; ``FillSettings`` has their defaults."""

    form: str
    commit_bytes: int
    follow_s: float | None
    compact: bool
    expire_days: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillSettings:
    """How a table is filled: delta or iceberg, bytes of messages in a commit, seconds between two looks (None: one),
    what to tidy up."""

    form: str = "delta"
    commit_bytes: int = COMMIT_BYTES
    follow_s: float | None = None
    compact: bool = False
    expire_days: float | None = None


def fill_table(
    topic: str,
    path: str | PathLike[str],
    nameservers: str = "",
    *,
    options: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    **settings: Unpack[FillOptions],
) -> TableFilled:
    """Bring the messages of a topic (or of several, with commas) that a table lacks into it, each exactly once.

    ``form`` is delta or iceberg, ``path`` its folder (of Iceberg tables with their catalog). A run goes on where the
    table is, however the run before it ended. With ``follow_s`` it looks for new messages again
    and again until Ctrl-C. A commit has about ``commit_bytes`` of messages. ``compact`` merges small files,
    ``expire_days`` deletes messages that were stored earlier. ``options`` are those of the Spark source, without places
    and filters. Raises ConfigError, PackageMissingError, DataLossError, TableConflictError, TableWriteError, what
    connecting raises, and TypeError for a keyword that does not exist.
    """
    chosen = settings_from(FillSettings, settings, "fill_table")
    given = {**(options or {}), "topic": topic, **({"nameserver": nameservers} if nameservers else {})}
    source = with_nameservers_known_here(parse_options(given, Use.BATCH))
    _refuse_parts(source)
    held_now(source)  # a topic that is not there is an error before there is a table
    table: MessageTable | IcebergTable = _FORMATS[_form(chosen)](Path(path))
    run = _Filling(table, source, chosen, progress)
    try:
        run.catch_up()
        while chosen.follow_s is not None:
            sleep(chosen.follow_s)
            run.catch_up()
    except KeyboardInterrupt:
        if chosen.follow_s is None:
            raise
    return run.summary()


def where_is(path: str | PathLike[str], message_id: str) -> list[dict[str, Any]]:
    """The rows of a table with a message's id, each with the version that brought it (None: the log of the table
    does not go back so far). Raises ConfigError, PackageMissingError."""
    table = _existing(path)
    versions = table.versions()
    found = []
    for row in table.rows_of(message_id):
        queue = QueueId(row["topic"], row["broker"], row["queue_id"])
        version = next((each.version for each in versions if each.holds(queue, row["queue_offset"])), None)
        stored = shown_value(row.pop("store_time"))
        found.append({"message_id": message_id, **row, "store_time": stored, "version": version})
    return found


def table_versions(path: str | PathLike[str]) -> list[TableVersion]:
    """The versions of a table that brought messages, the newest first. Raises ConfigError."""
    return _existing(path).versions()


def versions_shown(path: str | PathLike[str]) -> list[dict[str, Any]]:
    """The history of a table as rows: a version and the offsets of one queue. Raises as ``table_versions`` does."""
    return [
        {
            "version": each.version, "committed": _moment(each.committed_ms), "topic": part.queue.topic,
            "broker": part.queue.broker, "queue_id": part.queue.number, "start": part.start, "end": part.end,
        }
        for each in table_versions(path) for part in each.ranges
    ]  # fmt: skip


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def _existing(path: str | PathLike[str]) -> MessageTable | IcebergTable:
    if (Path(path) / CATALOG_FILE).is_file():
        return IcebergTable(Path(path), creates=False)
    if not (Path(path) / "_delta_log").is_dir():
        raise ConfigError(f"there is no Delta or Iceberg table in {path}")
    return MessageTable(Path(path))


def _form(settings: FillSettings) -> str:
    if settings.form not in _FORMATS:
        raise ConfigError(f"{settings.form!r} is not one of {', '.join(_FORMATS)}")
    if settings.compact and settings.form == "iceberg":
        raise ConfigError("compact is for Delta tables; merge the files of an Iceberg table with an engine of yours")
    return settings.form


def _refuse_parts(options: SourceOptions) -> None:
    is_whole = options.ending is RelativeOffset.LATEST and not (options.tags or options.sql or options.store_folders)
    if not is_whole or options.starting is not RelativeOffset.EARLIEST:
        text = "a table has all messages of its topics, from where it is: leave out options of places and filters"
        raise ConfigError(f"{text}, and filter when you read it")


class _Filling:
    """One run over one table."""

    def __init__(
        self,
        table: MessageTable | IcebergTable,
        options: SourceOptions,
        settings: FillSettings,
        progress: Callable[[int, int | None], None],
    ) -> None:
        self._table = table
        self._options = options
        self._settings = settings
        self._progress = progress
        self._messages = self._commits = self._merged = self._expired = 0
        self._tidied = 0  # commits before the last tidying up
        self._tidied_s: float | None = None  # when that was

    def catch_up(self) -> None:
        """Bring in what the topics hold now; then tidy up, where the run goes on only after some commits."""
        conflicts = 0
        while ranges := self._missing():
            size = self._messages + total(ranges)
            for rows, parts in self._batches(ranges):
                if not self._table.append(rows, parts):
                    conflicts += 1
                    break
                self._commits += 1
                self._messages += rows.num_rows
                self._progress(self._messages, size)
                self._table.reload()
            else:
                break
            if conflicts >= _CONFLICTS_MAX:
                raise TableConflictError(f"another process writes this topic to {self._table.folder}, too: stop one")
            self._table.reload()
        is_long_ago = self._tidied_s is None or monotonic() - self._tidied_s >= TIDY_EVERY_S
        if self._settings.follow_s is None or is_long_ago or self._commits - self._tidied >= _COMMITS_UNTIDY:
            self._tidy_up()

    def _missing(self) -> list[OffsetRange]:
        """The offsets that topics hold and the table does not. Raises DataLossError for those that are gone."""
        cluster = Cluster(self._options, asks_anew=True)
        queues = cluster.held()
        names = {self._named(queue): queue for queue in queues}
        known = {names[queue]: offset for queue, offset in self._table.next_offsets(names).items()}
        starts = AtOffsets(tuple((queue, known.get(queue, EARLIEST)) for queue in queues))
        planned = plan_batch(replace(self._options, starting=starts), cluster)
        return _joined(each for partition in planned for each in partition)

    def _batches(self, ranges: list[OffsetRange]) -> Iterator[tuple[pa.Table, list[OffsetRange]]]:
        """Messages of about ``commit_bytes``, with the ranges that they are, from the first offset to the last."""
        batches: list[pa.RecordBatch] = []
        parts: list[OffsetRange] = []
        size = 0
        for each in ranges:
            start = each.start
            for batch in read_ranges(connect(self._options), self._options, [each], SCHEMA):
                batches.append(batch)
                size += batch.nbytes
                if size >= self._settings.commit_bytes:
                    end = batch["queue_offset"][-1].as_py() + 1
                    yield _whole(batches), [*parts, OffsetRange(self._named(each.queue), start, end)]
                    batches, parts, size, start = [], [], 0, end
            if start < each.end:
                parts.append(OffsetRange(self._named(each.queue), start, each.end))
        if parts:
            yield _whole(batches), parts

    def _named(self, queue: QueueId) -> QueueId:
        """The queue with the name that rows have."""
        plain = connect(self._options).client.plain_name(queue.topic)
        return QueueId(plain, queue.broker, queue.number)

    def _tidy_up(self) -> None:
        has_news = self._commits > self._tidied or self._tidied_s is None
        self._tidied, self._tidied_s = self._commits, monotonic()
        if self._settings.expire_days is not None:
            self._expired += self._table.expire(self._settings.expire_days, datetime.now(UTC))
            self._table.reload()
        if self._settings.compact and has_news:
            self._merged += self._table.compact()
            self._table.reload()

    def summary(self) -> TableFilled:
        return TableFilled(
            path=str(self._table.folder), version=self._table.version, messages=self._messages, commits=self._commits,
            merged_files=self._merged, expired=self._expired,
        )  # fmt: skip


def _joined(parts: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range for each queue: plans cut large ones."""
    found: dict[QueueId, OffsetRange] = {}
    for each in sorted(parts):
        first = found.get(each.queue, each)
        found[each.queue] = OffsetRange(each.queue, first.start, each.end)
    return list(found.values())


def _whole(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, SCHEMA)
