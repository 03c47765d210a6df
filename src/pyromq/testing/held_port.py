"""A port that belongs to a test while its server is away.

A system gives the port of a server that stopped to the next program that asks for one, and the server cannot come back
to it. A socket that is bound to the port, and never listens, keeps it: connections are refused while the server is
away, as they should be.
"""

from __future__ import annotations

import socket
import sys


def hold_port(host: str) -> socket.socket | None:
    """Return a socket whose port a server of this process can listen on again and again; close it at the end.

    Returns None where the system does not let two sockets of one program share a port in that way. Raises OSError.
    """
    if sys.platform != "linux":
        return None
    family, kind, protocol, _, name = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    held = socket.socket(family, kind, protocol)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(name)
    except OSError:
        held.close()
        raise
    return held
