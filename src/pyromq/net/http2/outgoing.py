"""What leaves a connection: frames of this turn in one write, DATA within the windows of stream and connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyromq.net.http2.turns import ByteTurns
from pyromq.wire.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HEADERS,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Http2Code,
    Http2Error,
    frame_head,
)

if TYPE_CHECKING:
    from pyromq.net.http2.call import GrpcCall
    from pyromq.net.http2.limits import Http2Limits

_LAST: Final = END_HEADERS | END_STREAM


class Outgoing:
    """The sending side of one connection. ``go_on`` sends DATA for which the turn before had no room."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Http2Limits,
        cut_off: Callable[[str], None],
        go_on: Callable[[], None],
    ) -> None:
        self.turns = ByteTurns(loop, limits.bytes_per_turn, self._turn_ended)
        self.transport: asyncio.Transport | None = None
        self.initial_window = WINDOW_DEFAULT
        self.is_paused = False  # the peer does not read
        self.bytes_out = 0
        self.pending_bytes = 0  # that wait for a window, or for the peer to read
        self._loop = loop
        self._unsent_bytes_max = limits.unsent_bytes_max
        self._cut_off = cut_off
        self._go_on = go_on
        self._is_cut_short = False  # this turn had no room for something that windows allow
        self.window = WINDOW_DEFAULT  # of the connection
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._waiting: dict[GrpcCall, None] = {}  # those with something that waits, in turns
        self._moved = (0, 0)  # bytes in and out as of the last look
        self._moved_ms = 0
        self._data_out = self._data_seen = 0  # bytes of DATA that had to wait and have left; as of the last look
        self._data_ms = 0

    @property
    def unsent_bytes(self) -> int:
        """What waits: for a window, for the end of this loop iteration, or for the peer to read."""
        in_transport = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return self.pending_bytes + self._queued_bytes + in_transport

    # --- frames ---

    def write(self, data: bytes) -> None:
        if not self._queue:
            self.turns.open()
        self._queue.append(data)
        self._queued_bytes += len(data)

    def _turn_ended(self) -> None:
        self.flush()
        if self._is_cut_short:
            self._is_cut_short = False
            self._go_on()

    def flush(self) -> None:
        queue, transport = self._queue, self.transport
        if not queue:
            return
        self._queue, self._queued_bytes = [], 0
        if transport is None or transport.is_closing():
            return
        data = b"".join(queue)
        self.bytes_out += len(data)
        transport.write(data)

    def write_now(self, data: bytes) -> None:
        """Behind what waits for the end of this loop iteration, with all of it."""
        self._queue.append(data)
        self.flush()

    # --- responses ---

    def write_response(self, call: GrpcCall, head: bytes, data: bytes, trailers: bytes) -> bool:
        """All of it at once, when windows and this turn have room for it."""
        size, turns = len(data), self.turns
        if size > self.window or size > call.send_window or self.is_paused:
            return False
        if size > turns.left:
            return False
        turns.left -= size
        turns.given += size
        self.window -= size
        call.send_window -= size
        number = call.stream_id
        self.write(
            b"".join(
                (
                    frame_head(HEADERS, END_HEADERS, number, len(head)),
                    head,
                    *_data_frames(number, data),
                    frame_head(HEADERS, _LAST, number, len(trailers)),
                    trailers,
                )
            )
        )
        return True

    @property
    def room_of_new(self) -> int:
        """How many bytes of DATA of a new stream windows and this turn have room for."""
        return 0 if self.is_paused else max(0, min(self.window, self.initial_window, self.turns.left))

    def write_frames(self, frames: bytes, data_bytes: int) -> None:
        """A whole response of a new stream, within ``room_of_new``."""
        self.turns.left -= data_bytes
        self.turns.given += data_bytes
        self.window -= data_bytes
        self.write(frames)

    def send(self, call: GrpcCall, data: bytes) -> None:
        """DATA, now or when there is room."""
        call.pending.append(memoryview(data))
        self.pending_bytes += len(data)
        self.turns.give(len(data))
        if call not in self._waiting:
            self._send_some(call)
            if call.pending:
                self._waiting[call] = None
        if self.pending_bytes > self._unsent_bytes_max:
            text = f"{self.pending_bytes} bytes wait for the peer, at most {self._unsent_bytes_max} are allowed"
            self._loop.call_soon(self._cut_off, text)

    def _send_some(self, call: GrpcCall) -> None:
        pending, turns = call.pending, self.turns
        while pending and not self.is_paused:
            data = pending[0]
            size = min(len(data), self.window, call.send_window, FRAME_BYTES_MAX)
            if size <= 0 and len(data):
                return
            if turns.left <= 0:
                self._is_cut_short = True
                return
            size = min(size, turns.left)
            turns.left -= size
            self.window -= size
            call.send_window -= size
            self.pending_bytes -= size
            self._data_out += size
            self.write(frame_head(DATA, 0, call.stream_id, size) + data[:size])
            if size == len(data):
                pending.popleft()
            else:
                pending[0] = data[size:]

    def write_trailers(self, call: GrpcCall) -> None:
        trailers = call.trailers or b""
        if trailers:
            self.write(frame_head(HEADERS, _LAST, call.stream_id, len(trailers)) + trailers)
        else:
            self.write(frame_head(DATA, END_STREAM, call.stream_id, 0))

    def pump(self) -> list[GrpcCall]:
        """Send what has room now; the calls of which everything has left."""
        finished: list[GrpcCall] = []
        for call in list(self._waiting):
            if self.is_paused or self.window <= 0 or self._is_cut_short:
                break
            self._send_some(call)
            if not call.pending:
                del self._waiting[call]
                if call.trailers is not None:
                    self.write_trailers(call)
                    finished.append(call)
        return finished

    def lift_turns(self) -> None:
        """Let everything go that windows allow: the connection is about to close."""
        self.turns.left = 1 << 62
        self._is_cut_short = False

    def forget(self, call: GrpcCall) -> None:
        """Its client does not want the rest; the call still knows how much that is."""
        self._waiting.pop(call, None)
        self.pending_bytes -= sum(map(len, call.pending))

    # --- windows ---

    def widen(self, size: int) -> None:
        """Widen the peer's flow-control window. Raises Http2Error."""
        self.window += size
        if self.window > WINDOW_MAX:
            raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "the window of the connection is too large")

    def change_initial_window(self, size: int, calls: Iterable[GrpcCall]) -> None:
        """Windows of all streams move by the difference, perhaps below zero. Raises Http2Error."""
        change, self.initial_window = size - self.initial_window, size
        for call in calls:
            call.send_window += change
            if call.send_window > WINDOW_MAX:
                raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "the window of a stream is too large")

    # --- silence ---

    def seen(self, now_ms: int) -> None:
        self._moved_ms = self._data_ms = now_ms

    def quiet_ms(self, now_ms: int, bytes_in: int) -> int:
        left = self.bytes_out - (self.transport.get_write_buffer_size() if self.transport else 0)
        if (bytes_in, left) != self._moved:
            self._moved, self._moved_ms = (bytes_in, left), now_ms
        if self._data_out != self._data_seen or not self.pending_bytes:
            self._data_seen, self._data_ms = self._data_out, now_ms
        return now_ms - min(self._moved_ms, self._data_ms)


def _data_frames(stream_id: int, data: bytes) -> Iterator[bytes | memoryview]:
    """DATA in frames that a peer takes by default: where messages begin and end does not matter."""
    if len(data) <= FRAME_BYTES_MAX:
        yield frame_head(DATA, 0, stream_id, len(data))
        yield data
        return
    view = memoryview(data)
    for at in range(0, len(data), FRAME_BYTES_MAX):
        part = view[at : at + FRAME_BYTES_MAX]
        yield frame_head(DATA, 0, stream_id, len(part))
        yield part
