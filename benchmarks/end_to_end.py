"""The broker under load: CPU per message of the broker process, rates and latencies, with our C load generator.

    make bench-broker            (builds the generator into .cache/, needs a C compiler)
    python -m benchmarks.end_to_end [async] [sync] [pure] [core]

Where the compiled core is installed, each flush mode is measured with it and without it, one broker after the other.
Neither is pinned to a core: between two cores of a virtual machine a wake-up costs more than a send. Loopback only,
bounded in time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

from benchmarks.generator import Scenario, build, cpu_s, resident_mb, run
from benchmarks.measure import machine
from pyromq.aio import Admin
from pyromq.compiled_core import SWITCH, core

SCENARIOS = (
    Scenario("warm-up", "send", 4, 16, seconds=1),
    Scenario("send, 1 sender waiting for each answer", "send", 1, 1),
    Scenario("send, 16 such senders", "send", 16, 1),
    Scenario("send, pipelined 4 × 64", "send", 4, 64),
    Scenario("send, batches of 32", "batch", 4, 8, batch=32),
    Scenario("pull of 32, 4 × 4", "pull", 4, 4, batch=32),
    Scenario("from a send to the pull that waits for it", "trip", 1, 1, topic="trip"),
)
MANY = Scenario("warm-up, 1 024 topics are made", "send", 4, 64, seconds=6, topic="many#1024")
IDLE = Scenario("consumers that wait", "hold", 1_000, 1, batch=32, seconds=12, topic="idle")


def main() -> None:
    build()
    print(machine())
    named = [word for word in sys.argv[1:] if word in ("async", "sync")] or ["async", "sync"]
    modes = [word for word in sys.argv[1:] if word in ("pure", "core")] or (["core", "pure"] if core else ["pure"])
    for flush, mode in itertools.product(named, modes):
        folder = tempfile.mkdtemp(prefix="pyromq-bench-")
        command = [sys.executable, "-m", "pyromq", "up", "--no-console", "--data", folder, "--flush", flush]
        started = time.perf_counter()
        broker = subprocess.Popen(
            [*command, "--nameserver-port", "0", "--broker-port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, SWITCH: "1" if mode == "pure" else ""},
        )
        try:
            assert broker.stdout is not None
            found = re.search(r"nameserver=(\S+) broker=127\.0\.0\.1:(\d+)", broker.stdout.readline())
            assert found, "the broker did not start"
            ready_s = time.perf_counter() - started
            with_core = "with the compiled core" if mode == "core" else "pure Python"
            print(f"\n{flush} flush, {with_core}: ready after {ready_s:.2f} s, {resident_mb(broker.pid):.0f} MB")
            print(f"{'':48} {'CPU µs':>8} {'per second':>12} {'p50 µs':>8} {'p99 µs':>8}")
            if flush == "async" and mode == modes[0]:
                _print_idle(broker.pid, found[1], found[2])
            for scenario in SCENARIOS:
                _print(scenario, broker.pid, found[2])
            if flush == "async":
                _print_many_topics(broker.pid, found[2])
        finally:
            broker.terminate()
            broker.wait(30)
            shutil.rmtree(folder)


def _print(scenario: Scenario, pid: int, port: str) -> float:
    outcome = run(scenario, [pid], port)
    failed = f"  {outcome.errors} refused" if outcome.errors else ""
    print(
        f"  {scenario.name:46} {outcome.cpu_us:8.2f} {outcome.rate:12,.0f}"
        f" {outcome.p50_us:8,} {outcome.p99_us:8,}{failed}",
        flush=True,
    )
    return outcome.cpu_us


def _print_many_topics(pid: int, port: str) -> None:
    """The same load on one topic and on 1 024, in turns."""
    _print(MANY, pid, port)
    one, many = [], []
    for _ in range(3):
        one.append(_print(replace(MANY, name="1 topic", topic="load", seconds=3), pid, port))
        many.append(_print(replace(MANY, name="1 024 topics", seconds=3), pid, port))
    print(f"  1 → 1 024 topics costs {min(many) / min(one) - 1:+.0%} CPU per message")


def _print_idle(pid: int, nameserver: str, port: str) -> None:
    asyncio.run(_make_topic(nameserver, IDLE.topic))
    run(IDLE, [pid], port)  # their groups are made
    before, started = cpu_s(pid), time.perf_counter()
    run(replace(IDLE, seconds=40), [pid], port)
    share = (cpu_s(pid) - before) / (time.perf_counter() - started)
    print(f"  {IDLE.connections:,} idle consumers (heartbeats, offsets and long polls): {share:.1%} of a core")


async def _make_topic(nameserver: str, topic: str) -> None:
    async with Admin(nameserver) as admin:
        await admin.create_topic(topic, queues=4)


if __name__ == "__main__":
    main()
