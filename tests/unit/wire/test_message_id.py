from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.wire.message_id import (
    Host,
    MalformedHostError,
    MalformedMessageIdError,
    UniqueIdGenerator,
    decode_offset_id,
    encode_offset_id,
    unique_id_time_ms,
)

V4 = bytes([127, 0, 0, 1])
V6 = bytes(15) + b"\x01"
MONTH_MS = 1_698_796_800_000
NOW_MS = MONTH_MS + 5_000
addresses = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))


def test_a_unique_id_has_its_parts_in_order() -> None:
    generator = UniqueIdGenerator(V4, pid=0x1ABCD, loader_hash=0x12345678)
    assert generator.next(NOW_MS, MONTH_MS) == "7F000001" + "ABCD" + "12345678" + "00001388" + "0000"
    assert generator.next(NOW_MS + 1, MONTH_MS).endswith("00001389" + "0001")


def test_a_unique_id_with_ipv6_has_56_characters() -> None:
    assert len(UniqueIdGenerator(V6, pid=1).next(NOW_MS, MONTH_MS)) == 56


def test_the_counter_wraps_and_ids_of_a_millisecond_are_distinct_until_then() -> None:
    generator = UniqueIdGenerator(V4, pid=1)
    ids = [generator.next(NOW_MS, MONTH_MS) for _ in range(65_537)]
    assert len(set(ids)) == 65_536
    assert ids[0] == ids[-1]


def test_a_negative_loader_hash_is_taken_as_its_bits() -> None:
    assert UniqueIdGenerator(V4, pid=1, loader_hash=-1).next(NOW_MS, MONTH_MS)[12:20] == "FFFFFFFF"


def test_a_clock_before_the_month_start_still_gives_an_id() -> None:
    assert len(UniqueIdGenerator(V4, pid=1).next(MONTH_MS - 1, MONTH_MS)) == 32


def test_an_address_of_another_length_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        UniqueIdGenerator(b"\x01", pid=1)


@pytest.mark.parametrize("ip", [V4, V6])
def test_the_time_comes_back_from_a_unique_id(ip: bytes) -> None:
    id_ = UniqueIdGenerator(ip, pid=1).next(NOW_MS, MONTH_MS)
    for text in (id_, id_[:-12] + id_[-12:].lower()):
        assert _time_of(text, now_ms=NOW_MS) == NOW_MS


def test_a_time_in_the_future_belongs_to_the_previous_month() -> None:
    id_ = UniqueIdGenerator(V4, pid=1).next(MONTH_MS - 1_000, MONTH_MS - 100_000)
    assert _time_of(id_, now_ms=MONTH_MS + 10) == MONTH_MS - 1_000


def _time_of(text: str, *, now_ms: int) -> int:
    return unique_id_time_ms(text, now_ms=now_ms, month_start_ms=MONTH_MS, previous_month_start_ms=MONTH_MS - 100_000)


@pytest.mark.parametrize(
    "text", ["", "00", "0" * 31, "0" * 33, "G" * 32, "0 " * 16, " " * 32, "é" * 32, "０" * 32, "0" * 28]
)
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(MalformedMessageIdError):
        _time_of(text, now_ms=NOW_MS)
    with pytest.raises(MalformedMessageIdError):
        decode_offset_id(text)


@given(addresses, st.integers(0, 65_535), st.integers(0, 2**63 - 1))
def test_an_offset_id_reads_back(ip: bytes, port: int, position: int) -> None:
    text = encode_offset_id(Host(ip, port), position)
    assert len(text) == (32 if len(ip) == 4 else 56)
    assert decode_offset_id(text) == (Host(ip, port), position)
    assert decode_offset_id(text.lower()) == (Host(ip, port), position)


def test_positions_outside_the_log_have_no_id() -> None:
    for position in (-1, 2**63):
        with pytest.raises(LocalProtocolError):
            encode_offset_id(Host(V4, 1), position)
    with pytest.raises(MalformedMessageIdError):
        decode_offset_id("7F00000100002A9FFFFFFFFFFFFFFFFF")


@given(addresses, st.integers(0, 65_535))
def test_a_host_reads_back_from_bytes_and_text(ip: bytes, port: int) -> None:
    host = Host(ip, port)
    assert Host.decode(host.encode()) == host
    assert Host.parse(str(host)) == host


def test_a_host_shows_as_people_write_it() -> None:
    assert str(Host(V4, 10911)) == "127.0.0.1:10911"
    assert str(Host(V6, 10911)) == "[::1]:10911"
    assert Host(V6, 1).is_v6 and not Host(V4, 1).is_v6
    assert Host(V4, 10911).encode() == b"\x7f\0\0\x01\0\0\x2a\x9f"


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", "localhost:1", ":1", "127.0.0.1:-1", "1.2.3:4", "1.2.3.4:٣"]
)
def test_other_text_is_no_host(text: str) -> None:
    with pytest.raises(MalformedHostError):
        Host.parse(text)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 19, 21])
def test_other_sizes_are_no_host(size: int) -> None:
    with pytest.raises(MalformedHostError):
        Host.decode(bytes(size))
    with pytest.raises(MalformedHostError):
        Host(bytes(size + 1 if size in (4, 16) else size), 1)


def test_a_port_must_fit_its_field() -> None:
    with pytest.raises(MalformedHostError):
        Host(V4, 2**31)
