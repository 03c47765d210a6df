"""What a connection tells its owner.

All methods are plain calls on the event loop and must not block. Subclass ``Handler`` to inherit the defaults, or
write a class with the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.frame import Frame
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received, decode_received

if TYPE_CHECKING:
    from pyromq.net.connection import Connection

FastPath = Callable[["Connection", bytes | bytearray | memoryview], int]
"""Serves requests at the beginning of these bytes, and says how many bytes these are: whole frames, or nothing."""

Decode = Callable[[Frame], Received[Any]]
"""``decode_received``, or what does the same."""


class Handler(Protocol):
    """Serves the requests of any number of connections; one object may serve several ports."""

    def on_connected(self, connection: Connection) -> None:
        """The peer is known and requests may be sent to it; the place to set ``connection.session``."""
        return

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        """All requests that one read brought, in order; the list is never empty.

        Answer with ``connection.send(encode_response(...))``, now or at any later time and in any order, and nothing
        for those that are one-way. Responses sent during this call leave together when it returns. A request that fails
        must be answered by the handler itself: an exception that escapes is logged and closes the connection.
        """
        for request in requests:
            if not request.is_oneway:
                connection.send(_unsupported(request))

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        """A request (``error.received``) whose ext fields are not what its code calls for; answered by default.

        Called after ``on_requests`` with the good requests of the same read.
        """
        request = error.received
        if request is not None and not request.is_oneway:
            code, serialize_type = ResponseCode.SYSTEM_ERROR, request.serialize_type
            response = encode_response(code, request.correlation_id, remark=str(error), serialize_type=serialize_type)
            connection.send(response)

    def fast_path(self, connection: Connection) -> FastPath | None:
        """What looks at the bytes of a new connection before they are cut into frames; asked once it is connected."""
        return None

    def decoder(self, connection: Connection) -> Decode:
        """What makes requests of the frames of a new connection; asked once it is connected."""
        return decode_received

    def on_congested(self, connection: Connection) -> None:
        """The peer reads more slowly than it is sent to: hold back what can wait until ``on_drained``.

        A server's connection is not read from in the meantime.
        """
        return

    def on_drained(self, connection: Connection) -> None:
        """What was held back may be sent."""
        return

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        """Called once for every ``on_connected``; its unanswered requests have been failed already."""
        return


def _unsupported(request: Received[Any]) -> bytes:
    return encode_response(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        request.correlation_id,
        remark=f" request type {request.code} not supported",  # RocketMQ's text, leading space included
        serialize_type=request.serialize_type,
    )
