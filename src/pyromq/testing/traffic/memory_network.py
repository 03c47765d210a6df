"""Memory network: servers and clients of one loop reach each other by address, without sockets.

Clients ask the loop for connections (``loop.create_connection``); the network answers for addresses of its own servers
and leaves all others to the loop. Nobody outside of the loop can connect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.net import Address, Connection
from pyromq.testing.traffic.memory_transport import MemoryTransport

_SERVER_PORTS: Final = range(61_001, 65_536)  # above those that Linux gives to sockets by itself
_PEER_PORTS: Final = range(10_000, 60_000)

Accept = Callable[[Address, Address], Connection | None]
"""Called with a peer and the address that it wants; None refuses it."""


class MemoryNetwork:
    """Network in memory for one loop, between ``install`` and ``uninstall``."""

    def __init__(self) -> None:
        self._servers: dict[Address, Accept] = {}
        self._given: set[Address] = set()  # those of servers that are away are refused here, not by a socket
        self._server_ports = cycle(_SERVER_PORTS)
        self._peer_ports = cycle(_PEER_PORTS)
        self._loop: Any = None

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._plain_connect = loop.create_connection
        self._loop.create_connection = self._connect

    def uninstall(self) -> None:
        del self._loop.create_connection

    def listen(self, address: Address, accept: Accept) -> Address:
        """Where it is reached: port 0 becomes one that nobody has. Raises ConfigError."""
        address = address if address.port else Address(address.host, next(self._server_ports))
        if address in self._servers:
            raise ConfigError(f"cannot listen on {address}: another server of this test has it")
        self._servers[address] = accept
        self._given.add(address)
        return address

    def leave(self, address: Address) -> None:
        self._servers.pop(address, None)

    async def _connect(self, new_protocol: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        wanted = Address("127.0.0.1" if host == "localhost" else host, port)
        if wanted not in self._given:
            return await self._plain_connect(new_protocol, host, port, **options)
        if options.get("ssl") is not None:
            raise ConnectionRefusedError("without sockets there is no TLS: LoopbackBroker(sockets=True) has it")
        await asyncio.sleep(0)  # as a socket: nobody is connected in the turn in which it asks
        accept = self._servers.get(wanted)
        peer = Address(wanted.host, next(self._peer_ports))
        served = accept(peer, wanted) if accept is not None else None
        if served is None:
            raise ConnectionRefusedError(f"nobody listens on {wanted}")
        here, there = MemoryTransport.connected(self._loop, peer, wanted)
        there.begin(served)
        protocol = new_protocol()
        here.begin(protocol)
        return here, protocol
