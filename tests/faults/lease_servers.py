"""Lease stores as servers of our own that can be lost, or set back to an older state: real etcd and PostgreSQL."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

import psycopg

from pyromq.net import Address
from pyromq.testing import free_port
from tests.integration.lease_stores import await_health
from tests.integration.postgres import postgres
from tests.integration.postgres import program as postgres_program

_TABLE: Final = "pyromq_leases"


class LeaseServer(Protocol):
    """A running lease store. ``addresses`` are where it listens; agents reach it through proxies of their own."""

    addresses: Sequence[Address]

    def url(self, addresses: Sequence[Address]) -> str:
        """What ``pyromq failover --store`` takes to reach it there."""

    async def save(self) -> None:
        """Takes a copy of its state."""

    async def set_back(self) -> None:
        """Puts the copy in place of its state."""

    async def empty(self) -> None:
        """Its state is lost; it serves an empty one."""


class EtcdServer:
    """etcd of one node or of several, each a process with a folder of its own."""

    def __init__(self, folder: Path, nodes: int) -> None:
        program = shutil.which("etcd")
        assert program is not None, "etcd is not installed (apt-get install etcd-server etcd-client)"
        self._program, self._folder = program, folder
        self.addresses: Sequence[Address] = [Address("127.0.0.1", free_port()) for _ in range(nodes)]
        self._peers = [f"http://127.0.0.1:{free_port()}" for _ in range(nodes)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lives = 0

    def url(self, addresses: Sequence[Address]) -> str:
        return "etcd:" + ",".join(f"http://{each}" for each in addresses)

    @property
    def _members(self) -> str:
        return ",".join(f"node{number}={peer}" for number, peer in enumerate(self._peers))

    def _data(self, number: int) -> Path:
        return self._folder / f"node{number}-life{self._lives}"

    def start(self) -> None:
        for number, (address, peer) in enumerate(zip(self.addresses, self._peers, strict=True)):
            command = [
                *(self._program, "--name", f"node{number}", "--data-dir", str(self._data(number))),
                *("--listen-client-urls", f"http://{address}", "--advertise-client-urls", f"http://{address}"),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", self._members, "--initial-cluster-token", f"life{self._lives}"),
            ]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._processes.append(process)
        for address, process in zip(self.addresses, self._processes, strict=True):
            await_health(f"http://{address}", process)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(30)
        self._processes.clear()

    def _etcdctl(self, *words: str) -> None:
        subprocess.run(["etcdctl", *words], check=True, capture_output=True, timeout=60, env={"ETCDCTL_API": "3"})

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshot"

    def _take_snapshot(self) -> None:
        self._snapshot.unlink(missing_ok=True)
        self._etcdctl("--endpoints", f"http://{self.addresses[0]}", "snapshot", "save", str(self._snapshot))

    def _begin_anew(self, *, restore: bool) -> None:
        self.stop()
        self._lives += 1
        for number, peer in enumerate(self._peers) if restore else ():
            self._etcdctl(
                *("snapshot", "restore", str(self._snapshot), "--name", f"node{number}"),
                *("--data-dir", str(self._data(number)), "--initial-cluster", self._members),
                *("--initial-cluster-token", f"life{self._lives}", "--initial-advertise-peer-urls", peer),
            )
        self.start()

    async def save(self) -> None:
        await asyncio.to_thread(self._take_snapshot)

    async def set_back(self) -> None:
        await asyncio.to_thread(self._begin_anew, restore=True)

    async def empty(self) -> None:
        await asyncio.to_thread(self._begin_anew, restore=False)


class PostgresServer:
    """One database; a copy of its table of leases is what a dump of it has."""

    def __init__(self, address: str) -> None:
        user, _, rest = address.partition("@")
        place, _, self._database = rest.partition("/")
        self._user = user
        self.addresses: Sequence[Address] = [Address.parse(place)]
        self._rows: list[tuple[object, ...]] = []

    def url(self, addresses: Sequence[Address]) -> str:
        return f"postgresql://{self._user}@{addresses[0]}/{self._database}"

    def _connected(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(self.addresses))

    def _take_copy(self) -> None:
        with self._connected() as connection:
            self._rows = connection.execute(f"SELECT name, version, record FROM {_TABLE}").fetchall()

    def _put_back(self) -> None:
        with self._connected() as connection:
            connection.execute(f"DELETE FROM {_TABLE}")
            for row in self._rows:
                connection.execute(f"INSERT INTO {_TABLE} (name, version, record) VALUES (%s, %s, %s)", row)

    def _drop(self) -> None:
        with self._connected() as connection:
            connection.execute(f"DROP TABLE {_TABLE}")

    async def save(self) -> None:
        await asyncio.to_thread(self._take_copy)

    async def set_back(self) -> None:
        await asyncio.to_thread(self._put_back)

    async def empty(self) -> None:
        await asyncio.to_thread(self._drop)


@contextmanager
def _etcd(folder: Path, nodes: int) -> Iterator[LeaseServer]:
    folder.mkdir(parents=True, exist_ok=True)
    server = EtcdServer(folder, nodes)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _postgres(folder: Path) -> Iterator[LeaseServer]:
    with postgres() as address:
        yield PostgresServer(address)


LEASE_SERVERS: Final[dict[str, Callable[[Path], AbstractContextManager[LeaseServer]]]] = {
    "etcd": lambda folder: _etcd(folder, 1),
    "etcd of three": lambda folder: _etcd(folder, 3),
    "PostgreSQL": _postgres,
}


def is_installed(kind: str) -> bool:
    """Whether this machine has the programs that a kind of lease store needs."""
    if kind == "PostgreSQL":
        return postgres_program("postgres") is not None
    return shutil.which("etcd") is not None and shutil.which("etcdctl") is not None
