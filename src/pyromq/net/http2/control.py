"""Control frames: everything that is neither a request nor a part of one."""

from __future__ import annotations

from pyromq.net.http2.budgets import AttackBudgets
from pyromq.net.http2.outgoing import Outgoing
from pyromq.net.http2.streams import CallStreams
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2Setting, Http2StreamError


class ControlFrames:
    """Acts on control frames of one connection; every method raises Http2Error or Http2StreamError."""

    def __init__(self, streams: CallStreams, out: Outgoing, budgets: AttackBudgets) -> None:
        self.has_settings = False
        self._streams = streams
        self._out = out
        self._budgets = budgets

    def on_priority(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PRIORITY without stream")
        self._budgets.spend(self._budgets.empties, "PRIORITY frames")
        frames.check_priority(payload, stream_id)

    def on_reset(self, stream_id: int, flags: int, payload: bytes) -> None:
        frames.read_word(payload, "RST_STREAM")
        if self._streams.is_idle(stream_id):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"RST_STREAM of stream {stream_id}, which is idle")
        self._budgets.spend(self._budgets.resets, "RST_STREAM frames")
        self._streams.reset_by_peer(stream_id)

    def on_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & frames.ACK:
            if payload:
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has bytes")
            return
        self._budgets.spend(self._budgets.settings, "SETTINGS frames")
        self.has_settings = True
        for name, value in frames.read_settings(payload):
            if name == Http2Setting.INITIAL_WINDOW_SIZE:
                self._out.change_initial_window(value, self._streams.calls.values())
        self._out.write(frames.SETTINGS_ACK)
        self._streams.pump()

    def on_push(self, stream_id: int, flags: int, payload: bytes) -> None:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "clients do not push")

    def on_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "PING has eight bytes")
        if not flags & frames.ACK:
            self._budgets.spend(self._budgets.pings, "PING frames")
            self._out.write(frames.encode_frame(frames.PING, frames.ACK, 0, payload))

    def on_goaway(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "GOAWAY is cut")

    def on_window_update(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = frames.read_word(payload, "WINDOW_UPDATE") & frames.WINDOW_MAX
        call = self._streams.calls.get(stream_id) if stream_id else None
        if stream_id and self._streams.is_idle(stream_id):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"WINDOW_UPDATE of stream {stream_id}, which is idle")
        if not size:
            kind = Http2StreamError if stream_id else Http2Error
            raise kind(Http2Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self._budgets.spend(self._budgets.updates, "WINDOW_UPDATE frames")
        if not stream_id:
            self._out.widen(size)
        elif call is not None:
            if call.send_window + size > frames.WINDOW_MAX:
                raise Http2StreamError(Http2Code.FLOW_CONTROL_ERROR, "the window of a stream is too large")
            call.send_window += size
        else:
            return
        self._streams.pump()
