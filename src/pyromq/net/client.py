"""Opening a connection to a server."""

from __future__ import annotations

import asyncio
import ssl

from pyromq.clock import Clock
from pyromq.errors import ConnectFailedError
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.net.handler import Handler
from pyromq.net.idle import IdleWatch
from pyromq.net.settings import DEFAULT_SETTINGS, ConnectionSettings


class RefusingHandler(Handler):
    """Answers every request of the peer with "not supported": for clients that only send requests."""


async def open_connection(
    address: Address,
    *,
    clock: Clock,
    handler: Handler | None = None,
    settings: ConnectionSettings = DEFAULT_SETTINGS,
    connect_timeout_ms: int = 3_000,
    tls_context: ssl.SSLContext | None = None,
    tls_hostname: str | None = None,
    watch: IdleWatch[Connection] | None = None,
) -> Connection:
    """An open connection, TLS from its first byte if there is a context. Raises ConnectFailedError.

    ``watch`` closes it when idle; clients with many connections share one.
    """
    loop = asyncio.get_running_loop()
    watch = watch or IdleWatch(clock, settings.idle_ms)
    handler = handler or RefusingHandler()
    server_hostname = (tls_hostname or address.host) if tls_context else None
    try:
        async with asyncio.timeout(connect_timeout_ms / 1000):
            transport, connection = await loop.create_connection(
                lambda: Connection(handler, clock, settings, watch, address, is_server=False),
                *address,
                ssl=tls_context,
                server_hostname=server_hostname,
            )
    except TimeoutError as error:
        text = f"no connection to {address} within {connect_timeout_ms} ms"
        raise ConnectFailedError(text, peer=str(address)) from error
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailedError(f"no connection to {address}: {error}", peer=str(address)) from error
    if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
        # TCP allows it where the port is one that the system hands out; it would keep the server from its own port
        connection.abort("the socket is connected to itself")
        raise ConnectFailedError(f"no connection to {address}: no server listens there", peer=str(address))
    return connection
