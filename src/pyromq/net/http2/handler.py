"""What serves the calls of connections: methods by path, and a lane of the compiled core that looks at bytes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyromq.compiled_core import Http2Lane

if TYPE_CHECKING:
    from pyromq.net.http2.call import GrpcCall
    from pyromq.net.http2.connection import Http2Connection


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

    def on_read(self) -> None:
        """What one read brought has been handled, as far as its turn goes."""

    def on_disconnected(self, connection: Http2Connection) -> None:
        """A connection is gone; ``on_closed`` of its calls was called before."""
