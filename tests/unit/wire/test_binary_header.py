from __future__ import annotations

import struct

import pytest

from pyromq.errors import LocalProtocolError
from pyromq.wire.codes import VERSION, RequestCode
from pyromq.wire.command import (
    Command,
    decode_command,
    encode_command,
    encode_request,
)
from pyromq.wire.frame import Frame, SerializeType
from pyromq.wire.header_errors import UndecodableHeaderError

JSON, BINARY = SerializeType.JSON, SerializeType.ROCKETMQ
BOTH = pytest.mark.parametrize("serialize_type", [JSON, BINARY])


def binary(remark: bytes = b"", ext: bytes = b"", code: int = 105, language: int = 0) -> Frame:
    fixed = struct.pack(">hBhiii", code, language, VERSION, 7, 0, len(remark))
    return Frame(BINARY, fixed + remark + struct.pack(">i", len(ext)) + ext)


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def test_empty_strings_of_a_binary_header_are_absent_and_later_entries_win() -> None:
    ext = (
        entry(b"a", b"1")
        + entry(b"b", b"")
        + entry(b"a", b"2")
        + entry(b"", b"x")
        + entry(b"c", b"3")
        + entry(b"c", b"")
    )
    command = decode_command(binary(ext=ext))
    assert command.ext == {"a": "2"}
    assert command.remark is None


def test_an_unknown_language_of_a_binary_header_is_no_error() -> None:
    assert decode_command(binary(language=200)).language is None


@pytest.mark.parametrize("size", range(len(binary(b"remark", entry(b"topic", b"TopicTest")).header)))
def test_a_binary_header_cut_at_any_byte_is_refused(size: int) -> None:
    whole = binary(b"remark", entry(b"topic", b"TopicTest"))
    with pytest.raises(UndecodableHeaderError):
        decode_command(Frame(BINARY, whole.header[:size]))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (struct.pack(">hBhiii", 1, 0, 1, 1, 0, -1) + bytes(4), "remark claims -1 bytes"),
        (struct.pack(">hBhiii", 1, 0, 1, 1, 0, 2**31 - 1) + bytes(4), "remark claims 2147483647 bytes"),
        (struct.pack(">hBhiiii", 1, 0, 1, 1, 0, 0, -5), "ext block claims -5 bytes"),
        (struct.pack(">hBhiiii", 1, 0, 1, 1, 0, 0, 2**31 - 1), "ext block claims 2147483647 bytes"),
        (binary(ext=b"\xff\xffabcdef").header, "key claims -1 bytes"),
        (binary(ext=b"\x7f\xffabcdef").header, "ends too early"),
        (binary(ext=b"\x00\x01a\xff\xff\xff\xff").header, "value claims -1 bytes"),
        (binary(ext=b"\x00\x01a\x00\x00\x00\x05abc").header + b"de", "value claims 5 bytes, 3 are left"),
        (binary(ext=b"\x00").header + bytes(20), "ends too early"),
        (binary(ext=entry(b"a", b"\xff")).header, "not UTF-8"),
        (binary(ext=entry(b"\xff", b"a")).header, "not UTF-8"),
        (binary(remark=b"\xc3").header, "not UTF-8"),
    ],
)
def test_binary_lengths_and_text_are_checked(header: bytes, text: str) -> None:
    with pytest.raises(UndecodableHeaderError, match=text):
        decode_command(Frame(BINARY, header))


def test_pop_codes_cannot_travel_in_a_binary_header() -> None:
    with pytest.raises(LocalProtocolError, match="200050"):
        encode_request(RequestCode.POP_MESSAGE, 1, {}, serialize_type=BINARY)


def test_what_does_not_fit_a_binary_header_cannot_be_sent() -> None:
    for command in (
        Command(code=1, version=2**15, serialize_type=BINARY),
        Command(code=1, correlation_id=2**31, serialize_type=BINARY),
        Command(code=1, ext={"k" * 40_000: "v"}, serialize_type=BINARY),
    ):
        with pytest.raises(LocalProtocolError):
            encode_command(command)
