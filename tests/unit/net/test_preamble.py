"""The first bytes of a connection: any cut of them gives the same result, and nothing behind them is touched."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.net import Address, PreambleError
from pyromq.net.preamble import SIGNATURE, Preamble

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
FRAME = b"\x00\x00\x00\x87\x00\x00\x00\x83{"
LINE = b"PROXY TCP4 192.0.2.1 198.51.100.2 54321 10911\r\n"


def binary(family: int, addresses: bytes, *, version_and_command: int = 0x21) -> bytes:
    return SIGNATURE + struct.pack(">BBH", version_and_command, family, len(addresses)) + addresses


IPV4 = binary(0x11, socket.inet_aton("192.0.2.1") + socket.inet_aton("198.51.100.2") + struct.pack(">HH", 54321, 1))
IPV6_ADDRESSES = socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + struct.pack(">HH", 54321, 1)
IPV6 = binary(0x21, IPV6_ADDRESSES)
WITH_TLVS = binary(0x21, IPV6_ADDRESSES + b"\x03\x00\x04\xde\xad\xbe\xef" + b"\x05\x00\x05hello")

HEADERS = [
    (b"", None),
    (LINE, Address("192.0.2.1", 54321)),
    (b"PROXY TCP6 2001:db8::7 ::1 54321 10911\r\n", Address("2001:db8::7", 54321)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (IPV4, Address("192.0.2.1", 54321)),
    (IPV6, Address("2001:db8::7", 54321)),
    (WITH_TLVS, Address("2001:db8::7", 54321)),
    (binary(0x00, b""), None),
    (binary(0x31, bytes(216)), None),
    (binary(0x11, b"", version_and_command=0x20), None),  # LOCAL: a health check of the proxy itself
]


def run(preamble: Preamble, data: bytes, arrivals: list[int]) -> bytes:
    """Shows what a socket would hold as pieces arrive; returns what is left in it at the end."""
    held, arrived = bytearray(), 0
    for size in [*arrivals, len(data)]:
        held += data[arrived : arrived + size]
        arrived = min(len(data), arrived + size)
        while held and not preamble.is_done:
            taken = preamble.take(bytes(held))
            assert taken > 0 or preamble.is_done, "the server would spin"
            del held[:taken]
    return bytes(held)


@given(st.sampled_from(HEADERS), st.sampled_from([TLS_HELLO, FRAME]), st.lists(st.integers(min_value=0, max_value=40)))
def test_any_cut_of_the_stream_gives_the_same_preamble(
    header: tuple[bytes, Address | None], rest: bytes, arrivals: list[int]
) -> None:
    preamble = Preamble(proxy_protocol=True)
    left = run(preamble, header[0] + rest, arrivals)
    assert preamble.is_done
    assert (preamble.source, preamble.is_tls) == (header[1], rest is TLS_HELLO)
    assert left == rest[len(rest) - len(left) :]
    assert left.startswith(rest[:1])


@pytest.mark.parametrize(
    "data",
    [
        b"PUT / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 54321 10911 more\r\n",
        b"PROXY TCP4 2001:db8::7 ::1 54321 10911\r\n",
        b"PROXY TCP4 192.0.2.999 198.51.100.2 54321 10911\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 10911\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 -1 10911\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1 x\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n",
        b"PROXY TCP4 " + b"1" * 120,
        b"\r\n\r\n\x00\r\nQUIT!",
        binary(0x11, bytes(11)),
        binary(0x21, bytes(35)),
        binary(0x77, bytes(40)),
        binary(0x12, bytes(12)),
        binary(0x11, bytes(12), version_and_command=0x11),
        binary(0x11, bytes(12), version_and_command=0x2F),
    ],
)
def test_a_malformed_proxy_header_is_an_error(data: bytes) -> None:
    with pytest.raises(PreambleError):
        run(Preamble(proxy_protocol=True), data + FRAME, [])


@given(st.binary(max_size=200))
def test_noise_ends_in_a_decision_or_a_typed_error(noise: bytes) -> None:
    for start in (b"", b"PROXY ", SIGNATURE):
        try:
            run(Preamble(proxy_protocol=True), start + noise, [3, 5, 8])
        except PreambleError:
            pass


def test_a_proxy_header_is_nothing_special_unless_expected() -> None:
    preamble = Preamble(proxy_protocol=False)
    assert run(preamble, LINE, []) == LINE
    assert preamble.is_done
    assert preamble.source is None


def test_only_one_proxy_header_is_taken() -> None:
    preamble = Preamble(proxy_protocol=True)
    assert run(preamble, LINE + LINE, []) == LINE
    assert preamble.is_done
