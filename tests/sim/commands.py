"""Simulations in processes of their own: they replace clocks, chance and threads of the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FIXED = {"PYTHONHASHSEED": "0", "TZ": "UTC"}


def require_fixed_hashes(arguments: list[str]) -> None:
    """Starts Python again if the order of sets is left to chance, or times are not in UTC."""
    if not _FIXED.items() <= os.environ.items():
        os.environ.update(_FIXED)
        os.execv(sys.executable, [sys.executable, *arguments])


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m tests.sim``; the caller looks at the exit code and the last line."""
    return run_python("-m", "tests.sim", *arguments)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with fixed hashes, which simulations need."""
    environment = {**os.environ, **_FIXED}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines else done.stderr
