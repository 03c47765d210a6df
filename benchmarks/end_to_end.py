"""The broker under load: CPU per message of the broker process, rates and latencies, with our C load generator.

    make bench-broker            (builds the generator into .cache/, needs a C compiler)

Broker and generator are pinned to one core each where ``taskset`` exists. Loopback only, bounded in time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import machine

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


SCENARIOS = (
    Scenario("warm-up", "send", 4, 16, seconds=1),
    Scenario("send, 1 sender waiting for each answer", "send", 1, 1),
    Scenario("send, 16 such senders", "send", 16, 1),
    Scenario("send, pipelined 4 × 64", "send", 4, 64),
    Scenario("send, batches of 32", "batch", 4, 8, batch=32),
    Scenario("pull of 32, 4 × 4", "pull", 4, 4, batch=32),
)


class Outcome(NamedTuple):
    cpu_us: float
    rate: float
    p50_us: int
    p99_us: int
    errors: int


def build() -> None:
    """Compile the generator if it is older than its source."""
    if GENERATOR.exists() and GENERATOR.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    GENERATOR.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(GENERATOR), str(SOURCE)], check=True)


def main() -> None:
    build()
    print(machine())
    for flush in sys.argv[1:] or ("async", "sync"):
        folder = tempfile.mkdtemp(prefix="pyromq-bench-")
        command = [sys.executable, "-m", "pyromq", "up", "--data", folder, "--flush", flush, "--no-console"]
        broker = subprocess.Popen(
            [*_pinned(0), *command, "--nameserver-port", "0", "--broker-port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert broker.stdout is not None
            found = re.search(r"broker=127\.0\.0\.1:(\d+)", broker.stdout.readline())
            assert found, "the broker did not start"
            print(f"\n{flush} flush{'':38} {'CPU µs':>8} {'per second':>12} {'p50 µs':>8} {'p99 µs':>8}")
            for scenario in SCENARIOS:
                outcome = _run(scenario, broker.pid, found[1])
                failed = f"  {outcome.errors} refused" if outcome.errors else ""
                print(
                    f"  {scenario.name:46} {outcome.cpu_us:8.2f} {outcome.rate:12,.0f}"
                    f" {outcome.p50_us:8,} {outcome.p99_us:8,}{failed}",
                    flush=True,
                )
        finally:
            broker.terminate()
            broker.wait(30)
            shutil.rmtree(folder)


def _run(scenario: Scenario, pid: int, port: str) -> Outcome:
    before = _cpu_s(pid)
    words = (scenario.mode, scenario.connections, scenario.outstanding, scenario.seconds, scenario.body_bytes)
    command = [*_pinned(1), str(GENERATOR), "127.0.0.1", port, *map(str, (*words, scenario.batch, "load", 4))]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    _, messages, _, rate, p50, p99, _, errors = answer
    return Outcome((_cpu_s(pid) - before) / int(messages) * 1e6, float(rate), int(p50), int(p99), int(errors))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []


if __name__ == "__main__":
    main()
