"""A master and its replica as processes, a name server, and proxies between any two of them and their clients.

    clients ──▶ 127.0.0.2:port ──proxy──▶ broker 127.0.0.1:port          a proxy for each broker
    broker  ──▶ proxy ──▶ name server                                    a proxy for each broker
    replica ──▶ proxy ──▶ master's port for clients, and for replicas    a proxy for each broker and port

Roles are changed by hand, as the page says: the old master is gone, then the replica is made the master. The one that
comes back is a replica; if it has what the new master never got, its folder is kept aside and it begins anew.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyromq.model.property_names import UNIQUE_KEY
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.files.overlay import OverlayDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import free_port
from pyromq.wire.properties import decode_properties
from tests.crash.script import log_records
from tests.faults.broker_worker import Plan, WorkerProcess, serve
from tests.faults.proxy import Proxy
from tests.integration.broker_process import BrokerProcess
from tests.integration.waiting import LOOK_AGAIN_S, PATIENCE_S

CLIENTS_HOST = "127.0.0.2"  # where clients find a broker: its proxy
STORE = StoreSettings(
    segment_bytes=1 << 20,
    index_slots=1_000,
    index_entries=5_000,
    full_percent=100,
    delay_ladder_ms=(100,) * 18,
)
REPLICATION = ReplicationSettings(
    metadata_interval_ms=100, confirm_timeout_ms=1_000, heartbeat_interval_ms=500, silence_ms_max=20_000
)


class Member:
    """One broker of the two: it keeps its ports and its proxies; its log is in a file."""

    loses_unflushed = False  # kill -9 leaves what was written

    def __init__(self, folder: Path, name: str, store: StoreSettings) -> None:
        self.folder = folder / name
        self.name = name
        self._store = store
        self._process: WorkerProcess | None = None
        self._asking = BrokerProcess(self.folder, "")
        self.address = self._asking.address = Address("127.0.0.1", free_port())
        self.replication_address = Address("127.0.0.1", free_port())
        self.log_file = folder / f"{name}.log"
        self.image: Path | None = None  # of a disk in memory, where the broker's process has one
        self.clients = Proxy(self.address, host=CLIENTS_HOST, port=self.address.port)
        self.names = Proxy(self.address)  # to the name server
        self.master = Proxy(self.address)  # to the master's port for clients
        self.master_log = Proxy(self.address)  # to its port for replicas

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        return self.clients, self.names, self.master, self.master_log

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        """As ``BrokerSettings`` takes them."""
        return {
            "host": self.address.host,
            "port": self.address.port,
            "advertised_host": CLIENTS_HOST,
            "vip_port": False,
            "broker_id": broker_id,
            "nameservers": (str(self.names.address),),
            "register_interval_ms": 1_000,
            "transaction_timeout_ms": 300,
            "transaction_check_interval_ms": 200,
            "store": self._store,
            "replication": replace(
                REPLICATION,
                role=role,
                port=self.replication_address.port,
                master_address=str(self.master.address),
                master_replication_address=str(self.master_log.address),
            ),
        }

    async def start(self, role: Role, broker_id: int) -> None:
        plan = Plan(self.settings(role, broker_id), self.folder, self.log_file, self.image)
        self._process = WorkerProcess(serve, plan)
        assert await self._process.answer(PATIENCE_S) == "ready"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def pids(self) -> dict[str, int]:
        """Its processes that run, by name."""
        return {self.name: self._process.pid} if self._process is not None else {}

    async def tell(self, command: str) -> None:
        assert self._process is not None
        await self._process.tell(command, PATIENCE_S)

    async def stop(self) -> None:
        if self.is_running:
            await self.tell("stop")
            await self.kill()

    async def kill(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            await process.kill()

    def pause(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    async def facts(self) -> dict[str, str]:
        """Its run-time information."""
        return await self._asking.facts()

    async def until(self, fact: str, value: str) -> None:
        await self._asking.until(fact, value)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    async def stored_ids(self) -> set[str]:
        """Of all messages in its folder, as recovery finds them; the folder is not changed."""
        return await asyncio.to_thread(self._ids_in_folder)

    def _ids_in_folder(self) -> set[str]:
        with tempfile.TemporaryDirectory() as scratch:
            disk = OverlayDisk(self.folder, Path(scratch))
            with MessageStore.open(self.folder, self._store, disk=disk) as store:
                return ids_in(store)

    def begin_anew(self, number: int) -> None:
        """Its folder is kept aside."""
        shutil.move(self.folder, self.folder.with_name(f"aside-{number}"))


def ids_in(store: MessageStore) -> set[str]:
    return {decode_properties(each.properties).get(UNIQUE_KEY, "") for each in log_records(store)}


class Cluster:
    """``async with running_cluster(…) as cluster``: both run, and the replica is in sync."""

    def __init__(self, members: Sequence[Member], role: Role) -> None:
        self.role = role
        self.begun_anew = 0  # old masters that had more than the new one
        self.nameserver = ""
        self.members = list(members)
        self.loses_unflushed = any(member.loses_unflushed for member in members)  # what was not promised, that is

    @property
    def master(self) -> Member:
        return self.members[0]

    @property
    def replica(self) -> Member:
        return self.members[1]

    async def start(self, names: Address) -> None:
        self.nameserver = str(names)
        for member in self.members:
            member.names.target = names
        self._aim()
        await self.master.start(self.role, 0)
        await self.replica.start(Role.REPLICA, 1)
        await self.in_sync()

    def _aim(self) -> None:
        """Each broker's way to the other one; only that of the replica is used."""
        for member, other in zip(self.members, reversed(self.members), strict=True):
            member.master.target, member.master_log.target = other.address, other.replication_address

    async def in_sync(self) -> None:
        """The replica has everything, and the tables."""
        await self.master.until("replicationInSync", "1")
        await self._caught_up()

    async def _caught_up(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                here, there = await self.master.facts(), await self.replica.facts()
                version = "replicationMetadataVersion"
                if (
                    int(there["replicationFlushed"]) >= int(here["replicationFlushed"])
                    and here[version] == there[version]
                ):
                    return
                await asyncio.sleep(LOOK_AGAIN_S)

    def heal(self) -> None:
        for member in self.members:
            for proxy in member.proxies:
                proxy.heal()

    # --- by hand ---

    async def fail_over(self) -> None:
        """The old master is gone; the replica becomes the master."""
        assert not self.master.is_running, "two masters at once: what the old one takes would be lost"
        self.members.reverse()
        self._aim()
        await self.master.tell(f"role {self.role.value} 0")

    async def come_back(self) -> None:
        """The old master returns as a replica."""
        await self.replica.start(Role.REPLICA, 1)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                facts = await self.replica.facts()
                if facts["replicationState"] == "FOLLOWING":
                    break
                if facts["replicationState"] == "REFUSED":
                    await self._begin_anew()
                await asyncio.sleep(LOOK_AGAIN_S)
        await self.in_sync()

    async def _begin_anew(self) -> None:
        self.begun_anew += 1
        await self.replica.stop()
        self.replica.begin_anew(self.begun_anew)
        await self.replica.start(Role.REPLICA, 1)

    async def restart_both(self) -> None:
        """Both were gone at once, and come back as they were."""
        await self.master.start(self.role, 0)
        await self.replica.start(Role.REPLICA, 1)
        await self.in_sync()

    def tracebacks(self) -> list[str]:
        """Defects that brokers have logged."""
        return [
            f"{member.name}: {part[:3_000]}"
            for member in self.members
            for part in member.log.split("Traceback (most recent call last)")[1:]
        ]


@asynccontextmanager
async def running_cluster(cluster: Cluster, names_settings: NameServerSettings | None = None) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer(names_settings or NameServerSettings(port=0)))
        for member in cluster.members:
            for proxy in member.proxies:
                await stack.enter_async_context(proxy)
        try:
            await cluster.start(names.address)
            yield cluster
        finally:
            for member in cluster.members:
                await member.kill()


def two_processes(folder: Path, flush: Flush = Flush.SYNC) -> list[Member]:
    folder.mkdir(parents=True, exist_ok=True)
    return [Member(folder, name, replace(STORE, flush=flush)) for name in ("first", "second")]
