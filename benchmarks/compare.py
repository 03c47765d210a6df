"""Our broker, with the compiled core and without, and Apache RocketMQ's, side by side in one run under the same load.

    make compare                               this, then ``compare_grpc`` and ``compare_spark``; needs Java 17, Maven
                                               and a C compiler
    make compare ARGUMENTS="brokers sync 5"    this alone; flush mode and rounds
    make compare ARGUMENTS="grpc async 3"      our gRPC port and Apache's proxy alone
    make compare ARGUMENTS=spark               the pipeline alone
    make compare ARGUMENTS=others              ``compare_others``: Redis, NATS and RabbitMQ

All run with RocketMQ's defaults for files and the same flush mode; Apache's broker has a heap of 1 GiB, G1 and its
usual compilers, and 15 seconds of load before anything counts, so that they have done their work. Scenarios alternate
between them; medians of the rounds count. Apache's broker has many threads, ours has one: where both cores are free,
rates say more about cores, and CPU per message about work.
A ratio above 1 means that ours is faster, smaller or sooner.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from interop.jars import prepare_jars

from benchmarks import compare_grpc, compare_others, compare_spark
from benchmarks.apache_servers import apache_server, until_topics_are_made
from benchmarks.compare_lines import less, more, print_lines
from benchmarks.generator import Outcome, Scenario, build, resident_mb, run
from benchmarks.measure import machine
from benchmarks.our_broker import MODES, our_broker

ROWS = (
    Scenario("send, 1 sender waiting for each answer", "send", 1, 1),
    Scenario("send, 16 such senders", "send", 16, 1),
    Scenario("send, 64 such senders", "send", 64, 1),
    Scenario("send, pipelined 4 × 64", "send", 4, 64),
    Scenario("send, batches of 32", "batch", 4, 8, batch=32),
    Scenario("pull of 32, 4 × 4", "pull", 4, 4, batch=32),
    Scenario("from a send to the pull that waits for it", "trip", 1, 1, topic="trip"),
)
WARM_UP = (
    Scenario("warm-up", "send", 16, 4, seconds=8),
    Scenario("warm-up", "batch", 4, 8, batch=32, seconds=2),
    Scenario("warm-up", "pull", 4, 4, batch=32, seconds=3),
    Scenario("warm-up", "trip", 1, 1, topic="trip", seconds=2),
)
FILL = Scenario("what is pulled", "batch", 4, 8, batch=32, seconds=1)
TOPICS = {"load": 4, "trip": 4}


@dataclass
class Server:
    """A running broker with its name server."""

    name: str
    port: int
    pids: list[int]  # of the broker, for its CPU
    all_pids: list[int]  # for memory
    ready_s: float
    idle_mb: float = 0.0
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)


def main(part: str = "", *arguments: str) -> None:
    match part:
        case "":
            compare_brokers()
            compare_grpc.main()
            compare_spark.main()
        case "brokers":
            compare_brokers(*arguments)
        case "grpc":
            compare_grpc.main(*arguments)
        case "spark":
            compare_spark.main(*arguments)
        case "others":
            compare_others.main(*arguments)
        case _:
            raise SystemExit(f"there is nothing called {part} to compare: brokers, grpc, spark or others")


def compare_brokers(flush: str = "async", rounds: str = "3") -> None:
    build()
    print(machine())
    jars = prepare_jars()
    print(f"{flush} flush, Apache RocketMQ {jars.version}, medians of {rounds} rounds")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pyromq-compare-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ours = [stack.enter_context(_pyromq(flush, mode)) for mode in MODES]
        running = stack.enter_context(apache_server(folder / "apache", flush, jars, TOPICS))
        apache = Server("Apache", running.port, [running.pid], [running.names_pid, running.pid], running.ready_s)
        servers = [*ours, apache]
        time.sleep(12)  # Apache's broker registers ten seconds after its start
        for server in servers:
            server.idle_mb = sum(map(resident_mb, server.all_pids))
            for scenario in WARM_UP:
                run(scenario, server.pids, server.port)
        for number in range(int(rounds)):
            for scenario in ROWS:
                for server in servers:
                    server.outcomes.setdefault(scenario.name, []).append(_one(scenario, server, number))
        for each in ours:
            _report(each, apache)


def _one(scenario: Scenario, server: Server, number: int) -> Outcome:
    """What is pulled was just sent: else who is faster would have the oldest messages, behind the most of others."""
    if scenario.mode == "pull":
        scenario = replace(scenario, topic=f"read-{number}")
        run(replace(FILL, topic=scenario.topic), server.pids, server.port)
    os.sync()  # what the one before has left to the kernel is not paid for by the next
    return run(scenario, server.pids, server.port)


@contextmanager
def _pyromq(flush: str, mode: str) -> Iterator[Server]:
    started = time.perf_counter()
    with our_broker(flush, mode) as broker:
        asyncio.run(until_topics_are_made(broker.nameserver, TOPICS))
        yield Server(f"PyroMQ {mode}", broker.port, [broker.pid], [broker.pid], time.perf_counter() - started)


def _report(ours: Server, apache: Server) -> None:
    lines = [
        less("start-up to the first topic", "s", ours.ready_s, apache.ready_s),
        less("idle memory with name server", "MB", ours.idle_mb, apache.idle_mb),
    ]
    for scenario in ROWS:
        name, (mine, theirs) = scenario.name, (_median(each.outcomes[scenario.name]) for each in (ours, apache))
        p99 = less(name, "p99 µs", max(1, mine.p99_us), theirs.p99_us)
        if scenario.mode == "trip":
            lines += [less(name, "p50 µs", max(1, mine.p50_us), theirs.p50_us), p99]
            continue
        lines += [
            more(name, "per second", mine.rate, theirs.rate),
            less(name, "CPU µs each", mine.cpu_us, theirs.cpu_us),
            p99,
        ]
        for server, outcome in ((ours, mine), (apache, theirs)):
            if outcome.errors:
                print(f"{server.name} refused {outcome.errors} of {name}")
    print_lines(lines, ours.name, apache.name)


def _median(outcomes: list[Outcome]) -> Outcome:
    columns = zip(*outcomes, strict=True)
    cpu, rate, p50, p99, errors, share = (median(column) for column in columns)
    return Outcome(cpu, rate, int(p50), int(p99), int(errors), share)


if __name__ == "__main__":
    main(*sys.argv[1:])
