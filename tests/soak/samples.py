"""What processes of a run use, as the system tells: memory, descriptors, threads, CPU; and disk of folders.

    samples.jsonl     a line every few seconds: counters of the load so far, times since the line before, processes
    events.jsonl      faults with how long they took, late messages, problems

Lines are written as the run goes on, so a run that was killed has its record, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessSample(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process at one moment."""

    pid: int
    memory: int  # resident bytes
    descriptors: int
    threads: int
    cpu_s: float  # user and system, since it began
    private: int = 0  # resident bytes without mapped files; 0 in the record of a run that did not ask


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file. Counters count from the begin of the run, times are those since the line before."""

    at: float  # seconds of the wall clock
    elapsed_s: float
    acknowledged: int
    deliveries: int
    duplicates: int
    dead: int
    outstanding: int
    oldest_s: float
    late: int
    one_copy: int
    failed: int
    unknown: int
    faults: int
    problems: int
    send_ms: tuple[float, float, float]  # p50, p99, most
    wait_ms: tuple[float, float, float]  # from acknowledgement to first delivery
    remembered: int
    processes: dict[str, ProcessSample]
    disk: dict[str, int]  # bytes by member


def sample_process(pid: int) -> ProcessSample | None:
    """None when the process is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        _, resident, mapped = map(int, Path(f"/proc/{pid}/statm").read_text().split()[:3])
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return None
    cpu_s = (int(words[11]) + int(words[12])) / _TICKS
    return ProcessSample(
        pid=pid,
        memory=resident * _PAGE,
        descriptors=descriptors,
        threads=int(words[17]),
        cpu_s=cpu_s,
        private=(resident - mapped) * _PAGE,
    )


def disk_bytes(folder: Path) -> int:
    """Blocks that its files occupy; holes of sparse files are none."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(Path(place) / name).st_blocks * 512
            except OSError:  # deleted meanwhile
                continue
    return found


def quantiles_ms(times_s: Iterable[float]) -> tuple[float, float, float]:
    """The middle, 99 of a hundred, and the most, in milliseconds; zeros without any."""
    ordered = sorted(times_s)
    if not ordered:
        return 0.0, 0.0, 0.0
    places = [len(ordered) // 2, min(len(ordered) - 1, int(len(ordered) * 0.99)), len(ordered) - 1]
    p50, p99, most = (round(ordered[place] * 1000, 2) for place in places)
    return p50, p99, most


class RunFolder:
    """Files of one run, and what they say when they are read again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def write_sample(self, sample: Sample) -> None:
        self._append("samples.jsonl", msgspec.json.encode(sample))

    def write_event(self, kind: str, **facts: Any) -> None:
        self._append("events.jsonl", msgspec.json.encode({"kind": kind, **facts}))

    def _append(self, name: str, line: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / name).open("ab") as file:
            file.write(line + b"\n")

    def samples(self) -> list[Sample]:
        """A torn last line counts for nothing."""
        return [msgspec.json.decode(line, type=Sample) for line in self._lines("samples.jsonl")]

    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self._lines("events.jsonl")]

    def _lines(self, name: str) -> Sequence[bytes]:
        file = self.path / name
        return file.read_bytes().split(b"\n")[:-1] if file.exists() else []
