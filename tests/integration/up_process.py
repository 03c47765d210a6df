"""``pyromq up`` as a process that can be killed and started again on the same ports and data."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

READY = re.compile(r"ready nameserver=(\S+):(\d+) broker=\S+:(\d+)")


class UpProcess:
    """``async with UpProcess(folder) as server``; the first start chooses the ports. ``flags`` are those of ``up``."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder, self._flags = folder, flags
        self._ports = ("0", "0")
        self._process: asyncio.subprocess.Process | None = None
        self.nameserver = ""

    async def __aenter__(self) -> UpProcess:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.kill()

    async def start(self) -> None:
        names, broker = self._ports
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "up", "--data", str(self._folder)),
            *("--nameserver-port", names, "--broker-port", broker, *self._flags),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        line = (await asyncio.wait_for(self._process.stdout.readline(), 60)).decode()
        found = READY.match(line)
        assert found, f"not ready: {line!r}"
        self.nameserver, self._ports = f"{found[1]}:{found[2]}", (found[2], found[3])

    @property
    def broker_port(self) -> str:
        return self._ports[1]

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
