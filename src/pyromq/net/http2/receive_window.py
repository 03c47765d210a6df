"""Flow control of what comes in: how much DATA the peer may still send, of a connection and of each stream."""

from __future__ import annotations

from pyromq.net.http2.call import GrpcCall
from pyromq.net.http2.limits import Http2Limits
from pyromq.net.http2.outgoing import Outgoing
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2StreamError


class ReceiveWindow:
    """The window of one connection; streams have theirs in their calls. Half empty, a window is filled again."""

    def __init__(self, out: Outgoing, limits: Http2Limits) -> None:
        self.left = limits.connection_window
        self._out = out
        self._most = limits.connection_window
        self._stream_most = limits.stream_window

    def use(self, size: int) -> None:
        """DATA came. Raises Http2Error."""
        self.left -= size
        if self.left < 0:
            raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "more DATA than the window of the connection allows")
        if self.left < self._most // 2:
            self._out.write(frames.encode_window_update(0, self._most - self.left))
            self.left = self._most

    def use_stream(self, call: GrpcCall, size: int) -> None:
        """DATA of this call came. Raises Http2StreamError."""
        call.receive_window -= size
        if call.receive_window < 0:
            raise Http2StreamError(Http2Code.FLOW_CONTROL_ERROR, "more DATA than the window of the stream allows")

    def refill_stream(self, call: GrpcCall) -> None:
        if call.receive_window < self._stream_most // 2 and call.is_open:
            self._out.write(frames.encode_window_update(call.stream_id, self._stream_most - call.receive_window))
            call.receive_window = self._stream_most
