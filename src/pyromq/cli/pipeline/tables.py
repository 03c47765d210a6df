"""Tables of ``pyromq pipeline``: which values of a summary are shown, under which headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, TextIO

from pyromq.cli.output.tables import Column, Form, form_for, write_fields, write_rows
from pyromq.cli.output.tables import shown as printable
from pyromq.cli.output.times import show_time

if TYPE_CHECKING:
    from msgspec import Struct
    from pyspark.sql import DataFrame

    from pyromq.pipeline.jobs.reporting.numbers import Report


def _number(value: int) -> str:
    return f"{value:,}"


def _bytes(value: int) -> str:
    return f"{value / 1e6:,.1f} MB"


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


def _ms(value: float) -> str:
    return f"{value:,.0f}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _drawn(points: list[dict[str, float]]) -> str:
    from pyromq.charts import sparkline

    return sparkline([point["value"] for point in points])


def _sinks(value: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['name']} ({each['kind']}): {_rows_of_sink(each)}" for each in value)


def _groups(value: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['group']}: {_number(each['behind'])} behind{_not_exact(each)}" for each in value)


def _not_exact(group: dict[str, Any]) -> str:
    return "" if group["is_exact"] else " (ahead of the mirror, or consumes there)"


def _rows_of_sink(sink: dict[str, Any]) -> str:
    rows, read = sink["rows"], sink["read"]
    written = "done" if rows is None else _number(rows)
    return written if read is None else f"{written} of {_number(read)} read"


_NARROW: Final = 100
_COLUMNS_SIDE_BY_SIDE: Final = 8
_IF_WIDE: Final = frozenset(("first_ms", "last_ms", "new_message_id"))  # what a narrow terminal is spared
_OVER_TIME: Final = Column("points", "over time", show=_drawn, only=Form.TABLE, whole=True)
_TOOK: Final = Column("took_s", "took", show=_seconds)
FIELDS: Final = {
    "archive": (
        Column("path", "archive"),
        Column("messages", "messages", show=_number),
        Column("batches", "batches", show=_number),
        Column("files", "files", show=_number),
        Column("bytes", "size", show=_bytes),
        _TOOK,
    ),
    "replay": (
        Column("to_topic", "to topic"),
        Column("name", "name"),
        Column("is_dry", "dry run", show=lambda is_dry: "yes" if is_dry else ""),
        Column("found", "found", show=_number),
        Column("sent", "sent", show=_number),
        Column("sent_before", "sent before", show=_number),
        Column("failed", "failed", show=_number),
        _TOOK,
    ),
    "redrive": (
        Column("group", "group"),
        Column("is_dry", "dry run", show=lambda is_dry: "yes" if is_dry else ""),
        Column("found", "found", show=_number),
        Column("sent", "sent", show=_number),
        Column("sent_before", "sent before", show=_number),
        Column("failed", "failed", show=_number),
        Column("held_back", "held back", show=_number),
        Column("same_message", "same message", show=_number),
        Column("canary", "canary", show=lambda verdict: "" if verdict == "not asked for" else verdict),
        _TOOK,
    ),
    "table": (
        Column("path", "table"),
        Column("version", "version", show=_number),
        Column("messages", "messages", show=_number),
        Column("commits", "commits", show=_number),
        Column("merged_files", "files merged", show=_number),
        Column("expired", "messages expired", show=_number),
    ),
    "mirror": (
        Column("topics", "topics", show=", ".join),
        Column("queues", "queues", show=_number),
        Column("copied", "copied", show=_number),
        Column("repeated", "repeated", show=_number),
        Column("lag", "lag", show=_number),
        Column("groups", "groups", show=_groups),
    ),
    "store": (Column("path", "written to"), Column("rows", "rows", show=_number), _TOOK),
    "dedupe": (
        Column("to", "to"),
        Column("read", "read", show=_number),
        Column("written", "written", show=_number),
        Column("dropped", "repetitions", show=_number),
        _TOOK,
    ),
    "run": (Column("name", "pipeline"), Column("mode", "mode"), Column("sinks", "rows written", show=_sinks), _TOOK),
}
SAMPLES: Final = (
    Column("store_time", "stored", whole=True),
    Column("topic", "topic"),
    Column("message_id", "id"),
    Column("keys", "keys", optional=True),
    Column("tags", "tags", optional=True),
    Column("body", "body"),
)
CASE_COLUMNS: Final = (
    Column("case", "test", whole=True),
    Column("of", "of"),
    Column("is_met", "result", show=lambda is_met: "passed" if is_met else "failed"),
    Column("rows", "rows", right=True, show=_number),
    Column("missing", "missing", optional=True, show="\n".join),
    Column("unexpected", "unexpected", optional=True, show="\n".join),
)
GRAPH_COLUMNS: Final = (Column("from", "from", whole=True), Column("to", "to", whole=True), Column("how", "how"))
TABLE_PLACES: Final = ("version", "message_id", "topic", "broker", "queue_id", "queue_offset", "store_time")
TABLE_VERSIONS: Final = ("version", "committed", "topic", "broker", "queue_id", "start", "end")
_REPORT: Final = (
    ("throughput", "Throughput", (
        Column("topic", "topic"), Column("messages", "messages", right=True, show=_number),
        Column("per_second", "per second", right=True, show=_rate),
        Column("first_ms", "first", show=show_time, whole=True),
        Column("last_ms", "last", show=show_time, whole=True), _OVER_TIME,
    )),
    ("latencies", "Latency in ms", (
        Column("what", "what", whole=True), Column("topic", "topic"), Column("group", "group", optional=True),
        Column("count", "count", right=True, show=_number), Column("p50_ms", "p50", right=True, show=_ms),
        Column("p90_ms", "p90", right=True, show=_ms), Column("p99_ms", "p99", right=True, show=_ms),
        Column("max_ms", "max", right=True, show=_ms),
    )),
    ("lags", "Lag", (
        Column("group", "group"), Column("topic", "topic"), Column("last", "now", right=True, show=_number),
        Column("max", "max", right=True, show=_number), _OVER_TIME,
    )),
    ("attempts", "Attempts", (
        Column("group", "group"), Column("attempt", "attempt", right=True),
        Column("count", "messages", right=True, show=_number),
    )),
    ("handled_twice", "Handled more than once", (
        Column("group", "group"), Column("topic", "topic"), Column("messages", "messages", right=True, show=_number),
    )),
    ("slow_keys", "Slowest keys, ms", (
        Column("key", "key"), Column("group", "group"), Column("count", "count", right=True),
        Column("avg_ms", "mean", right=True, show=_ms), Column("max_ms", "max", right=True, show=_ms),
    )),
    ("duplicates", "Duplicates by key", (
        Column("key", "key"), Column("topic", "topic"), Column("count", "messages", right=True, show=_number),
    )),
    ("dead", "Dead letters", (
        Column("group", "group"), Column("topic", "topic"), Column("cause", "cause"),
        Column("stack", "hash", optional=True), Column("count", "letters", right=True, show=_number),
        Column("first_ms", "first", show=show_time, whole=True), Column("last_ms", "last", show=show_time, whole=True),
    )),
)  # fmt: skip


def write_report(out: TextIO, form: Form, report: Report) -> None:
    """Table after table; parts without rows are left out."""
    import msgspec

    numbers = msgspec.to_builtins(report)
    if form is Form.TABLE and report.throughput:
        when = f"{show_time(report.begin_ms)} to {show_time(report.end_ms)}"
        out.write(f"{printable(', '.join(report.topics))}: {when}\n\n")
    for key, title, columns in _REPORT:
        if numbers[key]:
            shown_of = f" ({len(numbers[key])} of {report.duplicate_keys:,})" if key == "duplicates" else ""
            out.write(f"{title}{shown_of}\n")
            write_rows(out, form, fitting(out, form, columns), numbers[key])
            out.write("\n")


def fitting(out: TextIO, form: Form, columns: Sequence[Column]) -> list[Column]:
    """Without those that would squeeze the others out of a narrow terminal."""
    from rich.console import Console

    if form is not Form.TABLE or not out.isatty() or Console(file=out).width >= _NARROW:
        return list(columns)
    return [column for column in columns if column.key not in _IF_WIDE]


def write_summary(out: TextIO, asked: Form | None, name: str, done: Any) -> None:
    """The summary of a job, by the columns of its name; a table leaves out what a dry run did not do."""
    import msgspec

    form, row = form_for(asked, out), msgspec.to_builtins(done)
    row.pop("letters", None)  # each was reported before
    if form is Form.TABLE and row.get("is_dry"):
        row = {key: value for key, value in row.items() if value or key == "found"}
    write_fields(out, form, FIELDS[name], row)


def rows_of(found: Iterable[Struct]) -> list[dict[str, Any]]:
    import msgspec

    return [msgspec.structs.asdict(each) for each in found]


def write_found(out: TextIO, form: Form, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of the user's own query; on a terminal a row with many columns gets a line for each of them."""
    columns = columns_of(names, rows)
    if form is not Form.TABLE or not out.isatty() or len(columns) <= _COLUMNS_SIDE_BY_SIDE:
        write_rows(out, form, columns, rows)
        return
    for row in rows:
        write_fields(out, form, columns, row)
        out.write("\n")


def columns_of(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Columns for the rows of the user's own query: numbers to the right."""
    found = list(rows)
    return [Column(name, name, right=all(isinstance(row[name], int | float) for row in found)) for name in names]


def rows_shown(found: DataFrame, count: int | None) -> Iterator[dict[str, Any]]:
    """The first rows of a query (None: all), for tables and for JSON; moments are in UTC, as all times are shown."""
    from pyspark.sql.types import TimestampType

    moments = {field.name for field in found.schema.fields if isinstance(field.dataType, TimestampType)}
    rows = found.toLocalIterator() if count is None else found.limit(count).collect()
    for row in rows:
        yield {name: _shown(value, name in moments) for name, value in row.asDict().items()}


def _shown(value: Any, is_moment: bool) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if is_moment and value is not None:  # Spark gives it in the time zone of this machine, without saying so
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"
    return value if isinstance(value, int | float | bool | dict | list | None) else str(value)
