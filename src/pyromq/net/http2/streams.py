"""Streams of one connection: the calls that are open, and what becomes of each when it ends.

begun ──▶ answered, everything has left ──▶ forgotten          (reset first, when its client still sends)
  │
  └─────▶ reset by the client or by us, connection lost ──▶ closed: its handler is told
"""

from __future__ import annotations

import logging
from collections import deque

from pyromq.compiled_core import Http2Lane
from pyromq.net.http2.budgets import AttackBudgets
from pyromq.net.http2.call import GrpcCall
from pyromq.net.http2.outgoing import Outgoing
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error

logger = logging.getLogger(__name__)


class CallStreams:
    """Open calls by stream; those that a lane took are in its ``tables`` until somebody adopts them."""

    def __init__(
        self, out: Outgoing, budgets: AttackBudgets, tables: Http2Lane | None, peer: str, remembered: int
    ) -> None:
        self.calls: dict[int, GrpcCall] = {}
        self.last_id = 0
        self.unread_bytes = 0  # of incomplete messages, and of whole ones whose calls are not
        self._out = out
        self._budgets = budgets
        self._tables = tables
        self._peer = peer
        self._reset_ids: deque[int] = deque(maxlen=remembered)  # by us; frames may be under way

    def __len__(self) -> int:
        return len(self.calls) + (len(self._tables) if self._tables is not None else 0)

    def is_idle(self, stream_id: int) -> bool:
        """Whether the client has not opened it yet, or never could."""
        return stream_id > self.last_id or not stream_id & 1

    def was_reset(self, stream_id: int) -> bool:
        """Whether we have reset it a short time ago, so that its client may not know yet."""
        return stream_id in self._reset_ids

    def taken_ids(self) -> list[int]:
        """Streams of calls that the lane took and nobody has answered."""
        return self._tables.streams() if self._tables is not None else []

    def leave_lane(self, stream_id: int) -> bytes | None:
        """Take a call out of the lane's tables: what they kept of it, or None when it is not there."""
        return self._tables.close(stream_id) if self._tables is not None else None

    # --- ends ---

    def finished(self, call: GrpcCall) -> None:
        """Everything of it has left."""
        call.trailers = None
        self._budgets.finished()
        if not call.is_remote_done:
            if call.stream_id in self.calls:
                self.reset(call.stream_id, Http2Code.NO_ERROR)
            return
        self.forget(call)

    def forget(self, call: GrpcCall) -> None:
        self.calls.pop(call.stream_id, None)
        if call.header_bytes:
            self.drop_unread(call)
        call.is_open = False
        call.on_closed = call.on_half_closed = None

    def reset(self, stream_id: int, code: Http2Code) -> None:
        """End a stream from our side. Raises Http2Error when there is no stream to end."""
        if not stream_id:
            raise Http2Error(code, "an error of no stream")
        self._reset_ids.append(stream_id)
        self._out.write(frames.encode_reset(stream_id, code))
        if self._tables:
            self._tables.close(stream_id)
        call = self.calls.pop(stream_id, None)
        if call is not None:
            self.drop_unread(call)
            if call.is_finished and code is Http2Code.NO_ERROR:
                self.forget(call)
            else:
                self._close(call)

    def reset_by_peer(self, stream_id: int) -> None:
        if self._tables:
            self._tables.close(stream_id)
        call = self.calls.pop(stream_id, None)
        if call is not None:
            self.drop_unread(call)
            self._close(call)

    def lose_all(self) -> None:
        """The connection is gone."""
        calls, self.calls = self.calls, {}
        for stream_id in self.taken_ids():
            self.leave_lane(stream_id)
        for call in calls.values():
            self._close(call)

    def drop_unread(self, call: GrpcCall) -> None:
        """Forget what was read of a call and not handled yet."""
        self.unread_bytes -= len(call.cutter.buffer) + len(call.whole_message) + call.header_bytes
        call.header_bytes = 0
        call.cutter.buffer.clear()
        call.whole_message = b""

    def pump(self) -> None:
        """Send what windows have room for now."""
        for call in self._out.pump():
            self.finished(call)

    def _close(self, call: GrpcCall) -> None:
        self._out.forget(call)
        try:
            call.closed()
        except Exception:  # a defect of the handler
            logger.exception("end of a call not handled: peer=%s", self._peer)
