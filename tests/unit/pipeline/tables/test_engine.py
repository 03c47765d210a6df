"""The engine is closed: even a text that was not checked before cannot read or write a file, or open the engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyromq.errors import TopicNotFoundError
from pyromq.pipeline.tables.answer import MEMORY, SqlAnswer, sql
from pyromq.pipeline.tables.engine import opened, reader_of, require_duckdb
from pyromq.pipeline.tables.errors import PackageMissingError, SqlError
from pyromq.pipeline.tables.scanning import SqlTable


@pytest.mark.parametrize(
    "text",
    [
        "copy (select 1) to '{folder}/out.csv'",
        "copy (select 1) to '{folder}/out.parquet' (format parquet)",
        "export database '{folder}/out'",
        "attach '{folder}/out.db'",
        "install httpfs",
        "load httpfs",
        "load '{folder}/evil.duckdb_extension'",
        "create secret (type s3)",
        "set enable_external_access = true",
        "set temp_directory = '{folder}/spilled'",
        "pragma enable_external_access = true",
        "call enable_logging(storage = 'file', storage_path = '{folder}/log')",
        "call enable_profiling(save_location = '{folder}/profile.json')",
        "import database '{folder}'",
        "select * from read_text('{folder}/secret.txt')",
        "select * from read_csv('{folder}/secret.txt')",
        "select * from read_blob('{folder}/secret.txt')",
        "select * from '{folder}/secret.txt'",
        "select * from glob('{folder}/*')",
        "select * from read_parquet('https://example.com/x.parquet')",
        "select * from sniff_csv('{folder}/secret.txt')",
        "select * from folder",
    ],
)
def test_files_network_and_settings_are_out_of_reach(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a,b\n1,2\n")
    folder = pa.table({"a": [1]})  # a variable of Python is no table
    with pytest.raises(SqlError), opened({}, MEMORY) as engine:
        engine.execute(text.format(folder=tmp_path)).fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"] and folder.num_rows == 1


def test_what_does_not_fit_into_memory_goes_on_in_a_folder_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = "select max(s) from (select hash(i) || repeat('x', 100) s from range(400000) t(i) order by 1 desc offset 9)"
    with opened({}, "40MB") as engine:
        assert len(os.listdir(tmp_path)) == 1
        assert reader_of(engine, text).read_all().num_rows == 1
    assert os.listdir(tmp_path) == []


def test_too_little_memory_is_an_error_that_says_so() -> None:
    with pytest.raises(SqlError, match="more than 20MB of memory"), opened({}, "20MB") as engine:
        reader_of(engine, "select list(repeat('x', 1000) || i) from range(200000) t(i)").read_all()
    with pytest.raises(SqlError, match=r"(?i)memory"), opened({}, "much"):
        pass


class Failing:
    schema = pa.schema([("a", pa.int64())])

    def batches(self, columns: Any, condition: Any) -> Any:
        yield pa.record_batch({"a": [1]})
        raise TopicNotFoundError("orders", "it was deleted meanwhile")


def test_an_error_of_a_scan_is_raised_as_it_was() -> None:
    answer = SqlAnswer("select sum(a) from orders", {"orders": SqlTable(Failing())}, {}, MEMORY)
    with pytest.raises(TopicNotFoundError, match="deleted meanwhile"):
        list(answer)


def test_a_package_that_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr("pyromq.pipeline.tables.engine.find_spec", lambda name: None if name == "duckdb" else name)
    with pytest.raises(PackageMissingError, match=r"needs duckdb, .*pip install 'pyromq\[sql\]'"):
        require_duckdb()
    with pytest.raises(PackageMissingError):
        sql("select 1")
