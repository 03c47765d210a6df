"""The listening side of brokers and name servers on the simulated network: the real ``Server``, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from pyromq.net import Address, Connection, Server
from tests.sim.loop import SimLoop


class SimServer(Server):
    """``new_server`` of a broker or a name server."""

    async def start(self) -> None:
        loop: Any = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        process = loop.current
        assert process is not None
        self.addresses = [loop.network.listen(process, address, self._accept_inside) for address in self._listen]

    def _accept_inside(self, peer: Address, wanted: Address) -> Connection | None:
        return None if self._refuses(peer) else self._connection(peer)

    def _close_listeners(self) -> None:
        loop: Any = asyncio.get_running_loop()
        for address in self.addresses:
            loop.network.leave(address)
        super()._close_listeners()
