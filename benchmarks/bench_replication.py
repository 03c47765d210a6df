"""Replication on one machine: what waiting for a replica costs, what a replica costs, how fast one catches up.

    make bench-replication       (builds the load generator into .cache/, needs a C compiler)
    python -m benchmarks.bench_replication [async] [sync] [catch-up] [pure] [core]

One broker without replicas, one sync master and its replica are alive at once and get the same load in turns, so that
their rates can be divided by each other even on a busy machine: medians of the rounds. Then an empty replica takes over
the log of an idle master. CPU is that of whole processes, for each message of 1 KiB, least of the rounds. Loopback
only, bounded in time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.generator import Outcome, Scenario, build, cpu_s, run
from benchmarks.measure import machine
from pyromq.clock import SystemClock
from pyromq.compiled_core import SWITCH, core
from pyromq.net import Address, open_connection
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies, java_json

WARM_UP: Final = Scenario("warm-up", "send", 4, 16, seconds=1)
SCENARIOS: Final = (
    Scenario("sends, pipelined 4 × 64", "send", 4, 64, seconds=2),
    Scenario("sends, pipelined 16 × 128", "send", 16, 128, seconds=2),
    Scenario("sends, 16 senders waiting for each answer", "send", 16, 1, seconds=2),
    Scenario("sends, batches of 32", "batch", 4, 8, batch=32, seconds=2),
)
FILLING: Final = Scenario("filling the log", "batch", 4, 8, batch=32, seconds=1)
PARTS: Final = ("sync", "async", "catch-up")
ROUNDS: Final = 3
CATCH_UP_BYTES: Final = 400_000_000
_PATIENCE_S: Final = 60.0
_NOBODY: Final = "127.0.0.1:9"  # in place of a name server


class Server(NamedTuple):
    """A broker process."""

    pid: int
    address: str

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2]


def main() -> None:
    build()
    print(f"{machine()}; load average {_load()}")
    parts = [word for word in sys.argv[1:] if word in PARTS] or PARTS
    modes = [word for word in sys.argv[1:] if word in ("pure", "core")] or (["core", "pure"] if core else ["pure"])
    for mode, part in itertools.product(modes, parts):
        named = "catch-up" if part == "catch-up" else f"sync master, {part} flush"
        print(f"\n{named}, {'with the compiled core' if mode == 'core' else 'pure Python'}")
        with ExitStack() as servers:
            if part == "catch-up":
                _print_catch_up(servers, mode)
            else:
                _print_waiting(servers, mode, part)


def _print_waiting(servers: ExitStack, mode: str, flush: str) -> None:
    alone = servers.enter_context(_broker(mode, "--flush", flush))
    master = servers.enter_context(_broker(mode, "--flush", flush, "--role", "sync-master"))
    replica = servers.enter_context(_broker(mode, *_following(master)))
    _wait_until_even(master, replica)
    for server in (alone, master):
        run(WARM_UP, [server.pid], server.port)
    print(f"{'':44} {'alone /s':>9} {'SYNC /s':>9} {'ratio':>6} {'alone':>7} {'master':>7} {'replica':>8} µs CPU")
    for scenario in SCENARIOS:
        rounds = [_in_turns(scenario, alone, master, replica) for _ in range(ROUNDS)]
        ratio = median(each.waiting.rate / each.alone.rate for each in rounds)
        rates = median(each.alone.rate for each in rounds), median(each.waiting.rate for each in rounds)
        costs = min(each.alone.cpu_us for each in rounds), min(each.waiting.cpu_us for each in rounds)
        failed = sum(each.waiting.errors for each in rounds)
        print(
            f"  {scenario.name:42} {rates[0]:9,.0f} {rates[1]:9,.0f} {ratio:6.0%}"
            f" {costs[0]:7.2f} {costs[1]:7.2f} {min(each.replica_us for each in rounds):8.2f}"
            f"  load {_load()}{f'  {failed} not confirmed' if failed else ''}",
            flush=True,
        )


class Round(NamedTuple):
    """Both outcomes, and CPU of the replica for each message, until it has all of them."""

    alone: Outcome
    waiting: Outcome
    replica_us: float


def _in_turns(scenario: Scenario, alone: Server, master: Server, replica: Server) -> Round:
    without = run(scenario, [alone.pid], alone.port)
    before = cpu_s(replica.pid)
    waiting = run(scenario, [master.pid], master.port)
    _wait_until_even(master, replica)
    messages = waiting.rate * scenario.seconds
    return Round(without, waiting, (cpu_s(replica.pid) - before) / messages * 1e6)


def _print_catch_up(servers: ExitStack, mode: str) -> None:
    master = servers.enter_context(_broker(mode, "--flush", "async", "--role", "async-master"))
    messages = 0.0
    while int(_facts(master)["commitLogMaxOffset"]) < CATCH_UP_BYTES:
        messages += run(FILLING, [master.pid], master.port).rate * FILLING.seconds
    for _ in range(ROUNDS):
        with _broker(mode, *_following(master)) as replica:
            servers_before = cpu_s(replica.pid), cpu_s(master.pid)
            begins = _wait_until(lambda: _follows(replica))
            ends = _wait_until(lambda: _is_even(master, replica))
            taken = int(ends.facts["replicationFlushed"]) - int(begins.facts["replicationFlushed"])
            seconds = ends.at_s - begins.at_s
            costs = cpu_s(replica.pid) - servers_before[0], cpu_s(master.pid) - servers_before[1]
        print(
            f"  {taken / 1e6:,.0f} MB in {seconds:.2f} s, {taken / 1e6 / seconds:,.0f} MB/s;"
            f" CPU for each message {costs[0] / messages * 1e6:.2f} µs of the replica,"
            f" {costs[1] / messages * 1e6:.2f} µs of the master; load {_load()}",
            flush=True,
        )


def _following(master: Server) -> tuple[str, ...]:
    return ("--role", "replica", "--broker-id", "1", "--master", master.address)


@contextmanager
def _broker(mode: str, *words: str) -> Iterator[Server]:
    environment = {SWITCH: "1" if mode == "pure" else ""}
    with ServerProcess("broker", "--no-metrics", "-n", _NOBODY, "--log", "error", *words, env=environment) as server:
        yield Server(server.pid, server.broker)


class Seen(NamedTuple):
    """What a broker told, and when."""

    at_s: float
    facts: dict[str, str]


def _wait_until_even(master: Server, replica: Server) -> None:
    _wait_until(lambda: _is_even(master, replica))


def _follows(replica: Server) -> dict[str, str] | None:
    facts = _facts(replica)
    return facts if facts["replicationState"] == "FOLLOWING" else None


def _is_even(master: Server, replica: Server) -> dict[str, str] | None:
    """The replica has on disk what the master has written."""
    end, facts = _facts(master)["commitLogMaxOffset"], _follows(replica)
    return facts if facts and facts["replicationFlushed"] == end else None


def _wait_until(look: Callable[[], dict[str, str] | None]) -> Seen:
    ends_s = time.perf_counter() + _PATIENCE_S
    while (facts := look()) is None:
        if time.perf_counter() > ends_s:
            sys.exit(f"the replica did not get there within {_PATIENCE_S:.0f} s")
        time.sleep(0.01)
    return Seen(time.perf_counter(), facts)


def _facts(server: Server) -> dict[str, str]:
    return asyncio.run(_ask(Address.parse(server.address)))


async def _ask(address: Address) -> dict[str, str]:
    connection = await open_connection(address, clock=SystemClock())
    try:
        answer = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
        return java_json.decode(answer.body, bodies.KeyValues).table
    finally:
        connection.close()
        await connection.wait_closed()


def _load() -> str:
    return f"{os.getloadavg()[0]:.0f}" if Path("/proc/loadavg").exists() else "unknown"


if __name__ == "__main__":
    main()
