"""The broker under load: CPU per message of the broker process, rates and latencies, with our C load generator.

    make bench-broker            (builds the generator into .cache/, needs a C compiler)
    python -m benchmarks.end_to_end [async] [sync] [pure] [core] [rounds=N] [beside=DIR]

Brokers with the compiled core and without are alive at once and take turns; least CPU, best rate and least latencies of
the rounds count. ``beside`` puts the pure broker of another checkout next to them (its ``src``), to see what a change
brought on the same machine in the same minutes. Nothing is pinned to a core: between two cores of a virtual machine a
wake-up costs more than a send; so the first line says what one costs here. Loopback only, bounded in time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from benchmarks.generator import Outcome, Scenario, build, cpu_s, resident_mb, run
from benchmarks.measure import machine
from benchmarks.our_broker import MODES, OurBroker, our_broker
from pyromq.aio import Admin

SCENARIOS = (
    Scenario("send, 1 sender waiting for each answer", "send", 1, 1),
    Scenario("send, 16 such senders", "send", 16, 1),
    Scenario("send, 64 such senders", "send", 64, 1),
    Scenario("send, pipelined 4 × 64", "send", 4, 64),
    Scenario("send, batches of 32", "batch", 4, 8, batch=32),
    Scenario("pull of 32, 4 × 4", "pull", 4, 4, batch=32),
    Scenario("from a send to the pull that waits for it", "trip", 1, 1, topic="trip"),
)
ONE = Scenario("pipelined 4 × 64, 1 topic", "send", 4, 64)
MANY = Scenario("pipelined 4 × 64, 1 024 topics", "send", 4, 64, topic="many#1024")
WARM_UP = Scenario("warm-up", "send", 4, 16, seconds=1)
IDLE = Scenario("consumers that wait", "hold", 1_000, 1, batch=32, seconds=12, topic="idle")
ROUNDS = 3
WAKE_UPS = 2_000


def main() -> None:
    build()
    words = sys.argv[1:]
    values = dict(word.split("=", 1) for word in words if "=" in word)
    rounds, beside = int(values.get("rounds", ROUNDS)), values.get("beside", "")
    modes = [word for word in words if word in MODES] or list(MODES)
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}")
    print(f"a byte there and back between two threads that sleep: p50 {_wake_up_us():.0f} µs, {rounds} rounds")
    for flush in [word for word in words if word in ("async", "sync")] or ["async", "sync"]:
        with ExitStack() as stack:
            brokers = {mode: stack.enter_context(our_broker(flush, mode)) for mode in modes}
            if beside:
                brokers["beside"] = stack.enter_context(our_broker(flush, "pure", source=beside))
            print(f"\n{flush} flush")
            for mode, broker in brokers.items():
                print(f"  {mode}: ready after {broker.ready_s:.2f} s, {resident_mb(broker.pid):.0f} MB")
            if flush == "async":
                _print_idle(modes[0], brokers[modes[0]])
            _print_rounds(brokers, SCENARIOS, rounds)
            if flush == "async":
                _print_many_topics(brokers, rounds)
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


def _print_rounds(
    brokers: dict[str, OurBroker], scenarios: tuple[Scenario, ...], rounds: int
) -> dict[str, dict[str, Outcome]]:
    """All scenarios on all brokers in turns; the best of the rounds, by scenario and broker."""
    taken: dict[str, dict[str, list[Outcome]]] = {each.name: {mode: [] for mode in brokers} for each in scenarios}
    for broker in brokers.values():
        run(WARM_UP, [broker.pid], broker.port)
    for _ in range(rounds):
        for scenario in scenarios:
            for mode, broker in brokers.items():
                taken[scenario.name][mode].append(run(scenario, [broker.pid], broker.port))
    best = {name: {mode: _best(outcomes) for mode, outcomes in each.items()} for name, each in taken.items()}
    print(f"  {'':50} {'CPU µs':>8} {'per second':>12} {'p50 µs':>8} {'p99 µs':>8}")
    for name, each in best.items():
        for mode, outcome in each.items():
            failed = f"  {outcome.errors} refused" if outcome.errors else ""
            print(
                f"  {name:42} {mode:>7} {outcome.cpu_us:8.2f} {outcome.rate:12,.0f}"
                f" {outcome.p50_us:8,} {outcome.p99_us:8,}{failed}",
                flush=True,
            )
    return best


def _best(outcomes: list[Outcome]) -> Outcome:
    cpu, rate, p50, p99, errors, share = zip(*outcomes, strict=True)
    return Outcome(min(cpu), max(rate), min(p50), min(p99), sum(errors), median(share))


def _print_many_topics(brokers: dict[str, OurBroker], rounds: int) -> None:
    """The same load on one topic and on 1 024, in turns."""
    for broker in brokers.values():
        run(replace(MANY, seconds=6), [broker.pid], broker.port)  # they are made
    best = _print_rounds(brokers, (ONE, MANY), rounds)
    for mode in brokers:
        more = best[MANY.name][mode].cpu_us / best[ONE.name][mode].cpu_us - 1
        print(f"  {mode}: 1 → 1 024 topics costs {more:+.0%} CPU per message")


def _print_idle(mode: str, broker: OurBroker) -> None:
    asyncio.run(_make_topic(broker.nameserver, IDLE.topic))
    run(IDLE, [broker.pid], broker.port)  # their groups are made
    before, started = cpu_s(broker.pid), time.perf_counter()
    run(replace(IDLE, seconds=40), [broker.pid], broker.port)
    share = (cpu_s(broker.pid) - before) / (time.perf_counter() - started)
    print(f"  {mode}: {IDLE.connections:,} idle consumers (heartbeats, offsets and long polls): {share:.1%} of a core")


async def _make_topic(nameserver: str, topic: str) -> None:
    async with Admin(nameserver) as admin:
        await admin.topics.create(topic, queues=4)


def _wake_up_us() -> float:
    """What the kernel and the machine take to wake a sleeper, twice: no answer of a broker can come sooner."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        while data := theirs.recv(1):
            theirs.send(data)

    other = threading.Thread(target=answer)
    other.start()
    took_s = []
    for _ in range(WAKE_UPS):
        started = time.perf_counter()
        ours.send(b".")
        ours.recv(1)
        took_s.append(time.perf_counter() - started)
    ours.close()
    other.join()
    theirs.close()
    return median(took_s) * 1e6


if __name__ == "__main__":
    main()
