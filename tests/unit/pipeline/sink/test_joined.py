"""Requests that Arrow joins are those of rows that are looked at."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.pipeline.sink.joined import can_join
from tests.unit.pipeline.sink.packing import joining, packed, packer, parse

_words = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02|"), max_size=9)
_rows = st.lists(st.tuples(st.binary(min_size=1, max_size=1500), _words, _words), min_size=1, max_size=40)


@given(st.lists(_rows, max_size=4), st.booleans())
@settings(deadline=None)
def test_joined_requests_are_those_of_rows_that_are_looked_at(batches: list[Any], with_properties: bool) -> None:
    def batch_of(rows: list[Any]) -> pa.RecordBatch:
        body, tags, keys = zip(*rows, strict=True)
        columns = {"body": pa.array(body, pa.binary()), "tags": pa.array(tags, pa.string())}
        columns["keys"] = pa.array(keys, pa.string())
        if with_properties:
            columns["properties"] = pa.array([f"shop\x01{number}\x02" for number in range(len(rows))])
        return pa.record_batch(columns)

    options = parse(topic="out", batchBytes="2k")
    made = [pa.Table.from_batches([batch_of(rows)]).slice(0).to_batches()[0] for rows in batches]
    joined, looked_at = packed(joining(options), *made), packed(packer(options), *made)
    assert [(request.body, list(request.keys)) for request in joined] == [(each.body, each.keys) for each in looked_at]


@pytest.mark.parametrize(
    ("columns", "holds"),
    [
        ("body keys tags properties", True),
        ("body flag", False),
        ("body queue_id", False),
        ("body sharding_key", False),
        ("body delay_level", False),
        ("body deliver_time", False),
        ("body unique_key", False),
    ],
)
def test_rows_that_differ_in_more_than_text_are_not_joined(columns: str, holds: bool) -> None:
    assert can_join(columns.split(), parse(topic="out")) is holds
    assert not can_join(columns.split(), parse(topic="out,other"))
