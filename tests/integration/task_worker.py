"""A worker command of a framework as a process that is killed or stopped, and the ledger that its tasks write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType

STOP_S = 25

NOTE = """
import os, time

def write(line):
    fd = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND)
    os.write(fd, (line + "\\n").encode())
    os.close(fd)
"""
"""What programs of workers begin with: ``write`` adds a whole line to the ledger."""


class Ledger:
    """Lines that tasks wrote, in files that survive their processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    def count(self, word: str) -> Counter[int]:
        """How often each number was written behind a word."""
        found = (line.split() for line in self.lines())
        return Counter(int(parts[1]) for parts in found if parts[0] == word)


class TaskWorker:
    """``python -m …`` in a session of its own; leaving the block kills what is left of it."""

    def __init__(self, folder: Path, *command: str, **environment: str) -> None:
        self._log = folder / "worker.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=folder,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> TaskWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"the worker said:\n{self.log()[-8_000:]}")

    def kill(self) -> None:
        """SIGKILL, to all its processes."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def stop(self) -> int:
        """As an operator stops it; its exit code."""
        self.process.terminate()
        return self.process.wait(STOP_S)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")
