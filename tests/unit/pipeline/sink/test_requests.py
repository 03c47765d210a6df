"""Rows to requests: sizes, queues, delays, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pyromq.errors import MessageRefusedError, MessageTooLargeError
from pyromq.pipeline.sink.joined import JoinedPacker, can_join
from pyromq.pipeline.sink.keys import RowKeys, parse_key
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.requests import Packer
from tests.unit.pipeline.sink.packing import QUEUES, joining, packed, packer, parse, rows_of


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_are_cut_into_requests_of_the_size_asked_for(make: Callable[[SinkOptions], Packer | JoinedPacker]) -> None:
    options = parse(topic="out", batchBytes="4k")
    bodies = [b"x" * (number % 90 + 1) for number in range(300)]
    made = make(options)
    requests = packed(made, pa.record_batch({"body": bodies, "tags": ["t"] * 300}))
    assert [body for body, _ in rows_of(requests)] == bodies
    assert all(len(request.body) <= 4096 for request in requests) and len(requests) > 5
    keys = [key for request in requests for key in request.keys]
    assert keys == [RowKeys("query", 1, 2).of_row(row) for row in range(300)] and made.row == 300
    assert [properties["UNIQ_KEY"] for _, properties in rows_of(requests)] == keys


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_go_on_counting_from_batch_to_batch(make: Callable[[], Packer | JoinedPacker]) -> None:
    [request] = packed(make(), pa.record_batch({"body": [b"a"]}), pa.record_batch({"body": [b"b", b"c"]}))
    assert [parse_key(key).row for key in request.keys] == [0, 1, 2]  # type: ignore[union-attr]
    assert request.body == packed(make(), pa.record_batch({"body": [b"a", b"b", b"c"]}))[0].body


def test_a_sharding_key_chooses_the_queue_that_other_clients_choose() -> None:
    batch = pa.record_batch({"body": [b"1", b"2", b"3"], "sharding_key": ["k", None, "k"]})
    requests = packed(packer(), batch)
    pinned = [request for request in requests if request.queue is not None]
    assert [request.queue for request in pinned] == [QUEUES[107 % 3]], "the hash of k is 107"
    assert [body for body, _ in rows_of(pinned)] == [b"1", b"3"]


def test_a_queue_is_named_by_number_and_broker() -> None:
    batch = pa.record_batch({"body": [b"1", b"2"], "queue_id": [0, 0], "broker": [None, "b"]})
    assert [request.queue for request in packed(packer(), batch)] == [QUEUES[0], QUEUES[2]]


def test_delayed_rows_travel_alone() -> None:
    batch = pa.record_batch({"body": [b"now", b"later"], "delay_level": [0, 3]})
    later, now = packed(packer(), batch)
    assert later.properties is not None and later.properties.endswith("DELAY\x013\x02") and later.body == b"later"
    assert now.properties is None
    times = pa.record_batch(
        [pa.array([b"x"]), pa.array([1_500_000], pa.timestamp("us", tz="UTC"))], ["body", "deliver_time"]
    )
    [timed] = packed(packer(), times)
    assert timed.properties is not None and timed.properties.endswith("TIMER_DELIVER_MS\x011500\x02")


def test_rows_that_are_there_already_are_left_out_and_counted() -> None:
    made = packer(is_sent=lambda key, body: body == b"b")
    requests = packed(made, pa.record_batch({"body": [b"a", b"b", b"c"]}))
    assert [body for body, _ in rows_of(requests)] == [b"a", b"c"] and made.skipped == 1
    assert [parse_key(key).row for key in requests[0].keys] == [0, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [b"x", b""]}, "column body, row 1: it is empty"),
        ({"body": [b"x", None]}, "column body, row 1: it is empty"),
        ({"body": [b"x"], "tags": ["a|b"]}, r"column tags, row 0"),
        ({"body": [b"x"], "keys": ["a\x01b"]}, r"column keys, row 0"),
        ({"body": [b"x"], "properties": ["shop\x01a\x01b\x02"]}, r"column properties, row 0"),
        ({"body": [b"x"], "delay_level": [-1]}, r"column delay_level, row 0: levels are numbers from 1 on, not -1"),
        ({"body": [b"x"], "queue_id": [7]}, r"column queue_id, row 0: topic out has no queue 7"),
    ],
)
def test_what_no_broker_takes_is_refused_with_column_and_row(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageRefusedError, match=words):
        packed(packer(), pa.record_batch(columns))
    if can_join(columns, parse(topic="out")):
        with pytest.raises(MessageRefusedError, match=words):
            packed(joining(), pa.record_batch(columns))


def test_topics_that_were_not_announced_are_refused() -> None:
    options = parse(topic="one,two")
    assert [
        request.topic for request in packed(packer(options), pa.record_batch({"body": [b"x"], "topic": ["two"]}))
    ] == ["two"]
    with pytest.raises(MessageRefusedError, match="column topic, row 0: three is not among"):
        packed(packer(options), pa.record_batch({"body": [b"x"], "topic": ["three"]}))
    with pytest.raises(MessageRefusedError, match="column topic, row 0"):
        packed(packer(parse()), pa.record_batch({"body": [b"x"], "topic": ["no topic!"]}))


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_that_are_too_large_are_refused(make: Callable[[], Packer | JoinedPacker]) -> None:
    with pytest.raises(MessageTooLargeError):
        packed(make(), pa.record_batch({"body": [b"x" * (4 << 20)]}))
    with pytest.raises(MessageTooLargeError):
        packed(make(), pa.record_batch({"body": [b"x"], "properties": ["a\x01" + "v" * 40_000 + "\x02"]}))


def test_items_are_laid_out_as_brokers_read_them() -> None:
    [request] = packed(packer(), pa.record_batch({"body": [b"abc"], "flag": [9]}))
    total, magic, crc, flag, size = struct.unpack_from(">iiiii", request.body)
    assert (total, magic, crc, flag, size) == (len(request.body), 0, 0, 9, 3)
