"""Requests: header blocks and DATA of streams, put together to messages for the handlers of calls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyromq.clock import Clock
from pyromq.compiled_core import Http2Lane
from pyromq.net.http2.budgets import AttackBudgets
from pyromq.net.http2.call import NO_FIELDS, GrpcCall
from pyromq.net.http2.handler import CallHandler, CallMethod
from pyromq.net.http2.preface import HELP
from pyromq.net.http2.receive_window import ReceiveWindow
from pyromq.net.http2.streams import CallStreams
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus, timeout_ms
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2StreamError
from pyromq.wire.http2.requests import BLOCK_BYTES_MAX, HeaderDecoder, RequestHead, check_trailers, read_request

if TYPE_CHECKING:
    from pyromq.net.http2.connection import Http2Connection

logger = logging.getLogger(__name__)


class IncomingRequests:
    """Acts on frames of requests of one connection; these methods raise Http2Error or Http2StreamError."""

    def __init__(
        self,
        connection: Http2Connection,
        handler: CallHandler,
        clock: Clock,
        streams: CallStreams,
        window: ReceiveWindow,
        budgets: AttackBudgets,
        tables: Http2Lane | None,
    ) -> None:
        self.begun = 0  # calls
        self.handled = 0  # calls, and messages of streams
        self.block: bytearray | None = None  # a header block that is not complete
        self._block_head = (0, 0, 0)  # stream, flags, continuations
        self._connection = connection
        self._limits = connection.limits
        self._handler = handler
        self._clock = clock
        self._streams = streams
        self._window = window
        self._budgets = budgets
        self._tables = tables
        self._headers = HeaderDecoder(tables)

    # --- header blocks ---

    def on_headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"clients do not open stream {stream_id}")
        fragment = frames.header_fragment(payload, flags, stream_id)
        if flags & frames.END_HEADERS:
            self._on_block(stream_id, flags, fragment)
        else:
            self.block, self._block_head = bytearray(fragment), (stream_id, flags, 0)

    def on_continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        block, (owner, first_flags, count) = self.block, self._block_head
        if block is None or stream_id != owner:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "CONTINUATION continues nothing")
        block += payload
        if count >= self._limits.continuations_max or len(block) > BLOCK_BYTES_MAX:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, "a header block is too long")
        self._block_head = (owner, first_flags, count + 1)
        if flags & frames.END_HEADERS:
            self.block = None
            self._on_block(owner, first_flags, bytes(block))

    def _on_block(self, stream_id: int, flags: int, block: bytes) -> None:
        pairs, streams = self._headers.decode(block), self._streams
        if self._tables:
            self._connection.adopt(stream_id)
        call = streams.calls.get(stream_id)
        if call is not None:
            self._on_trailers(call, flags, pairs)
        elif stream_id > streams.last_id:
            streams.last_id = stream_id
            too_much = streams.unread_bytes + self._headers.list_bytes > self._limits.half_read_bytes_max
            if too_much or len(streams) >= self._limits.streams_max:
                streams.reset(stream_id, Http2Code.REFUSED_STREAM)
                self._budgets.spend(self._budgets.resets, "streams beyond the limit")
                return
            self._begin(stream_id, read_request(pairs), ended=bool(flags & frames.END_STREAM))
        elif not streams.was_reset(stream_id):
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
        call = self._connection.new_call(stream_id, head.fields, method)
        call.expected_bytes = head.content_length
        call.header_bytes = self._headers.list_bytes
        self._streams.unread_bytes += call.header_bytes
        self.begun += 1
        self.handled += 1
        if not head.fields.get(b"content-type", b"").startswith(b"application/grpc"):
            call.plain_status = 415 if head.method == b"POST" else 200
            if ended:
                self._request_ended(call)
            return
        self._set_deadline(call, head.fields.get(b"grpc-timeout"))
        if method is None:
            call.is_remote_done = ended
            text = f"there is no {head.path[:200].decode(errors='replace')} here"
            call.finish(GrpcStatus.UNIMPLEMENTED, text)
        elif ended:
            self._request_ended(call)

    def _set_deadline(self, call: GrpcCall, timeout: bytes | None) -> None:
        waits_ms = timeout_ms(timeout)
        if waits_ms is not None:
            call.deadline_ms = self._clock.monotonic_ms() + waits_ms

    def serve_taken(self, method: CallMethod, stream_id: int, timeout: bytes, message: bytes) -> None:
        """Serve a call that the lane took; ``timeout`` is empty if the call has none."""
        call = self._connection.new_call(stream_id, NO_FIELDS, method)
        call.is_remote_done = True
        self._set_deadline(call, timeout or None)
        self._handle(call, message)

    # --- DATA ---

    def on_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._window.use(size)
        call = self._streams.calls.get(stream_id)
        if call is None:
            if self._streams.is_idle(stream_id):
                raise Http2Error(Http2Code.PROTOCOL_ERROR, f"DATA on stream {stream_id}, which is idle")
            if not self._streams.was_reset(stream_id):
                raise Http2StreamError(Http2Code.STREAM_CLOSED, "DATA on a stream that is closed")
            return
        if call.is_remote_done:
            raise Http2StreamError(Http2Code.STREAM_CLOSED, "DATA behind the end of a stream")
        self._window.use_stream(call, size)
        data = frames.unpadded(payload, flags)
        if not data and not flags & frames.END_STREAM:
            self._budgets.spend(self._budgets.empties, "frames without DATA")
        call.received_bytes += len(data)
        if data and not call.is_finished and not call.plain_status:
            self._take(call, data)
        if flags & frames.END_STREAM:
            self._request_ended(call)
        else:
            self._window.refill_stream(call)

    def _take(self, call: GrpcCall, data: bytes) -> None:
        """Take DATA of a call. Header lists are counted with it, and refused by themselves."""
        streams = self._streams
        try:
            for message in self._cut(call, data):
                if not call.is_open or call.is_finished or call.method is None:
                    return
                call.messages_in += 1
                if call.method.is_stream:
                    self.handled += 1
                    self._handle(call, message)
                elif call.messages_in == 1:
                    call.whole_message = message
                    streams.unread_bytes += len(message)
                else:
                    raise GrpcError(GrpcStatus.INTERNAL, "one message was expected, there are more")
            if streams.unread_bytes > self._limits.half_read_bytes_max:
                text = "too much of messages that are not complete, or of calls that are not, on this connection"
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text)
        except GrpcError as error:
            streams.drop_unread(call)
            call.finish(error.status, str(error))

    def _cut(self, call: GrpcCall, data: bytes) -> list[bytes]:
        """Messages that are complete by now; what is kept of others is counted. Raises GrpcError."""
        before = len(call.cutter.buffer)
        try:
            return call.cutter.feed(data)
        finally:
            self._streams.unread_bytes += len(call.cutter.buffer) - before

    def _request_ended(self, call: GrpcCall) -> None:
        if call.expected_bytes is not None and call.expected_bytes != call.received_bytes:
            raise Http2StreamError(Http2Code.PROTOCOL_ERROR, "content-length is not the length of the content")
        call.is_remote_done = True
        if call.is_finished:
            if call.trailers is None and not call.pending:
                self._streams.forget(call)
            return
        if call.plain_status:
            call.answer_plainly(call.plain_status, HELP)
        elif call.cutter.buffer:
            self._streams.drop_unread(call)
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
            self._streams.drop_unread(call)
            self._handle(call, message)
            call.fields = NO_FIELDS

    def _handle(self, call: GrpcCall, message: bytes) -> None:
        assert call.method is not None
        try:
            call.method.handle(call, message)
        except GrpcError as error:
            call.finish(error.status, str(error))
        except Exception as error:  # a defect of the handler ends its call and nothing else
            logger.exception("call failed: peer=%s", self._connection.remote_text)
            call.finish(GrpcStatus.INTERNAL, f"the server failed on this call: {type(error).__name__}")
