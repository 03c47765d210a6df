"""Our broker, with the compiled core and without, and Apache RocketMQ's, side by side in one run under the same load.

    make compare                               this, then ``compare_spark``; needs Java 17, Maven and a C compiler
    make compare ARGUMENTS="brokers sync 5"    this alone; flush mode and rounds
    make compare ARGUMENTS=spark               the other alone
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
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from interop.jars import Jars, prepare_jars

from benchmarks import compare_others, compare_spark
from benchmarks.compare_lines import less, more, print_lines
from benchmarks.generator import Outcome, Scenario, build, resident_mb, run
from benchmarks.measure import machine
from benchmarks.our_broker import MODES, our_broker
from pyromq.aio import Admin
from pyromq.testing import free_port

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
_JVM = (
    "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)  # fmt: skip


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
            compare_spark.main()
        case "brokers":
            compare_brokers(*arguments)
        case "spark":
            compare_spark.main(*arguments)
        case "others":
            compare_others.main(*arguments)
        case _:
            raise SystemExit(f"there is nothing called {part} to compare: brokers, spark or others")


def compare_brokers(flush: str = "async", rounds: str = "3") -> None:
    build()
    print(machine())
    jars = prepare_jars()
    print(f"{flush} flush, Apache RocketMQ {jars.version}, medians of {rounds} rounds")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pyromq-compare-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ours = [stack.enter_context(_pyromq(flush, mode)) for mode in MODES]
        apache = stack.enter_context(_apache(folder / "apache", flush, jars))
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
        asyncio.run(_until_a_topic_is_made(broker.nameserver))
        yield Server(f"PyroMQ {mode}", broker.port, [broker.pid], [broker.pid], time.perf_counter() - started)


@contextmanager
def _apache(folder: Path, flush: str, jars: Jars) -> Iterator[Server]:
    folder.mkdir()
    names_port, port = free_port(), free_port(neighbours=(-2, 1))
    values = {
        "brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1",
        "listenPort": port, "namesrvAddr": f"127.0.0.1:{names_port}", "storePathRootDir": folder / "store",
        "flushDiskType": "SYNC_FLUSH" if flush == "sync" else "ASYNC_FLUSH",
    }  # fmt: skip
    (folder / "names.conf").write_text(f"listenPort={names_port}\n")
    (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    started = time.perf_counter()
    with (folder / "log").open("w") as log:
        processes = [
            subprocess.Popen(_java(jars, folder, main_class, config), stdout=log, stderr=log)
            for main_class, config in (
                ("org.apache.rocketmq.namesrv.NamesrvStartup", "names.conf"),
                ("org.apache.rocketmq.broker.BrokerStartup", "broker.conf"),
            )
        ]
    try:
        asyncio.run(_until_a_topic_is_made(f"127.0.0.1:{names_port}"))
        ready_s = time.perf_counter() - started
        pids = [process.pid for process in processes]
        yield Server("Apache", port, pids[1:], pids, ready_s)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _java(jars: Jars, folder: Path, main_class: str, config: str) -> list[str]:
    where = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
    return ["java", *_JVM, *where, "-cp", jars.class_path, main_class, "-c", str(folder / config)]


async def _until_a_topic_is_made(nameserver: str) -> None:
    """Started means: a client that knows only the name server can make a topic."""
    deadline = time.monotonic() + 120
    host, _, port = nameserver.partition(":")
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            async with Admin(nameserver) as admin:
                for topic in ("load", "trip"):
                    await admin.topics.create(topic, queues=4)
                return
        except Exception:
            await asyncio.sleep(0.02)
    raise SystemExit(f"no broker was ready at {nameserver} within two minutes")


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
