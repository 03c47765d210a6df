"""Servers under attack: ``pyromq up`` as a process, an honest client beside it, and what both say afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyromq.testing import AsyncServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import Command, decode_command, encode_request
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, sign

LONG = os.environ.get("PYROMQ_HOSTILE") == "long"
STALL_MS_MAX = 100  # the promise: no request keeps the loop from the others for longer
READY_S = 120  # tens of thousands of topics, on a busy machine


ROOT = ("hostile-root", "hostile-root-secret")  # the super user of servers with access control
ACCESS_CONTROL = tuple(
    word
    for server in ("broker", "nameserver")
    for word in (
        *("--set", f"{server}.access.enabled=true"),
        *("--set", f'{server}.access.initial_user={{"username":"{ROOT[0]}","password":"{ROOT[1]}"}}'),
    )
)


def signed(ext: dict[str, str], body: bytes, user: str, secret: str) -> dict[str, str]:
    """The fields as a user of a server with access control sends them."""
    fields = {**ext, ACCESS_KEY: user}
    return {**fields, SIGNATURE: sign(fields, body, secret)}


def count(short: int, long: int) -> int:
    """How often an attack is tried: less in ``make test`` than in ``make hostile``."""
    return long if LONG else short


class Victim(AsyncServerProcess):
    """``pyromq up`` whose log tests read for tracebacks and for what operators were told."""

    def __init__(self, folder: Path, *flags: str, environment: dict[str, str] | None = None, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.data: Path = options.pop("data", folder / "data")
        super().__init__("up", *flags, data=self.data, env=environment, ready_s=READY_S, **options)

    @property
    def metrics(self) -> str:
        return self.addresses["metrics"].removeprefix("http://").partition("/")[0]

    @property
    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the server is gone")

    async def stalls(self) -> dict[str, Any]:
        """What broker and name server noted themselves: CPU time that one request took from the loop."""
        async with Peer(self.broker) as peer:
            response = await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table: dict[str, Any] = json.loads(response.body)["table"]
        return {name: table[name] for name in ("loopStalls", "loopStallWorstMs", "loopStallCode") if name in table}


@asynccontextmanager
async def victim(folder: Path, *flags: str, **options: Any) -> AsyncIterator[Victim]:
    async with Victim(folder, *flags, **options) as server:
        yield server


async def no_stall(server: Victim) -> None:
    """By the broker's own count, if it keeps one."""
    stalls = await server.stalls()
    assert float(stalls.get("loopStallWorstMs", 0)) <= STALL_MS_MAX, stalls


class Peer:
    """A raw connection: whole frames when it behaves, any bytes when it does not."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._decoder = FrameDecoder()
        self._frames: list[Command] = []
        self._number = 0

    async def __aenter__(self) -> Peer:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.writer.transport.abort()

    def send(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any) -> int:
        self._number += 1
        self.writer.write(encode_request(code, self._number, ext or {}, body=body, **more))
        return self._number

    async def receive(self, timeout_s: float = 60) -> Command:
        while not self._frames:
            data = await asyncio.wait_for(self.reader.read(1 << 16), timeout_s)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._frames += map(decode_command, self._decoder.feed(data))
        return self._frames.pop(0)

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any) -> Command:
        self.send(code, ext, body, **more)
        await self.writer.drain()
        return await self.receive()


@dataclass
class Attack:
    """What one attack did: the row of the table in docs/reliability.md."""

    name: str
    count: int
    before_mb: float = 0.0
    after_mb: float = 0.0
    honest: dict[str, Any] = field(default_factory=dict)

    def row(self) -> str:
        worst = max(self.honest.get("nameserver_ms", 0.0), self.honest.get("broker_ms", 0.0))
        return json.dumps([self.name, self.count, worst, round(self.before_mb), round(self.after_mb)])


@asynccontextmanager
async def beside_honest_client(
    server: Victim, name: str, tries: int, record: Any, *credentials: str
) -> AsyncIterator[Attack]:
    """Around an attack: an honest client works all the time, and is served."""
    honest = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.honest", server.nameserver, server.broker),
        *(str(server.pid), *credentials),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert honest.stdin is not None and honest.stdout is not None
    assert (await asyncio.wait_for(honest.stdout.readline(), 90)) == b"ready\n"
    attack = Attack(name, tries, before_mb=server.rss_mb)
    try:
        yield attack
        honest.stdin.close()
        attack.honest = json.loads(await asyncio.wait_for(honest.stdout.readline(), 60))
        attack.after_mb = server.rss_mb
        record("hostile", attack.row())
    finally:
        if honest.returncode is None:
            honest.kill()
            await honest.wait()
    assert attack.honest["lost"] == 0, "the honest client was cut off"
    assert set(attack.honest["broker_codes"]) == {"0"}, attack.honest
    assert "Traceback" not in server.log, server.log[server.log.index("Traceback") - 500 :][:4000]
