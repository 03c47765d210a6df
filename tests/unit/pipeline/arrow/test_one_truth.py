"""One truth: arrays are equal with the compiled core and without, and so are refusals of damaged records."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.errors import CorruptRecordError
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow import decode as module
from pyromq.pipeline.arrow.columns import ARROW_TYPES, COLUMNS
from pyromq.pipeline.arrow.decode import WantedRows, decode
from tests.running.seeds import seed_of
from tests.unit.wire.odd_records import odd_record, odd_records

pytestmark = [
    pytest.mark.seeded,
    pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}"),
]
QUEUE = QueueId("orders", "broker-a", 3)
ALL = WantedRows(0, 1 << 62)
MAP = pa.schema(list(ARROW_TYPES.items()))
ROUNDS = 1_200
BEYOND = (
    *((-(1 << 70), 1 << 70), (1 << 63, 1 << 64), (1 << 63, 3), ((1 << 63) - 1, 1 << 63), (1 << 63, 1 << 63)),
    *((-(1 << 64), -(1 << 63) - 1), (0, -(1 << 63) - 1), (-(1 << 63), (1 << 63) - 1), (-(1 << 63), -(1 << 63))),
)
"""Offsets that are none, or that no number of 64 bits holds."""


def random_schema(rng: Random) -> pa.Schema:
    names = rng.sample(COLUMNS, rng.choice((1, 2, 6, len(COLUMNS))))
    as_text = rng.random() < 0.4
    return pa.schema([(name, pa.string() if name == "properties" and as_text else ARROW_TYPES[name]) for name in names])


def random_wanted(rng: Random) -> WantedRows:
    start, end = rng.choice(((0, 1 << 62), (0, 3), (2, 9), (5, 5), (-(1 << 70), 1 << 70), (1 << 40, (1 << 40) + 2)))
    tags = rng.choice(((), (), ("red",), ("red", "grün"), ("half \ud83d",)))
    return WantedRows(start, end, frozenset(tags))


def outcome(data: bytes, schema: pa.Schema, wanted: WantedRows) -> Any:
    try:
        batch = decode(data, QUEUE, schema, wanted)
    except CorruptRecordError as error:
        return str(error)
    batch.validate(full=True)
    return batch


def same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return bool(one.schema == other.schema and one.equals(other))


@pytest.mark.parametrize(("start", "end"), BEYOND)
def test_offsets_beyond_64_bits_are_compared_as_numbers(start: int, end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = odd_records(Random(seed_of(3)))
    with_core = outcome(data, MAP, WantedRows(start, end))
    monkeypatch.setattr(module, "core", None)
    assert same(with_core, outcome(data, MAP, WantedRows(start, end)))


def test_both_make_the_same_arrays_or_refuse_with_the_same_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, module.__name__)
    rng = Random(seed_of(8))
    cases = [(odd_records(rng), random_schema(rng), random_wanted(rng)) for _ in range(ROUNDS)]
    with_core = [outcome(*case) for case in cases]
    monkeypatch.setattr(module, "core", None)
    for place, case in enumerate(cases):
        assert same(with_core[place], outcome(*case)), f"case {place}"
    rows = sum(each.num_rows for each in with_core if not isinstance(each, str))
    refused = sum(isinstance(each, str) for each in with_core)
    assert rows > 250 and refused > 100  # 493 with one seed


def test_ordinary_records_are_the_cores_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed_of(9))
    data = b"".join(odd_record(rng, offset, oddness=0) for offset in range(50))

    def never(*_: object) -> Any:
        raise AssertionError("left to numpy")

    expected = decode(data, QUEUE, MAP, ALL)
    monkeypatch.setattr(module, "Records", never)
    assert decode(data, QUEUE, MAP, ALL).equals(expected) and expected.num_rows == 50


def test_views_are_left_to_numpy() -> None:
    rng = Random(seed_of(10))
    data = b"".join(odd_record(rng, offset, oddness=0) for offset in range(5))
    assert decode(memoryview(data), QUEUE, MAP, ALL).equals(decode(data, QUEUE, MAP, ALL))  # type: ignore[arg-type]


@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_alone(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed_of(11))
    schema = pa.schema([(column, ARROW_TYPES[column])])
    data = b"".join(odd_record(rng, offset, oddness=0.1) for offset in range(200))
    found = decode(data, QUEUE, schema, ALL)
    monkeypatch.setattr(module, "core", None)
    assert found.equals(decode(data, QUEUE, schema, ALL))
