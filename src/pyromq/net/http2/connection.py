"""One HTTP/2 connection of a server: frames in, calls to the handler, responses out within the peer's windows.

Nothing here waits: a read is cut into frames and each acts at once, or ends its stream or the connection. What is
written during one loop iteration leaves together. A peer that does not read is not read from, and what waits for it
is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

from pyromq.clock import Clock
from pyromq.compiled_core import Http2Lane
from pyromq.net.address import Address
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.http2.call import GrpcCall
from pyromq.net.http2.limits import FrameBudget, Http2Limits
from pyromq.net.http2.outgoing import Outgoing
from pyromq.net.idle import IdleWatch
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus, timeout_ms
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2Setting, Http2StreamError, RawFrame
from pyromq.wire.http2.requests import (
    BLOCK_BYTES_MAX,
    HEADER_LIST_BYTES_MAX,
    HeaderDecoder,
    RequestHead,
    check_trailers,
    read_request,
)

logger = logging.getLogger(__name__)

_WRITE_HIGH: Final = 1 << 20
_BETWEEN: Final = (frames.SETTINGS, frames.PING, frames.WINDOW_UPDATE)  # frames that come between calls
_LANE_TRIES: Final = 16  # in one read
_LANE_CALLS: Final = 1_024  # at once
_NO_FIELDS: Final[dict[bytes, bytes]] = {}  # stays empty
_HELP: Final = (
    "This port speaks gRPC: clients of RocketMQ 5 connect to it. Clients of the remoting protocol use the port of the "
    "broker or of the name server.\n"
)
_HTTP_1: Final = (
    f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(_HELP)}\r\nConnection: close\r\n\r\n{_HELP}".encode()
)


class CallMethod(NamedTuple):
    """Answers calls of one path: ``handle`` gets the only message, or each one of a stream."""

    handle: Callable[[GrpcCall, bytes], None]
    is_stream: bool = False


class CallLane(Protocol):
    """Takes calls of one connection before they are cut into frames, with the compiled core."""

    @property
    def tables(self) -> Http2Lane:
        """What knows the header tables, and streams of calls that have no answer yet."""

    def take(self, data: bytes, at: int) -> int:
        """Serve calls from there on, and say where the rest begins: whole calls, or nothing."""


class CallHandler(Protocol):
    """What serves the calls of any number of connections."""

    def lane(self, connection: Http2Connection) -> CallLane | None:
        """What looks at the bytes of a new connection first."""

    def method(self, path: bytes) -> CallMethod | None:
        """What answers calls of this path; None: nothing does."""

    def on_disconnected(self, connection: Http2Connection) -> None:
        """Its calls have been told already."""


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
        self.calls_begun = 0
        self.peer_name = ""  # the common name of the certificate that TLS has verified
        self._handler = handler
        self._clock = clock
        self._watch = watch
        self._half_read = half_read
        self._unread_bytes = 0  # of incomplete messages, and of whole ones whose calls are not
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = frames.Http2FrameDecoder()
        self.lane = handler.lane(self)
        self._tables = self.lane.tables if self.lane is not None else None
        self._headers = HeaderDecoder(self._tables)
        self._preface = bytearray()
        self._has_preface = self._has_settings = False
        self._is_ending = False  # GOAWAY was sent: nothing more is read
        self._streams: dict[int, GrpcCall] = {}
        self._last_id = 0
        self._reset_ids: deque[int] = deque(maxlen=limits.resets_remembered)  # by us; frames may be under way
        self._block: bytearray | None = None  # a header block that is not complete
        self._block_head = (0, 0, 0)  # stream, flags, continuations
        self._window = limits.connection_window  # what the peer may still send
        self._handled = 0  # calls, and messages of streams
        self._later: list[RawFrame] = []  # the rest of a read, for the next turn
        self._out = Outgoing(self._loop, limits.unsent_bytes_max, self._cut_off)
        self._resets = FrameBudget(1_000, 100)
        self._updates = FrameBudget(100_000, 20_000)
        self._pings = FrameBudget(1_000, 100)
        self._settings = FrameBudget(100, 10)
        self._empties = FrameBudget(1_000, 100)  # frames that carry nothing
        self._close_callbacks: list[Callable[[Http2Connection], None]] = []
        self._is_over = False
        self._act = (
            self._on_data,
            self._on_headers,
            self._on_priority,
            self._on_reset,
            self._on_settings,
            self._on_push,
            self._on_ping,
            self._on_goaway,
            self._on_window_update,
            self._on_continuation,
        )

    # --- facts ---

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def calls(self) -> int:
        """How many are under way."""
        return len(self._streams) + (len(self._tables) if self._tables is not None else 0)

    @property
    def unsent_bytes(self) -> int:
        """What waits for the peer to read, or to widen a window."""
        return self._out.pending_bytes

    @property
    def room_bytes(self) -> int:
        """How much may be sent now without coming near the bound at which a peer counts as one that does not read."""
        return self.limits.unsent_bytes_max // 2 - self._out.pending_bytes

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
        for stream_id in self._tables.streams() if self._tables is not None else ():
            self.adopt(stream_id)
        for call in list(self._streams.values()):
            if not call.is_finished:  # its handler has to know: it may still work on it
                on_closed, call.on_closed = call.on_closed, None
                call.finish(GrpcStatus.UNAVAILABLE, reason)
                if on_closed is not None:
                    on_closed()
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
        streams, self._streams = self._streams, {}
        for stream_id in self._tables.streams() if self._tables is not None else ():
            self._tables.close(stream_id)  # type: ignore[union-attr]
        for call in streams.values():
            self._closed(call)
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
        self.write(frames.encode_goaway(self._last_id, code, text))
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
        if not self._has_preface:
            data = self._take_preface(data)
            if not data:
                return
        try:
            if self.lane is not None:
                data = self._left_by_lane(self.lane, self._frames.joined(data))
            self._receive(self._frames.feed(data))
        except Http2Error as error:
            self._fail(error)

    def _left_by_lane(self, lane: CallLane, data: bytes) -> bytes:
        """What the lane does not take; control frames between calls do not end it. Raises Http2Error."""
        at = 0
        for _ in range(_LANE_TRIES):
            if (
                not self._has_settings
                or self._is_ending
                or self._later
                or self._block is not None
                or self._out.is_paused
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
        self._last_id = last_id
        self.calls_begun += count
        self._use_window(data_bytes)

    @property
    def lane_bounds(self) -> tuple[int, int, int]:
        """For the lane: the last stream, what the peer may still send, and how many calls may begin."""
        return self._last_id, self._window, min(self.limits.streams_max - self.calls, _LANE_CALLS)

    def adopt(self, stream_id: int) -> tuple[GrpcCall, bytes] | None:
        """A call that the lane took and nobody answered, from now on like any other; with the id of its message."""
        message_id = self._tables.close(stream_id) if self._tables is not None else None
        if message_id is None:
            return None
        call = GrpcCall(self, stream_id, _NO_FIELDS, None, self._out.initial_window)
        call.is_remote_done = True
        self._streams[stream_id] = call
        return call, message_id

    def answer_taken(self, data: bytes) -> bool:
        """Answer what the lane took, by responses of the remoting protocol; False: each has to be sent by itself."""
        out = self._out
        if self._tables is None or out.is_paused:
            return False
        found = self._tables.responses(data, out.window, out.initial_window)
        if found is None:
            return False
        responses, data_bytes, count = found
        out.window -= data_bytes
        out.write_now(responses)
        self._resets.earn(count)
        self._updates.earn(count)
        return True

    def _take_preface(self, data: bytes) -> bytes:
        """What follows it; empty while it is not complete, or is none."""
        self._preface += data
        begun = bytes(self._preface[: len(frames.PREFACE)])
        if not frames.PREFACE.startswith(begun):
            self.close_reason = "it does not begin as HTTP/2 does"
            self._is_ending = True
            if self._transport is not None:
                self._transport.write(_HTTP_1 if begun[:4] in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI") else b"")
                self._transport.close()
            return b""
        if len(begun) < len(frames.PREFACE):
            return b""
        self._has_preface = True
        rest = bytes(self._preface[len(frames.PREFACE) :])
        self._preface.clear()
        return rest

    def _receive(self, found: list[RawFrame]) -> None:
        """Handle frames; after some calls the rest waits for the next loop iteration. Raises Http2Error."""
        if self._later:
            self._later += found
            return
        limit = self._handled + self.limits.calls_per_turn
        for index, (kind, flags, stream_id, payload) in enumerate(found):
            if self._block is not None and kind != frames.CONTINUATION:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "a header block is interrupted")
            if not self._has_settings and kind != frames.SETTINGS:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            if kind > frames.CONTINUATION:
                self._spend(self._empties, "frames of unknown types")
                continue
            try:
                self._act[kind](stream_id, flags, payload)
            except Http2StreamError as error:
                self._reset(stream_id, error.code)
                self._spend(self._resets, f"streams that had to be reset, the last because: {error}")
            if self._is_ending:
                return
            if self._handled >= limit and index + 1 < len(found):
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

    def _pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self.is_open and not self._later and not self._out.is_paused and self._transport is not None:
            self._transport.resume_reading()

    def _note_half_read(self) -> None:
        held = self._unread_bytes + self._frames.half_read_bytes
        if held != self.half_read_bytes:
            self._half_read.note(self, held)

    def _spend(self, budget: FrameBudget, what: str) -> None:
        if not budget.spend(self._clock.monotonic_ms()):
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, f"too many {what}")

    # --- frames: requests ---

    def _on_headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"clients do not open stream {stream_id}")
        fragment = frames.header_fragment(payload, flags, stream_id)
        if flags & frames.END_HEADERS:
            self._on_block(stream_id, flags, fragment)
        else:
            self._block, self._block_head = bytearray(fragment), (stream_id, flags, 0)

    def _on_continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        block, (owner, first_flags, count) = self._block, self._block_head
        if block is None or stream_id != owner:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "CONTINUATION continues nothing")
        block += payload
        if count >= self.limits.continuations_max or len(block) > BLOCK_BYTES_MAX:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, "a header block is too long")
        self._block_head = (owner, first_flags, count + 1)
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(owner, first_flags, bytes(block))

    def _on_block(self, stream_id: int, flags: int, block: bytes) -> None:
        pairs = self._headers.decode(block)
        if self._tables:
            self.adopt(stream_id)
        call = self._streams.get(stream_id)
        if call is not None:
            self._on_trailers(call, flags, pairs)
        elif stream_id > self._last_id:
            self._last_id = stream_id
            too_much = self._unread_bytes + self._headers.list_bytes > self.limits.half_read_bytes_max
            if too_much or self.calls >= self.limits.streams_max:
                self._reset(stream_id, Http2Code.REFUSED_STREAM)
                self._spend(self._resets, "streams beyond the limit")
                return
            self._begin(stream_id, read_request(pairs), ended=bool(flags & frames.END_STREAM))
        elif stream_id not in self._reset_ids:
            raise Http2Error(Http2Code.STREAM_CLOSED, f"HEADERS on stream {stream_id}, which is closed")

    def _on_trailers(self, call: GrpcCall, flags: int, pairs: list[tuple[bytes, bytes]]) -> None:
        if call.is_remote_done:
            raise Http2StreamError(Http2Code.STREAM_CLOSED, "HEADERS behind the end of a stream")
        if not flags & frames.END_STREAM:
            raise Http2StreamError(Http2Code.PROTOCOL_ERROR, "trailers do not end their stream")
        check_trailers(pairs)
        self._request_ended(call)

    def _begin(self, stream_id: int, head: RequestHead, *, ended: bool) -> None:
        method = self._handler.method(head.path)
        call = GrpcCall(self, stream_id, head.fields, method, self._out.initial_window)
        call.expected_bytes = head.content_length
        call.header_bytes = self._headers.list_bytes
        self._unread_bytes += call.header_bytes
        self._streams[stream_id] = call
        self.calls_begun += 1
        self._handled += 1
        if not head.fields.get(b"content-type", b"").startswith(b"application/grpc"):
            call.plain_status = 415 if head.method == b"POST" else 200
            if ended:
                self._request_ended(call)
            return
        waits_ms = timeout_ms(head.fields.get(b"grpc-timeout"))
        if waits_ms is not None:
            call.deadline_ms = self._clock.monotonic_ms() + waits_ms
        if method is None:
            call.is_remote_done = ended
            text = f"there is no {head.path[:200].decode(errors='replace')} here"
            call.finish(GrpcStatus.UNIMPLEMENTED, text)
        elif ended:
            self._request_ended(call)

    def _on_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._use_window(size)
        call = self._streams.get(stream_id)
        if call is None:
            if stream_id > self._last_id or not stream_id & 1:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, f"DATA on stream {stream_id}, which is idle")
            if stream_id not in self._reset_ids:
                raise Http2StreamError(Http2Code.STREAM_CLOSED, "DATA on a stream that is closed")
            return
        if call.is_remote_done:
            raise Http2StreamError(Http2Code.STREAM_CLOSED, "DATA behind the end of a stream")
        call.receive_window -= size
        if call.receive_window < 0:
            raise Http2StreamError(Http2Code.FLOW_CONTROL_ERROR, "more DATA than the window of the stream allows")
        data = frames.unpadded(payload, flags)
        if not data and not flags & frames.END_STREAM:
            self._spend(self._empties, "frames without DATA")
        call.received_bytes += len(data)
        if data and not call.is_finished and not call.plain_status:
            self._take(call, data)
        if flags & frames.END_STREAM:
            self._request_ended(call)
        elif call.receive_window < self.limits.stream_window // 2 and call.is_open:
            self.write(frames.encode_window_update(stream_id, self.limits.stream_window - call.receive_window))
            call.receive_window = self.limits.stream_window

    def _use_window(self, size: int) -> None:
        self._window -= size
        if self._window < 0:
            raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "more DATA than the window of the connection allows")
        if self._window < self.limits.connection_window // 2:
            self.write(frames.encode_window_update(0, self.limits.connection_window - self._window))
            self._window = self.limits.connection_window

    def _take(self, call: GrpcCall, data: bytes) -> None:
        """Take DATA of a call. Header lists are counted with it, and refused by themselves."""
        try:
            for message in self._cut(call, data):
                if not call.is_open or call.is_finished or call.method is None:
                    return
                call.messages_in += 1
                if call.method.is_stream:
                    self._handled += 1
                    self._handle(call, message)
                elif call.messages_in == 1:
                    call.whole_message = message
                    self._unread_bytes += len(message)
                else:
                    raise GrpcError(GrpcStatus.INTERNAL, "one message was expected, there are more")
            if self._unread_bytes > self.limits.half_read_bytes_max:
                text = "too much of messages that are not complete, or of calls that are not, on this connection"
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text)
        except GrpcError as error:
            self._drop_unread(call)
            call.finish(error.status, str(error))

    def _cut(self, call: GrpcCall, data: bytes) -> list[bytes]:
        """Messages that are complete by now; what is kept of others is counted. Raises GrpcError."""
        before = len(call.cutter.buffer)
        try:
            return call.cutter.feed(data)
        finally:
            self._unread_bytes += len(call.cutter.buffer) - before

    def _drop_unread(self, call: GrpcCall) -> None:
        self._unread_bytes -= len(call.cutter.buffer) + len(call.whole_message) + call.header_bytes
        call.header_bytes = 0
        call.cutter.buffer.clear()
        call.whole_message = b""

    def _request_ended(self, call: GrpcCall) -> None:
        if call.expected_bytes is not None and call.expected_bytes != call.received_bytes:
            raise Http2StreamError(Http2Code.PROTOCOL_ERROR, "content-length is not the length of the content")
        call.is_remote_done = True
        if call.is_finished:
            if call.trailers is None and not call.pending:
                self._forget(call)
            return
        if call.plain_status:
            call.answer_plainly(call.plain_status, _HELP)
        elif call.cutter.buffer:
            self._drop_unread(call)
            call.finish(GrpcStatus.INTERNAL, "the last message is cut")
        elif call.method is not None and call.method.is_stream:
            if call.on_half_closed is not None:
                call.on_half_closed()
            else:
                call.finish()
        elif call.messages_in != 1:
            call.finish(GrpcStatus.INTERNAL, "one message was expected, there is none")
        else:
            message = call.whole_message
            self._drop_unread(call)
            self._handle(call, message)
            call.fields = _NO_FIELDS

    def _handle(self, call: GrpcCall, message: bytes) -> None:
        assert call.method is not None
        try:
            call.method.handle(call, message)
        except GrpcError as error:
            call.finish(error.status, str(error))
        except Exception as error:  # a defect of the handler ends its call and nothing else
            logger.exception("call failed: peer=%s", self.remote_text)
            call.finish(GrpcStatus.INTERNAL, f"the server failed on this call: {type(error).__name__}")

    # --- frames: control ---

    def _on_priority(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PRIORITY without stream")
        self._spend(self._empties, "PRIORITY frames")
        frames.check_priority(payload, stream_id)

    def _on_reset(self, stream_id: int, flags: int, payload: bytes) -> None:
        frames.read_word(payload, "RST_STREAM")
        if stream_id > self._last_id or not stream_id & 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"RST_STREAM of stream {stream_id}, which is idle")
        self._spend(self._resets, "RST_STREAM frames")
        if self._tables:
            self._tables.close(stream_id)
        call = self._streams.pop(stream_id, None)
        if call is not None:
            self._drop_unread(call)
            self._closed(call)

    def _on_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & frames.ACK:
            if payload:
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has bytes")
            return
        self._spend(self._settings, "SETTINGS frames")
        self._has_settings = True
        for name, value in frames.read_settings(payload):
            if name == Http2Setting.INITIAL_WINDOW_SIZE:
                self._out.change_initial_window(value, self._streams.values())
        self.write(frames.SETTINGS_ACK)
        self._pump()

    def _on_push(self, stream_id: int, flags: int, payload: bytes) -> None:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "clients do not push")

    def _on_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "PING has eight bytes")
        if not flags & frames.ACK:
            self._spend(self._pings, "PING frames")
            self.write(frames.encode_frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "GOAWAY is cut")

    def _on_window_update(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = frames.read_word(payload, "WINDOW_UPDATE") & frames.WINDOW_MAX
        call = self._streams.get(stream_id) if stream_id else None
        if stream_id and (stream_id > self._last_id or not stream_id & 1):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"WINDOW_UPDATE of stream {stream_id}, which is idle")
        if not size:
            kind = Http2StreamError if stream_id else Http2Error
            raise kind(Http2Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self._spend(self._updates, "WINDOW_UPDATE frames")
        if not stream_id:
            self._out.widen(size)
        elif call is not None:
            if call.send_window + size > frames.WINDOW_MAX:
                raise Http2StreamError(Http2Code.FLOW_CONTROL_ERROR, "the window of a stream is too large")
            call.send_window += size
        else:
            return
        self._pump()

    # --- writing ---

    def write(self, data: bytes) -> None:
        """Leaves at the end of this loop iteration."""
        self._out.write(data)

    def respond_at_once(self, call: GrpcCall, head: bytes, data: bytes, trailers: bytes) -> bool:
        """A whole response in one piece, if windows allow it."""
        if not self._out.write_response(call, head, data, trailers):
            return False
        call.is_finished = True
        self._finished(call)
        return True

    def send_data(self, call: GrpcCall, data: bytes) -> None:
        self._out.send(call, data)

    def end_call(self, call: GrpcCall, trailers: bytes) -> None:
        """Behind what waits. Empty trailers: DATA ends the stream."""
        call.trailers = trailers
        if not call.pending:
            self._out.write_trailers(call)
            self._finished(call)

    def _pump(self) -> None:
        for call in self._out.pump():
            self._finished(call)

    def _finished(self, call: GrpcCall) -> None:
        """Everything of it has left."""
        call.trailers = None
        self._resets.earn()
        self._updates.earn()
        if not call.is_remote_done:
            if call.stream_id in self._streams:
                self._reset(call.stream_id, Http2Code.NO_ERROR)
            return
        self._forget(call)

    def _forget(self, call: GrpcCall) -> None:
        self._streams.pop(call.stream_id, None)
        if call.header_bytes:
            self._drop_unread(call)
        call.is_open = False
        call.on_closed = call.on_half_closed = None

    def _reset(self, stream_id: int, code: Http2Code) -> None:
        if not stream_id:
            raise Http2Error(code, "an error of no stream")
        self._reset_ids.append(stream_id)
        self.write(frames.encode_reset(stream_id, code))
        if self._tables:
            self._tables.close(stream_id)
        call = self._streams.pop(stream_id, None)
        if call is not None:
            self._drop_unread(call)
            if call.is_finished and code is Http2Code.NO_ERROR:
                self._forget(call)
            else:
                self._closed(call)

    def _closed(self, call: GrpcCall) -> None:
        self._out.forget(call)
        try:
            call.closed()
        except Exception:  # a defect of the handler
            logger.exception("end of a call not handled: peer=%s", self.remote_text)

    def pause_writing(self) -> None:
        self._out.is_paused = True
        self._pause()

    def resume_writing(self) -> None:
        self._out.is_paused = False
        self._resume()
        self._pump()
