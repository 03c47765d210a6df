"""Simulations in processes of their own: they replace clocks, chance and threads of the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m tests.sim``; the caller looks at the exit code and the last line."""
    return run_python("-m", "tests.sim", *arguments)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with fixed hashes, which simulations need."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "TZ": "UTC"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines else done.stderr
