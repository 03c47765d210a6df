"""Peak memory of a process and of all that it started, as the kernel counts it: resident set, high-water mark."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
CAN_MEASURE = _PROC.joinpath("self/statm").exists()
_SECONDS_BETWEEN_SAMPLES = 1.0


class Peak(NamedTuple):
    """The largest resident set that a process had."""

    megabytes: int
    name: str


NONE = Peak(0, "")


def own_peak_mb() -> int:
    """Peak of this process; ``getrusage`` would count what its parent had when it was forked."""
    return _peak_mb(os.getpid())


def own_resident_mb() -> float:
    """What this process has now; 0 where nobody can tell."""
    if not CAN_MEASURE:
        return 0.0
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class DescendantPeaks:
    """Samples the processes below this one, also those whose parent has ended.

    The kernel keeps the high-water mark, so that only what a process takes after the last look at it is missed.
    """

    def __init__(self) -> None:
        self._peaks: dict[tuple[int, int], Peak] = {}  # by process id and start time
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory of processes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def largest(self, without: Collection[int]) -> Peak:
        """The peak of the largest process; those with the process ids ``without`` are left aside."""
        return max((peak for (pid, _), peak in self._peaks.items() if pid not in without), default=NONE)

    def sample(self) -> None:
        if not CAN_MEASURE:
            return
        parents = _parents()
        ours = {os.getpid(), *(pid for pid, (_, start) in parents.items() if (pid, start) in self._peaks)}
        for pid, (_, start) in parents.items():
            if pid != os.getpid() and _is_below(pid, ours, parents):
                before = self._peaks.get((pid, start), NONE)
                self._peaks[pid, start] = max(before, Peak(_peak_mb(pid), _name(pid) or before.name))

    def _run(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_SAMPLES):
            self.sample()


def _parents() -> dict[int, tuple[int, int]]:
    """Every process with its parent and its start time."""
    found = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(entry.name)] = int(fields[1]), int(fields[19])
    return found


def _is_below(pid: int, ancestors: set[int], parents: dict[int, tuple[int, int]]) -> bool:
    while pid not in ancestors:
        if pid not in parents or pid <= 1:
            return False
        pid = parents[pid][0]
    return True


def _peak_mb(pid: int) -> int:
    try:
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) >> 10
    except OSError:  # it has ended
        pass
    return 0


def _name(pid: int) -> str:
    """The command without folders and without options of an interpreter: ``java org.apache.spark…``."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    program = words[0].rpartition("/")[2].split(" ")[0]
    last = [word.rpartition("/")[2] for word in words[1:] if word and not word.startswith("-") and " " not in word]
    return " ".join([program, *last[:2]])
