"""What an endpoint shows: servers, as far as it needs to know them, and the process itself."""

from __future__ import annotations

import os
import platform
from collections.abc import Generator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Protocol

from pyromq import compiled_core
from pyromq.metrics import process_table as table
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.samples import Family, Labels, ServerSamples, Value

_STATUS: Final = Path("/proc/self/status")
_FILES: Final = Path("/proc/self/fd")
_MEMORY: Final = {"RssAnon": "own", "RssFile": "mapped", "RssShmem": "shared"}


class MetricsSource(Protocol):
    """A server whose metrics and health are shown."""

    def startup(self) -> Startup:
        """Progress of the start; called from any thread."""

    def health(self) -> HealthReport:
        """Health of the server; called on its loop."""

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        """On its loop, in steps."""


class ProcessFacts:
    """Metrics of this process itself: CPU, memory, file descriptors, start time."""

    def __init__(self) -> None:
        core = "pure" if compiled_core.core is None else "core"
        self._build: Labels = (_own_version(), platform.python_version(), core)

    def families(self, uptime_s: float) -> list[Family]:
        used = os.times()
        found = [
            Family(table.BUILD_INFO, [(self._build, 1)]),
            Family(table.UPTIME, [((), uptime_s)]),
            Family(table.CPU, [(("user",), used.user), (("system",), used.system)]),
        ]
        if memory := memory_bytes():
            found.append(Family(table.MEMORY, memory))
        try:
            found.append(Family(table.OPEN_FILES, [((), sum(1 for _ in _FILES.iterdir()))]))
        except OSError:  # not on Linux
            pass
        return found


def memory_bytes() -> list[tuple[Labels, Value]]:
    """Resident memory by what the process would miss; empty where the system does not say."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    values = {kind: fields.get(name, "").split() for name, kind in _MEMORY.items()}
    return [((kind,), int(words[0]) * 1024) for kind, words in values.items() if words]


def _own_version() -> str:
    try:
        return version("pyromq")
    except PackageNotFoundError:  # from a folder that was not installed
        return "unknown"
