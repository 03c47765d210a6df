"""Half-read frames: what all connections of a server together hold of frames that are not complete yet.

A frame may have 16 MiB, and a server has thousands of connections: without a limit those who send the beginnings of
large frames decide how much memory it takes. Beyond the limit the connection that holds most goes first, so a client
with a small half of a frame never pays for one with a large half.

Counted only when the number of a connection changes: a read that ends with a whole frame costs one comparison.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from pyromq.net.idle import Watched

try:
    import fcntl
    import termios
except ImportError:  # not on Windows
    fcntl = termios = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)


class HalfReadFrames:
    """Bound on frames that were read in part, one per server."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0  # of all connections
        self.connections_cut = 0
        self._holders: set[Watched] = set()  # with more than nothing

    def note(self, connection: Watched, held: int) -> None:
        """A read left that much of a frame; beyond the limit connections are cut, perhaps this one."""
        self.bytes += held - connection.half_read_bytes
        connection.half_read_bytes = held
        if held:
            self._holders.add(connection)
            if self.bytes > self.bytes_max:
                self._cut()
        else:
            self._holders.discard(connection)

    def _cut(self) -> None:
        largest = sorted(self._holders, key=lambda connection: connection.half_read_bytes, reverse=True)
        for connection in largest:
            if self.bytes <= self.bytes_max:
                break
            held = connection.half_read_bytes
            logger.warning(
                "connection cut, half-read frames of all connections are over their limit: "
                "peer=%s half_read_bytes=%d all_bytes=%d bytes_max=%d",
                *(connection.remote_text, held, self.bytes, self.bytes_max),
            )
            self.connections_cut += 1
            connection.abort(
                f"half-read frames of all connections have {self.bytes} bytes, at most {self.bytes_max} are allowed "
                f"(half_read_bytes_max), and this connection has most of them: {held}"
            )
            connection.forget_half_read()


def unread_bytes(transport: asyncio.Transport) -> int:
    """Bytes that a read would return now; 0 where that cannot be known."""
    peer_socket = transport.get_extra_info("socket")
    descriptor = peer_socket.fileno() if peer_socket is not None else -1
    if fcntl is None or descriptor < 0:
        return 0
    try:
        found = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:  # it was closed a moment ago
        return 0
    return int.from_bytes(found, sys.byteorder)
