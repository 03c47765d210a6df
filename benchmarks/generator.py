"""The C load generator: built when it is older than its source, run once per scenario."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "load" / "load.c"
GENERATOR = Path(".cache") / "pyromq-load"


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    mode: str
    connections: int
    outstanding: int
    body_bytes: int = 1024
    batch: int = 1
    seconds: float = 3
    topic: str = "load"
    queues: int = 4


class Outcome(NamedTuple):
    cpu_us: float  # of the server, per message
    rate: float  # messages a second
    p50_us: int
    p99_us: int
    errors: int
    cpu_share: float  # of one core


def build() -> None:
    if GENERATOR.exists() and GENERATOR.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    GENERATOR.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(GENERATOR), str(SOURCE)], check=True)


def run(scenario: Scenario, pids: list[int], port: int | str) -> Outcome:
    """Load on a broker; its CPU time is that of all its processes."""
    before = sum(map(cpu_s, pids))
    words = (scenario.mode, scenario.connections, scenario.outstanding, scenario.seconds, scenario.body_bytes)
    where = (scenario.batch, scenario.topic, scenario.queues)
    command = [str(GENERATOR), "127.0.0.1", str(port), *map(str, (*words, *where))]
    response = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout.split()
    _, messages, seconds, rate, p50, p99, _, errors = response
    cpu = sum(map(cpu_s, pids)) - before
    return Outcome(
        cpu / max(1, int(messages)) * 1e6, float(rate), int(p50), int(p99), int(errors), cpu / float(seconds)
    )


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads_cpu_s(pid: int) -> float:
    """Of the threads that live now, in nanoseconds; ``cpu_s`` counts in ticks, and those that have ended."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
