"""``pyromq up`` as a process that can be killed and started again on the same ports and data."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

READY_S = 60
READY = re.compile(r"ready nameserver=(\S+):(\d+) broker=\S+:(\d+)")


def lasting_port() -> int:
    """A free port that the system gives to nobody by itself: still free when its server was killed and comes back."""
    while True:
        port = random.randrange(12_000, 32_000)  # below the ports of connections
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class UpProcess:
    """``async with UpProcess(folder) as server``; it keeps its ports. ``flags`` are those of ``up``."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder, self._flags = folder, flags
        self._ports = (str(lasting_port()), str(lasting_port()))
        self._process: asyncio.subprocess.Process | None = None
        self.nameserver = ""

    async def __aenter__(self) -> UpProcess:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Again with the same ports: a connection of somebody else may have one of them for a moment."""
        line, until_s = "", asyncio.get_running_loop().time() + READY_S
        while not line and asyncio.get_running_loop().time() < until_s:
            line = await self._start()
            if not line and not self.nameserver:
                self._ports = (str(lasting_port()), str(lasting_port()))  # somebody else was faster
        found = READY.match(line)
        assert found, f"not ready: {line!r}"
        self.nameserver, self._ports = f"{found[1]}:{found[2]}", (found[2], found[3])

    async def _start(self) -> str:
        """The line that it prints when it is ready; empty when it ended instead."""
        names, broker = self._ports
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "up", "--no-console", "--data", str(self._folder)),
            *("--nameserver-port", names, "--broker-port", broker, *self._flags),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        line = (await asyncio.wait_for(self._process.stdout.readline(), READY_S)).decode()
        if not line:
            await self._process.wait()
        return line

    @property
    def broker_port(self) -> str:
        return self._ports[1]

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
