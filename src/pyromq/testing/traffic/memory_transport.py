"""Memory transports: two protocols of one loop connected without a socket. The bytes are the real protocol's.

    one end: write(data) ──▶ unread of the other ──call_soon──▶ the other's get_buffer, buffer_updated

What is written in one loop iteration arrives in the next. Reading can be paused, writing is when too much is unread,
``close`` delivers what was written before, ``abort`` does not: as sockets do, in an order that is always the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Self, cast

from pyromq.net import Address

_HIGH_BYTES: Final = 64 * 1024  # of unread bytes, until the protocol says otherwise

Bytes = bytes | bytearray | memoryview


class _NoSocket:
    """Stand-in for the socket whose options are asked for."""

    def setsockopt(self, *arguments: object) -> None:
        pass


class MemoryTransport(asyncio.Transport):
    """One end of a connection; ``connected`` makes both."""

    def __init__(self, loop: asyncio.AbstractEventLoop, here: Address, there: Address) -> None:
        super().__init__({"sockname": tuple(here), "peername": tuple(there), "socket": _NoSocket()})
        self._loop = loop
        self._protocol: asyncio.BufferedProtocol | None = None  # until it has heard of the end
        self._other: MemoryTransport = self  # set by ``connected``
        self._unread: deque[memoryview] = deque()
        self._unread_bytes = 0
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        self._is_reading = True
        self._is_reader_called = False
        self._is_writing_paused = False
        self._is_closing = False
        self._has_eof = False  # the other end writes no more

    @classmethod
    def connected(cls, loop: asyncio.AbstractEventLoop, here: Address, there: Address) -> tuple[Self, Self]:
        """Both ends; ``begin`` gives each its protocol."""
        one, other = cls(loop, here, there), cls(loop, there, here)
        one._other, other._other = other, one
        return one, other

    def begin(self, protocol: asyncio.BufferedProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    # --- writing ---

    def write(self, data: Bytes) -> None:
        if not self._is_closing and len(data):
            self._other._arrive(data)
            self._pause_writing_above(self._high)

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return self._other._unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def _pause_writing_above(self, high: int) -> None:
        if not self._is_writing_paused and self.get_write_buffer_size() > high and self._protocol is not None:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def _has_been_read(self) -> None:
        if self._is_writing_paused and self.get_write_buffer_size() <= self._low:
            self._is_writing_paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    # --- reading ---

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read_soon()

    def _arrive(self, data: Bytes) -> None:
        self._unread.append(
            memoryview(bytes(data))
        )  # as a socket: what the writer does with its buffer later is its own
        self._unread_bytes += len(data)
        self._read_soon()

    def _read_soon(self) -> None:
        if not self._is_reader_called and (self._unread or self._has_eof):
            self._is_reader_called = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_reader_called = False
        if self._protocol is None or self._is_closing or not self._is_reading:
            return
        if self._unread:
            self._hand_over(self._protocol)
            self._read_soon()
        elif self._has_eof:
            self.close()

    def _hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        """Copy as much as fits into the reader's buffer: many small writes are one read."""
        buffer: Any = protocol.get_buffer(self._unread_bytes)
        filled = 0
        while self._unread and filled < len(buffer):
            data = self._unread.popleft()
            part = data[: len(buffer) - filled]
            buffer[filled : filled + len(part)] = part
            filled += len(part)
            if len(part) < len(data):
                self._unread.appendleft(data[len(part) :])
        self._unread_bytes -= filled
        protocol.buffer_updated(filled)
        self._other._has_been_read()

    # --- the end ---

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """The other end reads what was written, then hears of the end."""
        if not self._is_closing:
            self._end(None)
            self._other._has_eof = True
            self._other._read_soon()

    def abort(self) -> None:
        """Both ends hear of it; what is unread is gone."""
        if not self._is_closing:
            self._end(None)
            self._other._unread.clear()
            self._other._unread_bytes = 0
            self._other._end(ConnectionResetError("connection reset by the peer"))
        elif self._other._unread:  # it was closed, and what it wrote is not wanted any more
            self._other._unread.clear()
            self._other._unread_bytes = 0

    def _end(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._unread.clear()
            self._unread_bytes = 0
            self._loop.call_soon(self._report_lost, error)

    def _report_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)
        self._other._has_been_read()
