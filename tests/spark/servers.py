"""``pyromq up`` as a process that can be killed and started again at the same addresses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self


class Servers:
    """``with Servers(folder) as servers``; the first start chooses the ports. ``flags`` are those of ``up``."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder, self._flags, self._ports = folder, flags, ("0", "0")
        self.nameserver = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def start(self) -> None:
        names, broker = self._ports
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pyromq", "up", "--no-console", "--data", str(self._folder)),
                *("--nameserver-port", names, "--broker-port", broker, *self._flags),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        ready = dict(part.split("=") for part in self._process.stdout.readline().split()[1:])
        self.nameserver = ready["nameserver"]
        self._ports = ready["nameserver"].rpartition(":")[2], ready["broker"].rpartition(":")[2]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
