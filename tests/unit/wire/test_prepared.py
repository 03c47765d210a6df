"""Prepared messages and op records as bytes."""

from __future__ import annotations

import pytest

from pyromq.wire.prepared import (
    has_item,
    op_bodies,
    op_offsets,
    read_prepared,
    read_stored,
    take_home,
    with_home,
)
from pyromq.wire.record import Draft, decode_record, encode_record

V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", b"\0" * 15 + b"\1\0\0\x2a\x9f"
HOME = b"REAL_TOPIC\x01orders\x02REAL_QID\x013\x02__transactionId__\x01U1\x02"
TEXT = "TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01U1\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%" + "x" * 200])
@pytest.mark.parametrize(("born", "store"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
@pytest.mark.parametrize("body", [b"", b"some body"])
def test_the_short_way_reads_what_the_long_one_does(
    checksum: bool, topic: str, born: bytes, store: bytes, body: bytes
) -> None:
    draft = Draft(
        topic=topic,
        queue_id=0,
        body=body,
        properties=HOME,
        flag=7,
        sys_flag=1,
        born_ms=11,
        born_host=born,
        delivery_attempt=2,
    )
    data = encode_record(draft, offset=5, position=77, stored_ms=99, store_host=store, checksum=checksum)
    record, prepared = decode_record(data), read_stored(memoryview(data))
    for name in ("offset", "position", "flag", "sys_flag", "born_ms", "born_host", "stored_ms", "store_host"):
        assert getattr(prepared, name) == getattr(record, name), name
    assert (prepared.delivery_attempt, prepared.body, prepared.properties) == (2, body, HOME)


def test_what_a_prepared_message_waits_for() -> None:
    data = encode_record(
        Draft(topic="H", queue_id=0, body=b"", born_ms=50), offset=5, position=77, stored_ms=99, store_host=V4
    )
    prepared = read_prepared(decode_record(data), TEXT)
    assert (prepared.offset, prepared.position, prepared.topic, prepared.queue_id) == (5, 77, "orders", 3)
    assert (prepared.group, prepared.unique_key, prepared.checks, prepared.immunity_ms) == ("payers", "U1", 0, None)
    assert (prepared.arrived_ms, prepared.is_copy) == (99, False)
    checked = read_prepared(decode_record(data), TEXT + "TRANSACTION_CHECK_TIMES\x013\x02")
    assert (checked.checks, checked.arrived_ms, checked.is_copy) == (3, 50, True)
    moved = read_prepared(decode_record(data), TEXT + "TRAN_PREPARED_QUEUE_OFFSET\x012\x02HALF_ARRIVED_MS\x0188\x02")
    assert (moved.checks, moved.arrived_ms, moved.is_copy) == (0, 88, True)
    for text, expected in (("60", 60_000), ("0", 0), ("-1", None), ("soon", None)):
        patient = read_prepared(decode_record(data), f"{TEXT}CHECK_IMMUNITY_TIME_IN_SECONDS\x01{text}\x02")
        assert patient.immunity_ms == expected


@pytest.mark.parametrize(
    ("body", "offsets"),
    [(b"", []), (b"12", [12]), (b"12,", [12]), (b"12,15,", [12, 15]), (b"12,15", [12, 15]), (b"x,-1,7,,", [7])],
)
def test_offsets_of_op_records(body: bytes, offsets: list[int]) -> None:
    assert op_offsets(body) == offsets


def test_bodies_of_op_records_stay_small_and_read_back() -> None:
    offsets = list(range((1 << 62), (1 << 62) + 401))
    parts = list(op_bodies(offsets))
    assert [offset for part, _ in parts for offset in part] == offsets
    assert [op_offsets(body) for _, body in parts] == [list(part) for part, _ in parts]
    assert max(len(body) for _, body in parts) <= 4096
    assert list(op_bodies([])) == []


def test_items_are_whole_ones() -> None:
    item = b"PGROUP\x01payers\x02"
    assert has_item(item, item) and has_item(b"A\x01b\x02" + item, item)
    assert has_item(b"XPGROUP\x01payers\x02" + item, item)
    assert not has_item(b"XPGROUP\x01payers\x02", item)
    assert not has_item(b"PGROUP\x01payers2\x02", item)
    assert not has_item(b"A\x01PGROUP\x01payers\x02", item)
    assert not has_item(b"", item)


def test_the_home_of_a_prepared_message_is_taken_from_its_properties() -> None:
    rest = b"__transactionId__\x01U1\x02"
    assert take_home(b"A\x01b\x02" + HOME + b"C\x01d\x02") == ("orders", 3, b"A\x01b\x02" + rest + b"C\x01d\x02")
    assert take_home(HOME) == ("orders", 3, rest), "nothing in front"
    others = b"REAL_QID\x013\x02A\x01b\x02REAL_TOPIC\x01orders\x02"
    assert take_home(others) == ("orders", 3, b"A\x01b\x02"), "another order"
    assert take_home(b"A\x01b\x02") == ("", 0, b"A\x01b\x02")


def test_a_home_that_was_given_is_the_one_that_is_taken() -> None:
    for text in ("", "A\x01b", "A\x01b\x02"):
        given = with_home(text, "orders", 3, "U1").encode()
        assert given.endswith(HOME)
        assert take_home(given) == ("orders", 3, given.removesuffix(HOME) + b"__transactionId__\x01U1\x02")
