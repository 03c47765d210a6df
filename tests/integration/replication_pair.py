"""A master and its replica with a name server on loopback, in one process, and a proxy between the two that cuts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyromq.aio import Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.replication.follower import Follower, Following
from pyromq.replication.leader import Leader
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security.settings import AccessSettings
from pyromq.settings import ProducerSettings
from pyromq.store.files.disk import Disk
from pyromq.store.settings import StoreSettings
from tests.integration.waiting import until

SMALL = StoreSettings(
    segment_bytes=1 << 16, index_slots=1_000, index_entries=5_000, full_percent=100, body_bytes_max=20_000
)
# looks often, waits long: a busy machine is not a lost connection
QUICK = ReplicationSettings(
    metadata_interval_ms=50,
    heartbeat_interval_ms=500,
    silence_ms_max=60_000,
    confirm_timeout_ms=60_000,
    stall_ms_max=60_000,
)


class Pair:
    """``start_master``, ``start_replica`` and their ends, in any order; what is left running ends with the pair."""

    def __init__(self, folder: Path, nameserver: str) -> None:
        self.folder = folder
        self.nameserver = nameserver
        self.master: Broker | None = None
        self.replica: Broker | None = None

    def settings(
        self, role: Role, store: StoreSettings = SMALL, access: AccessSettings | None = None, **replication: Any
    ) -> BrokerSettings:
        return BrokerSettings(
            access=access or AccessSettings(),
            port=0,
            vip_port=False,
            nameservers=(self.nameserver,),
            broker_id=1 if role is Role.REPLICA else 0,
            store=store,
            replication=replace(QUICK, role=role, **replication),
        )

    async def start_master(
        self, role: Role = Role.SYNC_MASTER, *, folder: str = "master", disk: Disk | None = None, **given: Any
    ) -> Broker:
        self.master = Broker(self.settings(role, **given), self.folder / folder, disk=disk)
        await self.master.start()
        return self.master

    async def start_replica(
        self, *, follows: bool = True, folder: str = "replica", disk: Disk | None = None, **given: Any
    ) -> Broker:
        self.replica = Broker(self.settings(Role.REPLICA, **given), self.folder / folder, disk=disk)
        await self.replica.start()
        if follows:
            await until(lambda: self.follower.state is Following.FOLLOWING, "the replica follows")
        return self.replica

    async def stop_master(self) -> None:
        if self.master is not None:
            await self.master.stop()
            self.master = None

    async def stop_replica(self) -> None:
        if self.replica is not None:
            await self.replica.stop()
            self.replica = None

    @property
    def follower(self) -> Follower:
        assert self.replica is not None and self.replica.parts.replication.follower is not None
        return self.replica.parts.replication.follower

    @property
    def leader(self) -> Leader:
        assert self.master is not None and self.master.parts.replication.leader is not None
        return self.master.parts.replication.leader

    async def caught_up(self) -> None:
        """Until the replica has on disk what the master has on disk."""
        assert self.master is not None and self.replica is not None
        master, replica = self.master.store, self.replica.store
        await until(lambda: replica.flushed_position == master.flushed_position == master.end_position, "caught up")

    async def metadata_taken(self, rounds: int = 1) -> None:
        """Until the replica has taken over tables that were asked for after this call."""
        assert self.replica is not None and self.replica.parts.replication.metadata is not None
        metadata = self.replica.parts.replication.metadata
        wanted = metadata.rounds + rounds + 1  # one may be under way
        await until(lambda: metadata.rounds >= wanted, "tables taken over")

    def producer(self) -> Producer:
        settings = ProducerSettings(compress_from_bytes=1 << 20)
        return Producer(group="senders", nameservers=[self.nameserver], settings=settings, timeout_ms=60_000)


@asynccontextmanager
async def a_pair(folder: Path) -> AsyncIterator[Pair]:
    async with NameServer(NameServerSettings(port=0)) as names:
        pair = Pair(folder, str(names.address))
        try:
            yield pair
        finally:
            await pair.stop_replica()
            await pair.stop_master()


class CuttingProxy:
    """Forwards between replicas and a master's port for them; cuts, swallows, and tears after a number of bytes."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.accepts = True
        self.swallows_to_replica = False  # bytes arrive and go nowhere, as after a one-way cut
        self.swallows_to_master = False
        self.tear_after: int | None = None  # every connection ends when so many bytes have gone to the replica
        self.connections = 0
        self.forwarded = 0  # bytes to replicas

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Every connection ends now."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self.accepts:
            writer.transport.abort()
            return
        try:
            up, down = await asyncio.open_connection(self._target.host, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, down}
        try:
            await asyncio.gather(self._to_master(reader, down), self._to_replica(up, writer))
        except OSError:
            pass
        finally:
            self._writers -= {writer, down}
            for each in (writer, down):
                each.transport.abort()

    async def _to_master(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if not self.swallows_to_master:
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def _to_replica(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.tear_after
        while data := await reader.read(1 << 16):
            if self.swallows_to_replica:
                continue
            if left is not None:
                data = data[:left]
                left -= len(data)
            writer.write(data)
            self.forwarded += len(data)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            if left == 0:
                writer.close()  # what is written arrives, then the connection ends
                return
        writer.transport.abort()
