"""Rows that no broker would take: found one by one, named, set aside."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import MessageRefusedError, MessageTooLargeError
from pyromq.pipeline.sink.bad_rows import BadRow, FolderOutput, Sieve
from pyromq.pipeline.sink.options import BATCH_BYTES_MAX
from tests.unit.pipeline.sink.packing import joining, packed, packer, parse


class Aside:
    def __init__(self) -> None:
        self.rows: list[BadRow] = []

    def put(self, row: BadRow) -> None:
        self.rows.append(row)

    def finish(self) -> None:
        """Nothing to wait for."""


def batch(bodies: list[bytes | None], **columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary()), **columns})


@given(st.lists(st.lists(st.sampled_from([b"good", b"", None]), max_size=9), max_size=4), st.booleans())
def test_all_bad_rows_are_found_and_no_other(batches: list[list[bytes | None]], joins: bool) -> None:
    aside = Aside()
    sieve = Sieve(lambda _: joining() if joins else packer(), aside)
    passed = [row for rows in batches for row in sieve.good_rows(batch(rows)).column(0).to_pylist()]
    every = [row for rows in batches for row in rows]
    assert passed == [row for row in every if row]
    assert [row.row for row in aside.rows] == [number for number, row in enumerate(every) if not row]
    assert all(f"column body, row {row.row}: it is empty" in row.reason for row in aside.rows)


def test_every_kind_of_mistake_names_column_and_row() -> None:
    columns = {
        "topic": ["out", "a/b", "other", "out", "out", "out"],
        "tags": ["x", "x", "x", "a|b", "x", "x"],
        "queue_id": pa.array([0, 0, 0, 0, 99, 0], pa.int32()),
        "properties": pa.array(["", "", "", "", "", "half"], pa.string()),
    }
    aside = Aside()
    sieve = Sieve(lambda _: packer(parse(topic="out,second")), aside)
    assert sieve.good_rows(batch([b"x"] * 6, **columns)).num_rows == 1
    named = [row.reason.split(":")[0] for row in aside.rows]
    assert named == [
        f"column {name}, row {row}" for row, name in enumerate(["topic", "topic", "tags", "queue_id", "properties"], 1)
    ]


@pytest.mark.parametrize("joins", [True, False])
def test_a_row_that_is_too_large_is_named(joins: bool) -> None:
    large = batch([b"x", b"y" * (BATCH_BYTES_MAX + 1), b"z"])
    with pytest.raises(MessageTooLargeError, match=r"columns body and properties, row 1"):
        packed(joining() if joins else packer(), large)
    long = batch([b"x", b"y"], properties=["", "a\x01" + "v" * 40_000 + "\x02"])
    with pytest.raises(MessageTooLargeError, match=r"properties, row 1"):
        packed(joining() if joins else packer(), long)


def test_rows_are_kept_whole_as_json(tmp_path: Path) -> None:
    output = FolderOutput(str(tmp_path / "bad"), "bad-rows-1-2-0")
    output.put(BadRow(7, "column body, row 7: …", {"body": b"\xff", "tags": "é", "keys": ["a"], "queue_id": None}))
    output.finish()
    (path,) = (tmp_path / "bad").iterdir()
    assert path.name.startswith("bad-rows-1-2-0-") and path.suffix == ".jsonl"
    found = json.loads(path.read_text())
    assert (found["row"], found["reason"]) == (7, "column body, row 7: …")
    assert base64.b64decode(found["columns"]["body"]["base64"]) == b"\xff"
    assert found["columns"]["tags"] == "é" and found["columns"]["keys"] == ["a"]


def test_no_file_is_made_without_bad_rows(tmp_path: Path) -> None:
    FolderOutput(str(tmp_path / "bad"), "x").finish()
    assert not (tmp_path / "bad").exists()


def test_without_the_option_a_bad_row_ends_the_task() -> None:
    with pytest.raises(MessageRefusedError, match="column body, row 1"):
        packed(joining(), batch([b"x", b""]))
