"""Folders as tables: by what lies in them."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyromq import sql
from pyromq.errors import ConfigError, StoreNotFoundError
from pyromq.pipeline.tables.bounds import SCHEMA
from pyromq.pipeline.tables.errors import PackageMissingError, SqlError

ROWS = pa.table({"n": list(range(10)), "word": [f"w{n}" for n in range(10)]})


def archived(folder: Path, topic: str, hour: int, count: int) -> None:
    names = [name for name in SCHEMA.names if name != "topic"]
    rows = [dict.fromkeys(names) | {"queue_offset": n, "body": b"x"} for n in range(count)]
    path = folder / f"topic={topic}" / "date=2026-11-15" / f"hour={hour:02d}"
    path.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path / "part.parquet")


def test_an_archive_has_the_columns_of_the_source_and_those_of_its_folders(tmp_path: Path) -> None:
    archived(tmp_path, "orders", 8, 3)
    archived(tmp_path, "2026", 9, 2)  # a name that looks like a number is a text all the same
    archived(tmp_path, "%25DLQ%25billing", 9, 1)
    (tmp_path / "_pyromq" / "staged").mkdir(parents=True)
    pq.write_table(ROWS, tmp_path / "_pyromq" / "staged" / "left.parquet")
    answer = sql("select * from old", tables={"old": tmp_path})
    assert answer.columns == (*SCHEMA.names, "date", "hour")
    counts = sql("select topic, date, hour, count(*) n from old group by all order by n", tables={"old": tmp_path})
    day = date(2026, 11, 15)
    assert [tuple(row.values()) for row in counts] == [
        ("%DLQ%billing", day, 9, 1),
        ("2026", day, 9, 2),
        ("orders", day, 8, 3),
    ]
    one = sql("select queue_offset from old where topic = 'orders' and hour = 8 and queue_offset > 1", tables={"old": tmp_path})  # noqa: E501 # fmt: skip
    assert list(one) == [{"queue_offset": 2}]


def test_other_parquet_has_its_own_columns(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    assert list(sql('select sum(n) s from "Old" where n >= 5', tables={"old": str(tmp_path)})) == [{"s": 35}]


def test_a_delta_table_is_read_as_it_is_when_the_question_is_asked(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path, ROWS)
    answer = sql("select count(*) n, max(n) m from t where n < 8", tables={"t": tmp_path})
    write_deltalake(tmp_path, ROWS, mode="append")
    assert list(answer) == [{"n": 8, "m": 7}] == list(answer), "an answer can be read again"
    assert sql("select count(*) n from t", tables={"t": tmp_path}).arrow().to_pylist() == [{"n": 20}]


def test_delta_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_delta_log").mkdir()
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(PackageMissingError, match=r"needs deltalake, .*pip install 'pyromq\[delta\]'"):
        sql("select * from t", tables={"t": tmp_path})


def test_folders_that_are_no_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"table t: .* holds neither a commit log"):
        sql("select * from t", tables={"t": tmp_path})
    with pytest.raises(StoreNotFoundError, match="there is no folder"):
        sql("select * from t", tables={"t": tmp_path / "nowhere"})
    with pytest.raises(SqlError, match=r"cannot be a topic: .* give it a name as a table"):
        sql(f"select * from '{tmp_path}'")


def test_a_notebook_shows_the_first_rows_without_markup_of_theirs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"<b>": [b"<i>\xff", None, *([b"x" * 999] * 30)]}), tmp_path / "a.parquet")
    page = sql('select "<b>" from t', tables={"t": tmp_path})._repr_html_()
    assert "<th>&lt;b&gt;</th>" in page and "<td>&lt;i&gt;\ufffd</td><" in page and "the first 20 rows" in page
    assert "x" * 200 + "…" in page and "x" * 201 not in page and "<b>" not in page


def test_frames_and_tables(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    answer = sql("from t order by n", tables={"t": tmp_path})
    assert answer.arrow().equals(ROWS) and answer.df()["word"].tolist() == ROWS["word"].to_pylist()
    assert [row["n"] for row in answer.rows(3)] == [0, 1, 2]
    assert sum(batch.num_rows for batch in answer.batches()) == 10
