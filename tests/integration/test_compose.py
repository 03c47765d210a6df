"""What the compose file starts, as processes on loopback: three brokers, their agents, etcd, name server, console.

Command lines and variables are those of the file; folders and ports are others, since tests run beside each other, and
what would listen on all addresses of a container listens on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyromq.aio import Admin, Message, Producer, PullConsumer
from pyromq.errors import MQError
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import LeaseRecord
from pyromq.testing import free_port
from pyromq.wire.json.membership import MemberRole
from tests.integration.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

ROOT = Path(__file__).parents[2]
PORT = re.compile(r"(?<=:)\d{4,5}\b|^\d{4,5}$")
BROKERS = ("broker-1", "broker-2", "broker-3")


class Composed:
    """The services of the file as processes; ``ports`` translates its ports to those of this test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.services: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
        self._ports: dict[str, str] = {}
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    def port(self, given: str) -> str:
        """A free one in place of that; a broker has the next one, too, and the last but one."""
        while given not in self._ports:
            port = free_port()
            if all(abs(port - int(each)) > 3 for each in self._ports.values()):
                self._ports[given] = str(port)
        return self._ports[given]

    def address(self, port: str) -> str:
        return f"127.0.0.1:{self.port(port)}"

    def _placed(self, word: str, service: str) -> str:
        word = PORT.sub(lambda found: self.port(found[0]), word)
        return word.replace("/data", str(self._folder / service)).replace("0.0.0.0", "127.0.0.1")

    async def start(self, name: str) -> None:
        service = self.services[name]
        program = service.get("entrypoint") or [sys.executable, "-m", "pyromq"]
        given = {key: self._placed(value, name) for key, value in service.get("environment", {}).items()}
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[name] = await asyncio.create_subprocess_exec(
                *(*program, *(self._placed(word, name) for word in service["command"])),
                env={**os.environ, **given},
                stdout=log,
                stderr=log,
            )

    async def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def lease(self) -> LeaseRecord | None:
        url = self._placed(self.services["failover-1"]["environment"]["PYROMQ_LEASE_STORE"], "failover-1")
        store = open_lease_store(url, "DefaultCluster", "broker-a")
        try:
            found = await store.read()
        except MQError:
            return None
        finally:
            await store.close()
        return found.record if found else None

    def broker_at(self, address: str) -> str:
        """The service whose broker has that address."""
        ports = {
            name: self.services[name]["command"][self.services[name]["command"].index("--port") + 1] for name in BROKERS
        }
        return next(name for name, port in ports.items() if self.address(port) == address)

    async def until_lease(self, what: str, condition: Callable[[LeaseRecord], bool]) -> LeaseRecord:
        for _ in range(round(PATIENCE_S / 0.1)):
            record = await self.lease()
            if record is not None and condition(record):
                return record
            await asyncio.sleep(0.1)
        logs = "\n".join(f"--- {file.name}\n{file.read_text()[-2_000:]}" for file in self._folder.glob("*.log"))
        raise AssertionError(f"{what} did not happen: {record}\n{logs}")


@asynccontextmanager
async def composed(folder: Path) -> AsyncIterator[Composed]:
    found = Composed(folder)
    try:
        for name, service in found.services.items():
            if service.get("entrypoint") != ["sleep"]:  # it holds the network
                await found.start(name)
        yield found
    finally:
        for name in list(found.processes):
            await found.kill(name)


@pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed: the compose file was not tried")
async def test_a_message_outlives_the_kill_of_the_master_and_its_agent(tmp_path: Path) -> None:
    async with composed(tmp_path) as servers:
        before = await servers.until_lease("three members in sync", lambda record: len(record.in_sync) == 3)
        nameserver = servers.address("9876")
        async with Producer(nameserver, group="makers", timeout_ms=60_000) as producer:
            first = await producer.send(Message("orders", b"before"))
            assert first.status.name == "SEND_OK"
            master = servers.broker_at(before.holder)
            for name in (master.replace("broker", "failover"), master):
                await servers.kill(name)
            await servers.until_lease("another master", lambda record: record.holder != before.holder)
            await producer.send(Message("orders", b"after"))
        found: set[bytes] = set()
        async with PullConsumer(nameserver, group="readers", topics="orders", start="earliest") as consumer:
            async with asyncio.timeout(PATIENCE_S):
                while found < {b"before", b"after"}:
                    found |= {message.body for message in await consumer.poll(timeout_ms=1_000)}
        await servers.start(master)
        await servers.start(master.replace("broker", "failover"))
        after = await servers.until_lease("the old master back in sync", lambda record: len(record.in_sync) == 3)
        assert after.number > before.number
        async with Admin(nameserver) as admin:
            assert (await admin.replication.status(before.holder)).role is MemberRole.REPLICA
        assert all(process.returncode is None for process in servers.processes.values()), "one has ended by itself"
