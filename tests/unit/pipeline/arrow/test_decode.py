"""Stored bytes to Arrow: the same values that ``wire.record`` and ``ReceivedMessage`` read, for any record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.core.received_message import split_messages
from pyromq.errors import CorruptRecordError
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.columns import ARROW_TYPES, COLUMNS
from pyromq.pipeline.arrow.decode import WantedRows, decode, decode_in_parts
from pyromq.wire.compression import DecompressionError, compress, compressed_flag
from pyromq.wire.flags import SysFlag
from pyromq.wire.record import Draft, encode_record, has_checksum, split_records
from pyromq.wire.record_layout import CHECKSUM_BYTES

V4, V6 = b"\x0a\0\0\x01\0\0\x2a\x9f", bytes(range(16)) + b"\0\0\x2a\x9f"
QUEUE = QueueId("orders", "broker-a", 3)
ALL = WantedRows(0, 1 << 62)
RAW = pa.schema([(name, pa.string() if name == "properties" else kind) for name, kind in ARROW_TYPES.items()])
MAP = pa.schema(list(ARROW_TYPES.items()))


def record(
    offset: int = 0, body: bytes = b"hello", properties: bytes = b"UNIQ_KEY\x01ID\x02TAGS\x01red\x02", **more: Any
) -> bytes:
    place = {"store_host": more.pop("store_host", V4), "checksum": more.pop("checksum", False)}
    draft = Draft(queue_id=3, body=body, properties=properties, **{"topic": "orders", "born_ms": 11, **more})
    return encode_record(draft, offset=offset, position=offset * 1000, stored_ms=1_700_000_000_000 + offset, **place)


def expected(data: bytes) -> list[dict[str, Any]]:
    """What clients make of the same bytes."""
    rows = []
    for message, each in zip(split_messages(data, "broker-a"), split_records(data), strict=True):
        try:
            body = message.body
        except DecompressionError:
            body = None
        rows.append(
            {
                "topic": "orders",
                "broker": "broker-a",
                "queue_id": each.queue_id,
                "queue_offset": each.offset,
                "message_id": message.message_id,
                "offset_message_id": message.offset_message_id,
                "tags": message.get("TAGS"),
                "keys": message.get("KEYS"),
                "born_time": datetime.fromtimestamp(each.born_ms / 1000, UTC),
                "store_time": datetime.fromtimestamp(each.stored_ms / 1000, UTC),
                "born_host": str(message.born_host),
                "store_host": str(message.store_host),
                "flag": each.flag,
                "sys_flag": each.sys_flag,
                "delivery_attempt": each.delivery_attempt,
                "body_crc": each.body_crc,
                "commit_log_offset": each.position,
                "properties": message.properties,
                "body": body,
            }
        )
    return rows


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    batch.validate(full=True)
    return [
        {name: dict(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in batch.to_pylist()
    ]


def check(data: bytes) -> None:
    assert rows_of(decode(data, QUEUE, MAP, ALL)) == expected(data)
    raw = decode(data, QUEUE, RAW, ALL)
    stored = [each.properties for each in split_records(data)]
    assert raw["properties"].to_pylist() == [
        (each[:-CHECKSUM_BYTES] if has_checksum(each) else each).decode() for each in stored
    ]


# --- the same as clients read ---


def test_every_column_of_plain_records() -> None:
    check(b"".join(record(offset, checksum=True, flag=offset, delivery_attempt=2) for offset in range(5)))


def test_ipv6_hosts_and_long_topics() -> None:
    check(
        record(0)
        + record(1, born_host=V6)
        + record(2, store_host=V6)
        + record(3, born_host=V6, store_host=V6, topic="t" * 200)
        + record(4, topic="u" * 130)
    )


def test_hosts_that_differ() -> None:
    check(b"".join(record(offset, born_host=bytes((10, 0, 0, offset % 3, 0, 0, 0, 9))) for offset in range(7)))


@pytest.mark.parametrize("algorithm", [SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD])
def test_compressed_bodies_are_unpacked(algorithm: SysFlag) -> None:
    packed = record(1, compress(b"x" * 5000, algorithm), sys_flag=compressed_flag(0, algorithm))
    data = record(0) + packed + record(2)
    check(data)
    assert decode(data, QUEUE, MAP, ALL)["body"].to_pylist() == [b"hello", b"x" * 5000, b"hello"]


def test_a_body_that_cannot_be_unpacked_is_null(caplog: pytest.LogCaptureFixture) -> None:
    data = record(0) + record(1, b"not zlib", sys_flag=compressed_flag(0)) + record(2)
    check(data)
    assert decode(data, QUEUE, MAP, ALL)["body"].to_pylist() == [b"hello", None, b"hello"]
    assert "offset=1" in caplog.text


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"A\x01b",  # not closed
        b"A\x01b\x02TAGS\x01blue",
        b"nothing\x02TAGS\x01blue\x02",  # an item without value
        b"A\x01\x02\x01b\x02TAGS\x01blue\x02",  # an empty value, an empty name
        b"TAGS\x01blue\x02TAGS\x01green\x02",  # a name twice: the last one counts
        b"TAGS\x01a\x01b\x02",  # the separator of names in a value
        b"XTAGS\x01no\x02KEYS\x01a b\x02",
        b"\x02\x02TAGS\x01blue\x02\x02",
        "TAGS\x01übung\x02".encode(),
    ],
)
def test_odd_properties_are_read_as_clients_read_them(odd: bytes) -> None:
    check(record(0, properties=odd))
    check(record(0) + record(1, properties=odd) + record(2, properties=b"") + record(3, properties=odd) + record(4))


_item = st.binary(max_size=6).filter(lambda raw: not set(raw) - {1, 2, 84, 65, 71, 83})
_properties = st.one_of(
    st.lists(st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "A"]), st.sampled_from("xyz")), max_size=4).map(
        lambda items: "".join(f"{name}\x01{value}\x02" for name, value in items).encode()
    ),
    st.lists(_item, max_size=4).map(b"\x02".join),
)
_records = st.lists(
    st.tuples(st.binary(max_size=40), _properties, st.sampled_from([V4, V6]), st.sampled_from([V4, V6]), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(_records)
@settings(deadline=None)
def test_any_records(made: list[tuple[bytes, bytes, bytes, bytes, bool]]) -> None:
    check(
        b"".join(
            record(offset, body, properties, born_host=born, store_host=store, checksum=checksum)
            for offset, (body, properties, born, store, checksum) in enumerate(made)
        )
    )


# --- which rows and columns ---


def test_only_the_columns_asked_for() -> None:
    schema = pa.schema([("queue_offset", pa.int64()), ("tags", pa.string())])
    batch = decode(record(7) + record(8), QUEUE, schema, ALL)
    assert batch.schema == schema
    assert batch.to_pylist() == [{"queue_offset": 7, "tags": "red"}, {"queue_offset": 8, "tags": "red"}]


def test_offsets_outside_of_the_range_are_left_out() -> None:
    data = b"".join(map(record, range(10)))
    batch = decode(data, QUEUE, MAP, WantedRows(3, 6))
    assert rows_of(batch) == expected(data)[3:6]
    assert decode(data, QUEUE, MAP, WantedRows(50, 60)).num_rows == 0


def test_tags_are_compared_as_text() -> None:
    properties = [b"TAGS\x01red\x02", b"TAGS\x01blue\x02", b"", b"TAGS\x01red\x02"]
    data = b"".join(record(offset, properties=each) for offset, each in enumerate(properties))
    batch = decode(data, QUEUE, MAP, WantedRows(1, 9, frozenset({"red"})))
    assert batch["queue_offset"].to_pylist() == [3]
    assert rows_of(batch) == expected(data)[3:]


@pytest.mark.parametrize("column", COLUMNS)
def test_no_records_no_rows(column: str) -> None:
    assert decode(b"", QUEUE, pa.schema([(column, ARROW_TYPES[column])]), ALL).num_rows == 0


# --- damage ---


@pytest.mark.parametrize("cut", [1, 4, 50, 90, 110])
def test_records_that_are_cut_are_refused(cut: int) -> None:
    with pytest.raises(CorruptRecordError):
        decode(record(0) + record(1)[:-cut], QUEUE, MAP, ALL)


@pytest.mark.parametrize("place", [0, 4, 7, 84, 86, 93, 100])
def test_impossible_lengths_are_refused(place: int) -> None:
    data = bytearray(record(0) + record(1))
    data[len(record(0)) + place] ^= 0x55
    with pytest.raises(CorruptRecordError):
        decode(bytes(data), QUEUE, MAP, ALL)


def test_bodies_that_decompress_to_much_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst case of each part is bounded, not what it turns out to be; a plain message costs nothing."""
    monkeypatch.setattr("pyromq.pipeline.arrow.decode.PART_BYTES_MAX", 200_000)
    packed = compress(bytes(50_000), SysFlag.ZLIB)  # about 70 bytes, so 77 000 at worst
    flags = int(compressed_flag(0, SysFlag.ZLIB))
    data = b"".join(record(n, packed, sys_flag=flags) if n % 2 else record(n) for n in range(10))
    batches = list(decode_in_parts(data, QUEUE, RAW, ALL))
    assert [batch.num_rows for batch in batches] == [5, 4, 1]
    assert pa.Table.from_batches(batches).to_pylist() == decode(data, QUEUE, RAW, ALL).to_pylist()
    plain = b"".join(record(n) for n in range(10))
    (batch,) = decode_in_parts(plain, QUEUE, RAW, ALL)
    assert batch == decode(plain, QUEUE, RAW, ALL)
    (ids,) = decode_in_parts(data, QUEUE, RAW.empty_table().select(["message_id"]).schema, ALL)
    assert ids.num_rows == 10, "without bodies nothing is decompressed"
