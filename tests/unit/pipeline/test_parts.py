"""Java, schemas, patience, progress: the small parts."""

from __future__ import annotations

import gc
import json
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

import pyspark_pyromq
from pyromq.client.core.errors import NoPermissionError
from pyromq.errors import ConnectFailedError
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.columns import ARROW_TYPES, COLUMNS, check_schema, spark_schema
from pyromq.pipeline.core import workers
from pyromq.pipeline.core.errors import OptionError, SchemaError, SourceUnreachableError
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.core.workers import settle
from pyromq.pipeline.reading.pulls import filter_for
from pyromq.pipeline.spark.java import JavaNotFoundError, java_home, launcher_home
from pyromq.pipeline.spark.progress import ProgressListener, _Ear, progress_of
from pyromq.pipeline.spark.source import BatchReader, PyromqDataSource, StreamReader
from pyromq.testing import ManualClock

# --- schemas ---

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "binary": BinaryType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def struct(ddl: str) -> StructType:
    """What Spark makes of the same text; its own parser needs a JVM."""
    made = StructType()
    for name, kind in (column.split(" ") for column in ddl.split(", ") if column):
        made.add(name, _TYPES[kind])
    return made


@pytest.mark.parametrize("as_map", [True, False])
def test_our_types_are_those_that_spark_compares_with(as_map: bool) -> None:
    found = to_arrow_schema(struct(spark_schema(properties_as_map=as_map)), timezone="UTC")
    check_schema(found)
    assert found.names == list(COLUMNS)
    assert found.field("properties").type == (ARROW_TYPES["properties"] if as_map else pa.string())


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("colour string", "no column colour; the columns are: topic, broker"),
        ("body string", "column body is binary, not string"),
        ("queue_offset int", "column queue_offset is bigint, not int32"),
        ("properties binary", "column properties is map<string,string> or string"),
        ("", "no columns"),
    ],
)
def test_a_wrong_schema_is_refused(ddl: str, text: str) -> None:
    source = PyromqDataSource({"topic": "orders"})
    with pytest.raises(SchemaError, match=text):
        source.reader(struct(ddl))


def test_readers_and_partitions_travel() -> None:
    source = PyromqDataSource({"topic": "orders", "group": "g", "nameserver": "n:1"})
    schema = struct("queue_offset bigint")
    for reader in (source.reader(schema), source.streamReader(schema)):
        copy = pickle.loads(pickle.dumps(reader))
        assert isinstance(copy, BatchReader | StreamReader)
        assert copy._options == reader._options  # type: ignore[attr-defined]


def test_options_are_checked_on_the_driver() -> None:
    with pytest.raises(OptionError, match="option group"):
        PyromqDataSource({"topic": "orders"}).streamReader(struct("body binary"))


def test_spark_finds_the_source_by_itself() -> None:
    assert pyspark_pyromq.DefaultSource is PyromqDataSource
    assert PyromqDataSource.name() == "pyromq"


def test_importing_the_pipeline_does_not_import_spark() -> None:
    code = "import sys, pyromq.pipeline; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_retries_are_read_whole() -> None:
    options = SourceOptions(tags="red || blue", group="g")
    assert filter_for(options, "orders").tags == {"red", "blue"}
    assert filter_for(options, "%RETRY%g").is_open
    assert filter_for(SourceOptions(sql="a > 1"), "orders").kind == "SQL92"
    assert filter_for(SourceOptions(tags="*"), "orders").is_open


# --- patience ---


def test_failures_are_borne_for_a_while() -> None:
    clock = ManualClock()
    patience = RetryWindow("asking", 1_000, clock)
    waits = []
    with pytest.raises(SourceUnreachableError, match=r"asking failed for 1\.0 s .* no one home"):
        while True:
            waits.append(patience.failed(ConnectFailedError("no one home")))
            clock.advance_ms(waits[-1])
    assert waits[:3] == [50, 100, 200]
    assert sum(waits) == 1_000


