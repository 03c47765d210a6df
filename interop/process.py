"""Child processes that end with us: started in a folder, watched, stopped politely, killed when that does not help."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_STOP_TIMEOUT_S: Final = 30
_POLL_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1


class StartFailedError(Exception):
    """A process ended, or was not ready in time; the end of its log is part of the text."""


class Child:
    """One process with its output in a file of ``folder``."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, *, env: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self._log_path = name, folder / f"{name}.log"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def log_tail(self, bytes_max: int = 3_000) -> str:
        lines = self._log_path.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if " |-" not in line)[-bytes_max:]  # not what logging says of itself

    def wait_ready(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Asks until the answer is yes. Raises StartFailedError."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running:
                raise StartFailedError(f"{self.name} ended with {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise StartFailedError(f"{self.name} was not ready within {timeout_s} s:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when it does not end."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


def _end_with_parent() -> None:
    """Linux kills the child when its parent is gone, even if that was killed itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def python_path() -> str:
    """For children that import this package."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parent.parent)]))
