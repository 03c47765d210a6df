"""How a number is taken: CPU time of this process, the best of some repetitions, and the machine it was taken on."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a report: ``cpu_us`` per operation, operations per second of wall time, MB/s where bytes count."""

    name: str
    cpu_us: float
    rate: float
    megabytes: float | None = None


def measure(name: str, run: Callable[[], int], *, repeat: int = 3, bytes_per_operation: float = 0) -> Row:
    """``run`` does some operations and returns how many; the repetition with the least CPU counts."""
    best: tuple[float, float] | None = None
    for _ in range(repeat):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        operations = run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        taken = (cpu / operations, wall / operations)
        best = min(best, taken) if best else taken
    assert best is not None
    megabytes = bytes_per_operation / best[1] / 1e6 if bytes_per_operation else None
    return Row(name, best[0] * 1e6, 1 / best[1], megabytes)


def print_rows(title: str, rows: list[Row]) -> None:
    print(f"\n{title}\n{'':44} {'CPU µs each':>12} {'per second':>14} {'MB/s':>9}")
    for row in rows:
        megabytes = f"{row.megabytes:9,.0f}" if row.megabytes else ""
        print(f"  {row.name:42} {row.cpu_us:12.2f} {row.rate:14,.0f} {megabytes}")


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in _cpu_info() if line.startswith("model name")), platform.machine()
    )
    return (
        f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.release()}"
    )


def _cpu_info() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []
