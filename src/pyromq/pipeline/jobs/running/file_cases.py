"""``pyromq pipeline test``: cases in a pipeline file, rows in and the rows that sinks or steps must get for them.

    [[test]]
    name = "only paid orders"
    input = [{ tags = "paid", body = '{"price": 3}' }, { tags = "new", body = "{}" }]
    [[test.expect]]
    sink = "files"
    rows = [{ price = "3" }]

The steps are run by Spark over the rows, as a batch; nothing is read from topics, and nothing is written. Only the
columns that an expected row names are compared; the order of rows does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.jobs.common.errors import JobFailedError
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.running.pipeline_file import ExpectedRows, PipelineCase, PipelineFile, read_pipeline_file
from pyromq.pipeline.jobs.running.run import frames_of, shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ROWS_SHOWN: Final = 10
_STREAM_ONLY: Final = ("group", "starting", "max", "min", "exclusive", "longpoll", "includeretry")


class CaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one expectation: ``missing`` rows did not come, ``unexpected`` ones did, as JSON."""

    case: str
    of: str
    rows: int
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def is_met(self) -> bool:
        return not (self.missing or self.unexpected)


def check_file(spark: SparkSession, path: str | Path) -> list[CaseOutcome]:
    """Run the cases of a pipeline file. Raises PipelineFileError, and what steps raise."""
    path = Path(path)
    pipeline = read_pipeline_file(path)
    folder = path.absolute().parent
    return [each for case in pipeline.test for each in _outcomes(spark, pipeline, case, folder)]


def _outcomes(spark: SparkSession, pipeline: PipelineFile, case: PipelineCase, folder: Path) -> list[CaseOutcome]:
    frames = frames_of(spark, pipeline, _input(spark, pipeline, case), folder)
    found = []
    for expected in case.expect:
        frame = frames[expected.step]
        if expected.sink:
            numbers = {pipeline.sink_name(number): number for number in range(len(pipeline.sink))}
            sink = pipeline.sink[numbers[expected.sink]]
            frame = shaped(frames[sink.from_], sink)
        try:
            with failures_in_words():
                rows = [row.asDict(recursive=True) for row in frame.collect()]
        except JobFailedError as error:
            raise JobFailedError(f"{case.name}: {error}") from error
        found.append(_compared(case.name, expected, rows))
    return found


def _input(spark: SparkSession, pipeline: PipelineFile, case: PipelineCase) -> DataFrame:
    """The rows of a case with the columns that the source has; what a row does not say has a plain value."""
    given = {
        name: option_text(value) for name, value in pipeline.source.items() if not name.lower().startswith(_STREAM_ONLY)
    }
    schema = spark.read.format("pyromq").options(**given).load().schema
    topic = given.get("topic", "topic").split(",")[0]
    rows = [
        tuple(_cell(field.dataType.typeName(), {**_plain(topic, number), **row}.get(field.name)) for field in schema)
        for number, row in enumerate(case.input)
    ]
    unknown = sorted({name for row in case.input for name in row} - set(schema.names))
    if unknown:
        raise JobFailedError(f"{case.name}: the source has no column {', '.join(unknown)}")
    return spark.createDataFrame(rows, schema)


def _plain(topic: str, number: int) -> dict[str, Any]:
    moment = _BEGIN + timedelta(seconds=number)
    return {
        "topic": topic, "broker": "broker-a", "queue_id": 0, "queue_offset": number, "message_id": f"{number:032X}",
        "offset_message_id": f"{number:032X}", "tags": "", "keys": "", "born_time": moment, "store_time": moment,
        "born_host": "127.0.0.1:0", "store_host": "127.0.0.1:0", "flag": 0, "sys_flag": 0, "delivery_attempt": 0,
        "body_crc": 0, "commit_log_offset": number, "properties": {}, "body": b"",
    }  # fmt: skip


def _cell(kind: str, value: Any) -> Any:
    match kind, value:
        case "binary", str():
            return value.encode()
        case "timestamp", str():
            return datetime.fromisoformat(value)
        case _:
            return value


def _compared(case: str, expected: ExpectedRows, rows: Sequence[Mapping[str, Any]]) -> CaseOutcome:
    """Rows that are the same in the columns that are named; an expectation without columns counts rows."""
    names = sorted({name for row in expected.rows for name in row})
    wanted = Counter(_line(row, names) for row in expected.rows)
    came = Counter(_line(row, names) for row in rows)
    return CaseOutcome(
        case=case, of=expected.sink or expected.step or "the last step", rows=len(rows),
        missing=tuple((wanted - came).elements())[:_ROWS_SHOWN],
        unexpected=tuple((came - wanted).elements())[:_ROWS_SHOWN],
    )  # fmt: skip


def _line(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """A row in one form, whatever it came from: bytes as text, moments in UTC."""
    return msgspec.json.encode({name: _same(row.get(name)) for name in names}).decode()


def _same(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "replace")
        case datetime():
            return value.astimezone(UTC).isoformat()
        case dict():
            return {str(name): _same(each) for name, each in sorted(value.items())}
        case list() | tuple():
            return [_same(each) for each in value]
        case bool() | int() | str() | None:
            return value
        case float():
            return int(value) if value.is_integer() else value
        case _:
            return str(value)
