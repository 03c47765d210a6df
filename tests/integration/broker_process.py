"""``pyromq broker`` as a process that can be killed, stopped for a while and started again in another role."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies, java_json
from tests.integration.waiting import LOOK_AGAIN_S, PATIENCE_S

READY = re.compile(r"ready broker=(\S+)")
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
        self._process: asyncio.subprocess.Process | None = None
        self.address = Address("127.0.0.1", 0)

    async def start(self, role: str, broker_id: int = 0) -> None:
        assigned = [part for name, value in self._settings.items() for part in ("--set", f"broker.{name}={value}")]
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "broker", "--data", str(self.folder), "--port", "0"),
            *("--nameserver", self._nameserver, "--role", role, "--broker-id", str(broker_id), *assigned),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        line = (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)).decode()
        found = READY.match(line)
        assert found, f"not ready: {line!r}"
        self.address = Address.parse(found[1])

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def say(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    async def kill(self) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.terminate()
            await asyncio.wait_for(self._process.wait(), PATIENCE_S)

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
