"""One HTTP/2 connection of a server: frames in, calls to the handler, responses out within the peer's windows.

    bytes ─▶ preface ─▶ lane ─▶ frames ─┬─▶ IncomingRequests ─▶ CallMethod ─▶ GrpcCall ─▶ Outgoing ─▶ bytes
                                        └─▶ ControlFrames        CallStreams: what is open

Nothing here waits: a read is cut into frames and each acts at once, or ends its stream or the connection. What is
written during one loop iteration leaves together. A peer that does not read is not read from, and what waits for it
is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from pyromq.clock import Clock
from pyromq.net.address import Address
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.http2.budgets import AttackBudgets
from pyromq.net.http2.call import NO_FIELDS, GrpcCall
from pyromq.net.http2.control import ControlFrames
from pyromq.net.http2.handler import CallHandler, CallLane, CallMethod
from pyromq.net.http2.limits import Http2Limits
from pyromq.net.http2.outgoing import Outgoing
from pyromq.net.http2.preface import Preface
from pyromq.net.http2.receive_window import ReceiveWindow
from pyromq.net.http2.requests import IncomingRequests
from pyromq.net.http2.streams import CallStreams
from pyromq.net.idle import IdleWatch
from pyromq.wire.grpc.framing import GrpcStatus
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2Setting, Http2StreamError, RawFrame
from pyromq.wire.http2.requests import HEADER_LIST_BYTES_MAX

logger = logging.getLogger(__name__)

_WRITE_HIGH: Final = 1 << 20
_BETWEEN: Final = (frames.SETTINGS, frames.PING, frames.WINDOW_UPDATE)  # frames that come between calls
_LANE_TRIES: Final = 16  # in one read
_LANE_CALLS: Final = 1_024  # at once


class Http2Connection(asyncio.Protocol):
    """Made by ``Http2Server``."""

    def __init__(
        self,
        handler: CallHandler,
        clock: Clock,
        limits: Http2Limits,
        watch: IdleWatch[Http2Connection],
        remote: Address,
        half_read: HalfReadFrames,
    ) -> None:
        self.remote = remote
        self.remote_text = str(remote)
        self.limits = limits
        self.bytes_in = 0
        self.half_read_bytes = 0  # as ``half_read`` has counted them
        self.close_reason = ""
        self.peer_name = ""  # the common name of the certificate that TLS has verified
        self._handler = handler
        self._clock = clock
        self._watch = watch
        self._half_read = half_read
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._preface = Preface()
        self._frames = frames.Http2FrameDecoder()
        self._is_ending = False  # GOAWAY was sent: nothing more is read
        self._is_over = False
        self._close_callbacks: list[Callable[[Http2Connection], None]] = []
        self._later: list[RawFrame] = []  # the rest of a read, for the next turn
        self._out = Outgoing(self._loop, limits, self._cut_off, self._send_more)
        self.turns = self._out.turns
        self._budgets = AttackBudgets(clock)
        self._window = ReceiveWindow(self._out, limits)
        self.lane = handler.lane(self)
        self._tables = tables = self.lane.tables if self.lane is not None else None
        self._streams = CallStreams(self._out, self._budgets, tables, self.remote_text, limits.resets_remembered)
        self._control = control = ControlFrames(self._streams, self._out, self._budgets)
        self._requests = requests = IncomingRequests(
            self, handler, clock, self._streams, self._window, self._budgets, tables
        )
        self._act = (
            requests.on_data,
            requests.on_headers,
            control.on_priority,
            control.on_reset,
            control.on_settings,
            control.on_push,
            control.on_ping,
            control.on_goaway,
            control.on_window_update,
            requests.on_continuation,
        )

    # --- facts ---

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def calls(self) -> int:
        """How many are under way."""
        return len(self._streams)

    @property
    def calls_begun(self) -> int:
        """How many there were, with those that are under way."""
        return self._requests.begun

    @property
    def unsent_bytes(self) -> int:
        """What has been answered and has not left."""
        return self._out.unsent_bytes

    @property
    def room_bytes(self) -> int:
        """How much may be sent now without coming near the bound at which a peer counts as one that does not read."""
        return self.limits.unsent_bytes_max // 2 - self._out.unsent_bytes

    def quiet_ms(self, now_ms: int) -> int:
        """How long nothing came and nothing left, or what waits for a window has not moved."""
        return self._out.quiet_ms(now_ms, self.bytes_in)

    # --- life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._out.transport = stream = cast(asyncio.Transport, transport)  # uvloop's is none by name
        stream.set_write_buffer_limits(high=_WRITE_HIGH)
        found = transport.get_extra_info("peercert") or {}
        subject = dict(pair for part in found.get("subject", ()) for pair in part)
        self.peer_name = str(subject.get("commonName", ""))
        self._out.seen(self._clock.monotonic_ms())
        self._watch.add(self)
        limits = self.limits
        self.write(
            frames.encode_settings(
                (
                    (Http2Setting.MAX_CONCURRENT_STREAMS, limits.streams_max),
                    (Http2Setting.INITIAL_WINDOW_SIZE, limits.stream_window),
                    (Http2Setting.MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES_MAX),
                )
            )
            + frames.encode_window_update(0, limits.connection_window - frames.WINDOW_DEFAULT)
        )

    def call_when_closed(self, callback: Callable[[Http2Connection], None]) -> None:
        self._close_callbacks.append(callback)

    async def wait_closed(self) -> None:
        if not self._is_over:
            over = asyncio.Event()
            self.call_when_closed(lambda _: over.set())
            await over.wait()

    def close(self, reason: str) -> None:
        """End all calls, say goodbye, and close when everything has left."""
        if self._is_ending or self._transport is None:
            return
        self.close_reason = self.close_reason or reason
        for stream_id in self._streams.taken_ids():
            self.adopt(stream_id)
        for call in list(self._streams.calls.values()):
            if not call.is_finished:  # its handler has to know: it may still work on it
                on_closed, call.on_closed = call.on_closed, None
                call.finish(GrpcStatus.UNAVAILABLE, reason)
                if on_closed is not None:
                    on_closed()
        self._out.lift_turns()
        self._streams.pump()
        self._end(Http2Code.NO_ERROR, reason)

    def abort(self, reason: str) -> None:
        self.close_reason = self.close_reason or reason
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close_reason = self.close_reason or (f"{exc}" if exc else "closed by the peer")
        self._transport = self._out.transport = None
        self._is_over = self._is_ending = True
        self._later.clear()
        self.forget_half_read()
        self._streams.lose_all()
        self._handler.on_disconnected(self)
        for callback in self._close_callbacks:
            callback(self)
        self._close_callbacks.clear()

    def forget_half_read(self) -> None:
        if self.half_read_bytes:
            self._half_read.note(self, 0)

    def _end(self, code: Http2Code, text: str) -> None:
        self._is_ending = True
        self._later.clear()
        self.write(frames.encode_goaway(self._streams.last_id, code, text))
        self._out.flush()
        if self._transport is not None:
            self._transport.close()

    def _cut_off(self, reason: str) -> None:
        logger.warning("connection cut, peer does not read: peer=%s reason=%s", self.remote_text, reason)
        self.abort(reason)

    def _fail(self, error: Http2Error) -> None:
        logger.info("connection ends: peer=%s code=%s reason=%s", self.remote_text, error.code.name, error)
        self.close_reason = self.close_reason or str(error)
        self._end(error.code, str(error))

    # --- reading ---

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        if self._is_ending:
            return
        if not self._preface.is_complete:
            rest = self._preface.feed(data)
            if rest is None:
                self._refuse_protocol()
            if not rest:
                return
            data = rest
        try:
            if self.lane is not None:
                data = self._left_by_lane(self.lane, self._frames.joined(data))
            if data:
                self._receive(self._frames.feed(data))
            else:
                self._note_half_read()
        except Http2Error as error:
            self._fail(error)
        self._handler.on_read()

    def _left_by_lane(self, lane: CallLane, data: bytes) -> bytes:
        """What the lane does not take; control frames between calls do not end it. Raises Http2Error."""
        at = 0
        for _ in range(_LANE_TRIES):
            if (
                not self._control.has_settings
                or self._is_ending
                or self._later
                or self._requests.block is not None
                or self._out.is_paused
                or self._out.initial_window < frames.WINDOW_DEFAULT  # responses may wait for windows of streams
            ):
                break
            at = lane.take(data, at)
            end = at + frames.HEAD_BYTES
            if end > len(data) or data[at + 3] not in _BETWEEN:
                break
            end += int.from_bytes(data[at : at + 3], "big")
            if end > len(data):
                break
            self._receive(self._frames.feed(data[at:end]))
            at = end
        return data[at:] if at else data

    def taken(self, count: int, last_id: int, data_bytes: int) -> None:
        """The lane has taken so many calls, of so many bytes of DATA, the last with this stream."""
        self._streams.last_id = last_id
        self._requests.begun += count
        self._window.use(data_bytes)

    @property
    def lane_bounds(self) -> tuple[int, int, int]:
        """For the lane: the last stream, what the peer may still send, and how many calls may begin."""
        return self._streams.last_id, self._window.left, min(self.limits.streams_max - self.calls, _LANE_CALLS)

    def serve_taken(self, method: CallMethod, stream_id: int, timeout: bytes, message: bytes) -> None:
        """Serve a call that the lane took, and that is Python's from now on."""
        self._requests.serve_taken(method, stream_id, timeout, message)

    @property
    def taken_room(self) -> int:
        """How many bytes of DATA a response to a call that the lane took may have, to leave at once."""
        return self._out.room_of_new

    def answer_received(self, response: bytes, data_bytes: int) -> None:
        """Answer a call that the lane took by a whole response, for which there is room."""
        self._out.write_frames(response, data_bytes)
        self._budgets.finished()

    def adopt(self, stream_id: int) -> tuple[GrpcCall, bytes] | None:
        """A call that the lane took and nobody answered, from now on like any other.

        With what the lane kept of it: the id of the message that was sent, or the request to acknowledge.
        """
        kept = self._streams.leave_lane(stream_id)
        if kept is None:
            return None
        call = self.new_call(stream_id, NO_FIELDS, None)
        call.is_remote_done = True
        return call, kept

    def answer_taken(self, data: bytes) -> bool:
        """Answer what the lane took, by responses of the remoting protocol; False: each has to be sent by itself."""
        out = self._out
        if self._tables is None or out.is_paused:
            return False
        return self._write_taken(self._tables.responses(data, out.window, out.initial_window))

    def answer_acks(self, streams: list[int]) -> bool:
        """Answer acknowledgements that the lane took, all of which are safe; False: each has to be sent by itself."""
        out = self._out
        if self._tables is None or out.is_paused:
            return False
        return self._write_taken(self._tables.ack_responses(streams, out.window, out.initial_window))

    def _write_taken(self, found: tuple[bytes, int, int] | None) -> bool:
        if found is None:
            return False
        out, (responses, data_bytes, count) = self._out, found
        out.window -= data_bytes
        out.write_now(responses)
        self._budgets.finished(count)
        return True

    def _refuse_protocol(self) -> None:
        self.close_reason = "it does not begin as HTTP/2 does"
        self._is_ending = True
        if self._transport is not None:
            self._transport.write(self._preface.refusal)
            self._transport.close()

    def _receive(self, found: list[RawFrame]) -> None:
        """Handle frames until this turn has had its calls or bytes; the rest waits for the next. Raises Http2Error."""
        if self._later:
            self._later += found
            return
        requests, budgets = self._requests, self._budgets
        limit = requests.handled + self.limits.calls_per_turn
        for index, (kind, flags, stream_id, payload) in enumerate(found):
            if requests.block is not None and kind != frames.CONTINUATION:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "a header block is interrupted")
            if not self._control.has_settings and kind != frames.SETTINGS:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            if kind > frames.CONTINUATION:
                budgets.spend(budgets.empties, "frames of unknown types")
                continue
            try:
                self._act[kind](stream_id, flags, payload)
            except Http2StreamError as error:
                self._streams.reset(stream_id, error.code)
                budgets.spend(budgets.resets, f"streams that had to be reset, the last because: {error}")
            if self._is_ending:
                return
            if (requests.handled >= limit or self.turns.is_spent) and index + 1 < len(found):
                self._later = found[index + 1 :]
                self._pause()
                self._loop.call_soon(self._go_on)
                return
        self._note_half_read()

    def _go_on(self) -> None:
        later, self._later = self._later, []
        if self._is_ending or not later:
            return
        try:
            self._receive(later)
        except Http2Error as error:
            self._fail(error)
        if not self._later:
            self._resume()
        self._handler.on_read()

    def _pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self.is_open and not self._later and not self._out.is_paused and self._transport is not None:
            self._transport.resume_reading()

    def _note_half_read(self) -> None:
        held = self._streams.unread_bytes + self._frames.half_read_bytes
        if held != self.half_read_bytes:
            self._half_read.note(self, held)

    # --- writing ---

    def new_call(self, stream_id: int, fields: dict[bytes, bytes], method: CallMethod | None) -> GrpcCall:
        """A call that is open from now on."""
        call = self._streams.calls[stream_id] = GrpcCall(self, stream_id, fields, method, self._out.initial_window)
        return call

    def write(self, data: bytes) -> None:
        """Leaves at the end of this loop iteration."""
        self._out.write(data)

    def respond_at_once(self, call: GrpcCall, head: bytes, data: bytes, trailers: bytes) -> bool:
        """A whole response in one piece, if windows allow it."""
        if not self._out.write_response(call, head, data, trailers):
            return False
        call.is_finished = True
        self._streams.finished(call)
        return True

    def send_data(self, call: GrpcCall, data: bytes) -> None:
        self._out.send(call, data)

    def end_call(self, call: GrpcCall, trailers: bytes) -> None:
        """Behind what waits. Empty trailers: DATA ends the stream."""
        call.trailers = trailers
        if not call.pending:
            self._out.write_trailers(call)
            self._streams.finished(call)

    def _send_more(self) -> None:
        self._streams.pump()

    def pause_writing(self) -> None:
        self._out.is_paused = True
        self._pause()

    def resume_writing(self) -> None:
        self._out.is_paused = False
        self._resume()
        self._streams.pump()
