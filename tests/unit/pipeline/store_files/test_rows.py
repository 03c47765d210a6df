"""Stretches of commit logs: every whole record in exactly one, whatever lies between them."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.store_files.log import (
    log_files,
)
from pyromq.pipeline.store_files.source import chosen_of
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import ManualClock
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft
from tests.unit.pipeline.store_files.stores import rows

SETTINGS = StoreSettings(
    segment_bytes=16 << 10, queue_file_entries=100, index_slots=10, index_entries=100, full_percent=100
)

START_MS = 1_700_000_000_000

LONG_TOPIC = "%RETRY%" + "x" * 200


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three topics over several files; one has a name that takes a longer length field."""
    clock = ManualClock(START_MS)
    with MessageStore.open(tmp_path, SETTINGS, clock=clock) as opened:
        for number in range(200):
            topic = ("a", "b", LONG_TOPIC)[number % 3]
            body = f"body {number} ".encode() * (number % 20 + 1)
            properties = encode_properties({"TAGS": ("even", "odd")[number % 2]})
            opened.append([Draft(topic=topic, queue_id=0, body=body, properties=properties)])
            clock.advance_ms(1)
        opened.flush()
    return tmp_path


def number_of(row: dict[str, object]) -> int:
    body = row["body"]
    assert isinstance(body, bytes)
    return int(body.split()[1])


def test_records_come_in_order_with_their_own_topic(store: Path) -> None:
    found = rows(store)
    assert len(log_files(store)) > 3
    assert [number_of(row) for row in found] == list(range(200))
    assert [row["topic"] for row in found] == [("a", "b", LONG_TOPIC)[number % 3] for number in range(200)]
    assert [row["queue_offset"] for row in found if row["topic"] == "b"] == list(range(67))
    assert [row["tags"] for row in found] == ["even", "odd"] * 100


@pytest.mark.parametrize("stretch_bytes", [100, 333, 1_000, 5_001, 16 << 10])
def test_wherever_files_are_cut_every_record_is_there_once(store: Path, stretch_bytes: int) -> None:
    assert Counter(map(number_of, rows(store, stretch_bytes))) == Counter(range(200))


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({"topic": "b,c"}, range(1, 200, 3)),
        ({"tags": "odd || none"}, range(1, 200, 2)),
        ({"topic": "b", "tags": "even"}, range(4, 200, 6)),
        ({"startingTimestamp": str(START_MS + 50)}, range(50, 200)),
        ({"endingTimestamp": str(START_MS + 50), "startingTimestamp": str(START_MS + 20)}, range(20, 50)),
        ({"startingTimestamp": str(START_MS + 200)}, range(0)),
    ],
    ids=str,
)
def test_rows_can_be_chosen(store: Path, given: dict[str, str], numbers: range) -> None:
    options = parse_options({"storePath": str(store), **given}, Use.BATCH)
    assert [number_of(row) for row in rows(store, 5_000, chosen_of(options))] == list(numbers)


@pytest.mark.parametrize("what", ["body", "size", "magic"])
@pytest.mark.parametrize("stretch_bytes", [700, 1 << 30])
def test_damage_costs_its_record_alone_and_is_told(
    store: Path, caplog: pytest.LogCaptureFixture, what: str, stretch_bytes: int
) -> None:
    victim = rows(store)[20]
    at = victim["commit_log_offset"]
    assert isinstance(at, int)
    file = next(file for file in reversed(log_files(store)) if file.base <= at)
    with file.path.open("r+b") as opened:
        opened.seek(at - file.base + {"body": 92, "size": 1, "magic": 5}[what])
        opened.write(b"\xff")
    with caplog.at_level(logging.WARNING):
        found = [number_of(row) for row in rows(store, stretch_bytes)]
    assert sorted(found) == [number for number in range(200) if number != 20]
    if stretch_bytes > 700:  # a short stretch may begin behind the damage
        assert "passed over" in caplog.text