def test_success_renews_patience() -> None:
    clock = ManualClock()
    patience = RetryWindow("asking", 1_000, clock)
    for _ in range(5):
        patience.failed(ConnectFailedError("no one home"))
        clock.advance_ms(900)
        patience.succeeded()


def test_a_refusal_is_not_tried_again() -> None:
    with pytest.raises(NoPermissionError):
        RetryWindow("asking", 1_000, ManualClock()).failed(NoPermissionError(code=16, remark="no"))


# --- java ---


def _java(folder: Path, name: str) -> Path:
    java = folder / name / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    home, path = _java(tmp_path, "home"), _java(tmp_path, "path")
    environment = {"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)}
    assert java_home(environment, version_of=lambda java: 17) == home.parent.parent
    assert java_home(environment, version_of=lambda java: 11 if java == home else 21) == path.parent.parent


def test_the_wheel_comes_last_and_gets_a_launcher(tmp_path: Path) -> None:
    wheel = _java(tmp_path, "the wheel's")
    wheel.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    home = java_home({}, wheel_home=lambda: wheel.parent.parent, folder=tmp_path / "made")
    script = home / "bin" / "java"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=java.sql"]
    shown = subprocess.run([script, *given], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    assert shown == ["[-Xmx1g]", "[a b]", "[]", "[--add-modules=java.sql]"]
    before = script.stat().st_mtime_ns
    assert launcher_home(wheel, tmp_path / "made") == home
    assert script.stat().st_mtime_ns == before


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    old = _java(tmp_path, "old")
    environment = {"JAVA_HOME": str(old.parent.parent), "PATH": ""}
    with pytest.raises(
        JavaNotFoundError, match=r"pip install 'pyromq\[pipeline-java\]'.*JAVA_HOME leads to Java 8"
    ) as caught:
        java_home(environment, version_of=lambda java: 8, wheel_home=lambda: None)
    assert "\n" not in str(caught.value)


def test_a_worker_of_spark_does_not_look_through_modules_after_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    settle()
    assert gc.get_freeze_count() == 0, "elsewhere nobody asked for it"
    monkeypatch.setattr(workers, "_settled", set())
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    try:
        settle()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


# --- progress ---


def _source(latest: Any, end: Any) -> Any:
    return SimpleNamespace(latestOffset=json.dumps(latest), endOffset=json.dumps(end))


OURS = _source(
    {"offsets": {"orders": {"broker-a": {"0": 9}}}, "lag": 2, "group": "g", "nameserver": "n:1"},
    {"orders": {"broker-a": {"0": 7}}, "deleted": {"broker-a": {"0": 4}}},
)


def test_progress_of_other_sources_is_left_alone() -> None:
    other = _source({"orders": {"0": 3}}, {"orders": {"0": 3}})
    none = SimpleNamespace(latestOffset=None, endOffset=None)
    bare = SimpleNamespace(latestOffset="7", endOffset="not json")
    (found,) = progress_of([other, OURS, none, bare])
    assert (found.group, found.nameserver) == ("g", "n:1")
    assert found.offsets == ((QueueId("orders", "broker-a", 0), 7),), "of a topic that is gone nobody is told"


def test_the_listener_tells_the_group_and_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    class Brokers:
        def __init__(self, options: SourceOptions) -> None:
            self.options = options

        def commit(self, offsets: Any) -> None:
            told.append((self.options.nameserver, self.options.group, self.options.access_key, offsets))
            if len(told) > 1:
                raise ConnectFailedError("gone")

    listener = ProgressListener(SourceOptions(access_key="me"), Brokers)  # type: ignore[arg-type]
    event = SimpleNamespace(progress=SimpleNamespace(sources=[OURS]))
    listener.onQueryProgress(event)
    text = json.dumps({"sources": [{"description": "other"}, vars(OURS)]})  # as the JVM has it
    _Ear(listener).onQueryProgress(SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: text)))
    assert told == [("n:1", "g", "me", {QueueId("orders", "broker-a", 0): 7})] * 2
    assert "progress not stored: group=g" in caplog.text
