"""Message ids: the unique id that a client gives, the offset id that a broker gives, and the hosts inside them.

    unique id   ip (4 or 16) · pid (2) · loader hash (4) · ms since month start (4) · counter (2)    32 or 56 characters
    offset id   ip (4 or 16) · port (4) · log position (8)                                           32 or 56 characters

Big-endian, written as upper-case hex; the length tells IPv4 from IPv6. Others treat a unique id as opaque text (Go
writes a part of it in lower case), so it is compared as it stands. No clock in here: now and the month's first instant
are handed in.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from itertools import count
from typing import Final

import msgspec

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.model.queue import Position

_ADDRESS_BYTES: Final = (4, 16)
_UNIQUE_TAIL: Final = struct.Struct(">HIIH")
_PID_AND_HASH: Final = struct.Struct(">HI")
_POSITION: Final = struct.Struct(">q")
_PORT: Final = struct.Struct(">i")
_WORD: Final = 0xFFFFFFFF
_SHORT: Final = 0xFFFF


class MalformedMessageIdError(RemoteProtocolError):
    """Text that no client and no broker would call a message by."""


class MalformedHostError(RemoteProtocolError):
    """Bytes or text that are not an address with a port."""


class Host(msgspec.Struct, frozen=True, order=True, gc=False):
    """An address and a port, as records and ids carry them."""

    ip: bytes
    port: int

    def __post_init__(self) -> None:
        if len(self.ip) not in _ADDRESS_BYTES:
            raise MalformedHostError(f"an address has 4 or 16 bytes, not {len(self.ip)}")
        if not -0x80000000 <= self.port <= 0x7FFFFFFF:
            raise MalformedHostError(f"port {self.port} does not fit 4 bytes")

    @classmethod
    def parse(cls, text: str) -> Host:
        """``10.0.0.1:10911`` or ``[::1]:10911``; raises MalformedHostError, also for names."""
        address, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdigit() and len(port) <= 5):
            raise MalformedHostError(f"{text[:80]!r} is not an address with a port")
        try:
            return cls(ip_address(address.removeprefix("[").removesuffix("]")).packed, int(port))
        except ValueError as error:
            raise MalformedHostError(f"{text[:80]!r} is not an address with a port") from error

    @classmethod
    def decode(cls, data: bytes) -> Host:
        """8 or 20 bytes; raises MalformedHostError."""
        if len(data) not in (8, 20):
            raise MalformedHostError(f"a host has 8 or 20 bytes, not {len(data)}")
        return cls(data[:-4], _PORT.unpack(data[-4:])[0])

    def encode(self) -> bytes:
        return self.ip + _PORT.pack(self.port)

    @property
    def is_v6(self) -> bool:
        return len(self.ip) == 16

    def __str__(self) -> str:
        address = str(ip_address(self.ip))
        return f"[{address}]:{self.port}" if self.is_v6 else f"{address}:{self.port}"


# --- offset ids ----------------------------------------------------------------------------------------------------


def encode_offset_id(store_host: Host, position: int) -> str:
    """The id under which that broker finds the record at that place of its log."""
    return stored_id(store_host.encode(), position)


def stored_id(store_host: bytes, position: int) -> str:
    """Offset message id of a record, whose host is in its stored form (8 or 20 bytes)."""
    if not 0 <= position < 1 << 63:
        raise LocalProtocolError(f"log position {position} does not fit an offset id")
    return (store_host + _POSITION.pack(position)).hex().upper()


def decode_offset_id(text: str) -> tuple[Host, Position]:
    """Which broker, which place; raises MalformedMessageIdError."""
    data = _from_hex(text, (16, 28))
    position = _POSITION.unpack(data[-8:])[0]
    if position < 0:
        raise MalformedMessageIdError(f"{text!r} points before the log")
    return Host.decode(data[:-8]), Position(position)


# --- unique ids ----------------------------------------------------------------------------------------------------


class UniqueIdGenerator:
    """Gives the messages of one client names, distinct up to 65 536 a millisecond; threads may share it."""

    def __init__(self, ip: bytes, pid: int, loader_hash: int = 0) -> None:
        if len(ip) not in _ADDRESS_BYTES:
            raise LocalProtocolError(f"an address has 4 or 16 bytes, not {len(ip)}")
        self._start = (ip + _PID_AND_HASH.pack(pid & _SHORT, loader_hash & _WORD)).hex().upper()
        self._counter = count()  # next() on it is atomic

    def next(self, now_ms: int, month_start_ms: int) -> str:
        return f"{self._start}{(now_ms - month_start_ms) & _WORD:08X}{next(self._counter) & _SHORT:04X}"


def unique_id_time_ms(text: str, *, now_ms: int, month_start_ms: int, previous_month_start_ms: int) -> int:
    """When the id was given, provided that this was in the current or the previous month.

    Raises MalformedMessageIdError.
    """
    elapsed_ms: int = _UNIQUE_TAIL.unpack(_from_hex(text, (16, 28))[-_UNIQUE_TAIL.size :])[2]
    in_this_month = month_start_ms + elapsed_ms
    return in_this_month if in_this_month <= now_ms else previous_month_start_ms + elapsed_ms


def _from_hex(text: str, sizes: tuple[int, ...]) -> bytes:
    if len(text) not in tuple(size * 2 for size in sizes):
        raise MalformedMessageIdError(f"an id has 32 or 56 characters, not {len(text)}")
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise MalformedMessageIdError(f"{text!r} is not hexadecimal") from error
    if len(data) * 2 != len(text):  # fromhex skips blanks
        raise MalformedMessageIdError(f"{text!r} is not hexadecimal")
    return data
