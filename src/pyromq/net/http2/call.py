"""A gRPC call: one stream of a connection, with what its client sent and what waits to be sent to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyromq.wire.grpc.framing import GrpcStatus, MessageCutter, message_text, with_prefix
from pyromq.wire.http2.frames import END_HEADERS, HEADERS, frame_head

if TYPE_CHECKING:
    from pyromq.net.http2.connection import Http2Connection
    from pyromq.net.http2.handler import CallMethod


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field that no table remembers, neither name nor value."""
    assert len(name) < 127
    size = len(value)
    if size < 127:
        return b"%c%c%b%c%b" % (0, len(name), name, size, value)
    size -= 127
    length = bytearray((127,))
    while size >= 128:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return b"%c%c%b%b%b" % (0, len(name), name, bytes(length), value)


NO_FIELDS: Final[dict[bytes, bytes]] = {}  # stays empty
_STATUS_200: Final = b"\x88"  # an entry of HPACK's static table
RESPONSE_HEAD: Final = _STATUS_200 + _literal(b"content-type", b"application/grpc")
TRAILERS_OK: Final = _literal(b"grpc-status", b"0")
_ACCEPTED: Final = _literal(b"grpc-accept-encoding", b"identity,gzip,deflate")


def _trailers(status: int, text: str) -> bytes:
    if not status and not text:
        return TRAILERS_OK
    return _literal(b"grpc-status", b"%d" % status) + _literal(b"grpc-message", message_text(text))


class GrpcCall:
    """Made by a connection; the handler answers with ``send`` and ``finish``, now or later.

    ``on_closed`` is called once if the call ends before ``finish``: its client gave up, or the connection was lost.
    ``on_half_closed`` is called when the client of a stream of requests has sent its last.
    """

    __slots__ = (
        "__weakref__",
        "_connection",
        "context",
        "cutter",
        "deadline_ms",
        "expected_bytes",
        "fields",
        "has_sent_head",
        "header_bytes",
        "is_finished",
        "is_open",
        "is_remote_done",
        "messages_in",
        "method",
        "on_closed",
        "on_half_closed",
        "peer",
        "pending",
        "plain_status",
        "receive_window",
        "received_bytes",
        "send_window",
        "stream_id",
        "trailers",
        "whole_message",
    )

    def __init__(
        self,
        connection: Http2Connection,
        stream_id: int,
        fields: dict[bytes, bytes],
        method: CallMethod | None,
        send_window: int,
    ) -> None:
        self._connection = connection
        self.stream_id = stream_id
        self.fields = fields  # of one message: until it is handled
        self.header_bytes = 0  # of them, as long as they are counted
        self.method = method
        self.peer = connection.remote
        self.context: Any = None  # the handler's
        self.deadline_ms: float | None = None  # monotonic; None: its client waits for as long as it takes
        self.plain_status = 0  # of an answer to somebody who does not speak gRPC
        self.is_open = True
        self.is_finished = False
        self.is_remote_done = False
        self.has_sent_head = False
        self.on_closed: Callable[[], None] | None = None
        self.on_half_closed: Callable[[], None] | None = None
        limits = connection.limits
        self.cutter = MessageCutter(limits.message_bytes_max, fields.get(b"grpc-encoding", b"identity"))
        self.messages_in = 0
        self.whole_message = b""  # the only one, until the client has said that it was all
        self.receive_window = limits.stream_window
        self.received_bytes = 0
        self.expected_bytes: int | None = None  # content-length
        self.send_window = send_window
        self.pending: deque[memoryview] = deque()  # what waits for a window
        self.trailers: bytes | None = None  # what follows it

    @property
    def connection(self) -> Http2Connection:
        return self._connection

    @property
    def unsent_messages(self) -> int:
        """How many messages wait, or have left in part."""
        return len(self.pending)

    def field(self, name: bytes) -> str:
        """Metadata of the call; empty when there is none."""
        return self.fields.get(name, b"").decode("utf-8", "replace")

    # --- for the handler ---

    def respond(self, message: bytes) -> None:
        """The only message, and the end."""
        if not self.is_open or self.is_finished:
            return
        data = with_prefix(message)
        if not self.has_sent_head and self._connection.respond_at_once(self, RESPONSE_HEAD, data, TRAILERS_OK):
            return
        self.send(message)
        self.finish()

    def respond_with(self, messages: bytes) -> bool:
        """All messages, each with its prefix, and the end; False when there is no room, and nothing was sent."""
        if not self.is_open or self.is_finished or self.has_sent_head:
            return False
        return self._connection.respond_at_once(self, RESPONSE_HEAD, messages, TRAILERS_OK)

    def send(self, message: bytes) -> None:
        """One message of a response; does nothing once the call has ended."""
        if not self.is_open or self.is_finished:
            return
        self._send_head()
        self._connection.send_data(self, with_prefix(message))

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """The end, after everything that was sent."""
        if not self.is_open or self.is_finished:
            return
        self.is_finished = True
        trailers = _trailers(status, text)
        if not self.has_sent_head:
            self.has_sent_head = True
            head = RESPONSE_HEAD + (_ACCEPTED if status is GrpcStatus.UNIMPLEMENTED else b"")
            self._connection.end_call(self, head + trailers)
        else:
            self._connection.end_call(self, trailers)

    def answer_plainly(self, status: int, text: str) -> None:
        """An answer to somebody who does not speak gRPC."""
        self.is_finished = self.has_sent_head = True
        body = text.encode()
        head = _literal(b":status", b"%d" % status) + _literal(b"content-type", b"text/plain; charset=utf-8")
        self._connection.write(frame_head(HEADERS, END_HEADERS, self.stream_id, len(head)) + head)
        self._connection.send_data(self, body)
        self._connection.end_call(self, b"")

    def _send_head(self) -> None:
        if not self.has_sent_head:
            self.has_sent_head = True
            self._connection.write(frame_head(HEADERS, END_HEADERS, self.stream_id, len(RESPONSE_HEAD)) + RESPONSE_HEAD)

    # --- for the connection ---

    def closed(self) -> None:
        """It ended without us."""
        if not self.is_open:
            return
        self.is_open = False
        on_closed, self.on_closed, self.on_half_closed = self.on_closed, None, None
        if on_closed is not None:
            on_closed()
        self.pending.clear()
