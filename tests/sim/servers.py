"""The listening side of brokers and name servers on the simulated network: the real servers, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyromq.net import Address, Connection, Server
from pyromq.net.http2 import Http2Connection, Http2Server
from tests.sim.loop import SimLoop
from tests.sim.network import Accept


class SimServer(Server):
    """``new_server`` of a broker or a name server."""

    async def start(self) -> None:
        self.addresses = _listening(self._listen, self._accept_inside)

    def _accept_inside(self, peer: Address, wanted: Address) -> Connection | None:
        return None if self._refuses(peer) else self._connection(peer)

    def _close_listeners(self) -> None:
        _leave(self.addresses)
        super()._close_listeners()


class SimHttp2Server(Http2Server):
    """The gRPC port of a broker; TLS is not simulated."""

    async def start(self) -> None:
        self.addresses = _listening(self._listen, self._accept_inside)

    def _accept_inside(self, peer: Address, wanted: Address) -> Http2Connection | None:
        return None if self._refuses(peer) else self._connection(peer)

    def _close_listeners(self) -> None:
        _leave(self.addresses)
        super()._close_listeners()


def _listening(addresses: Sequence[Address], accept: Accept) -> list[Address]:
    loop: Any = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    process = loop.current
    assert process is not None
    return [loop.network.listen(process, address, accept) for address in addresses]


def _leave(addresses: Sequence[Address]) -> None:
    loop: Any = asyncio.get_running_loop()
    for address in addresses:
        loop.network.leave(address)
