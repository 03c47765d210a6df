"""``pyromq broker`` as a process that can be killed, stopped for a while and started again in another role."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.testing import AsyncServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies, java_json
from tests.integration.waiting import LOOK_AGAIN_S, PATIENCE_S

SMALL = {
    "store.segment_bytes": "65536",
    "store.index_slots": "1000",
    "store.index_entries": "5000",
    "store.full_percent": "100",
    "replication.metadata_interval_ms": "100",
    "vip_port": "false",
}


class BrokerProcess:
    """``await start("sync-master")``; what is left running is killed by ``kill``."""

    def __init__(self, folder: Path, nameserver: str, **settings: str) -> None:
        self.folder = folder
        self._nameserver = nameserver
        self._settings = {**SMALL, **{name.replace("__", "."): value for name, value in settings.items()}}
        self._server: AsyncServerProcess | None = None
        self.address = Address("127.0.0.1", 0)

    async def start(self, role: str, broker_id: int = 0) -> None:
        assigned = [part for name, value in self._settings.items() for part in ("--set", f"broker.{name}={value}")]
        words = ("--nameserver", self._nameserver, "--role", role, "--broker-id", str(broker_id), *assigned)
        self._server = AsyncServerProcess("broker", *words, data=self.folder)
        await self._server.start()
        self.address = Address.parse(self._server.broker)

    @property
    def server(self) -> AsyncServerProcess:
        assert self._server is not None
        return self._server

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.is_running

    async def kill(self) -> None:
        if self.is_running:
            await self.server.kill()

    async def stop(self) -> None:
        if self.is_running:
            await self.server.stop()

    async def facts(self) -> dict[str, str]:
        """Its run-time information."""
        connection = await open_connection(self.address, clock=SystemClock())
        try:
            answer = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
            return {key: str(value) for key, value in java_json.decode(answer.body, bodies.KeyValues).table.items()}
        finally:
            connection.close()
            await connection.wait_closed()

    async def until(self, fact: str, value: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await self.facts()).get(fact) != value:  # noqa: ASYNC110, another process is asked
                await asyncio.sleep(LOOK_AGAIN_S)
