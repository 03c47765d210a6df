"""Our gRPC port, with the compiled core and without, and Apache's proxy, side by side in one run under the same load.

    make compare ARGUMENTS="grpc async 3"      flush mode and rounds; needs Java 17 and Maven

Apache's proxy runs in its local mode: proxy and broker in one process, so what is counted is what a call costs from
the socket to the log, as with ours. Before anything counts every server has 15 seconds of load, for Apache's compilers.
Scenarios alternate; medians of the rounds count, CPU µs of the server a message.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from interop.jars import prepare_jars

from benchmarks.apache_servers import apache_server
from benchmarks.bench_grpc import RECEIVED, TOPIC, Measured, consume_us, receive_us, send_us
from benchmarks.compare_lines import less, print_lines
from benchmarks.generator import resident_mb
from benchmarks.measure import machine
from benchmarks.our_broker import MODES

ROWS: dict[str, Callable[[GrpcServer], float]] = {
    "send, 64 outstanding": lambda server: send_us(server, 1, 64),
    "send, 16 waiting": lambda server: send_us(server, 16, 1),
    "receive of 32, one call for 32 acks, 8 at once": lambda server: consume_us(server, 8, one_by_one=False),
    "receive of 32, one call for 32 acks, 1": lambda server: consume_us(server, 1, one_by_one=False),
    "receive of 32, one call, one that decodes": lambda server: receive_us(server, one_by_one=False),
    "receive of 32, 32 calls, one that decodes": lambda server: receive_us(server, one_by_one=True),
}
WARM_UP_S = 15


@dataclass
class GrpcServer:
    """A running server, and what each message took in each round."""

    name: str
    pid: int
    port: int
    nameserver: str
    taken: dict[str, list[float]] = field(default_factory=dict)
    memory_mb: float = 0.0


def main(flush: str = "async", rounds: str = "3") -> None:
    print(machine())
    jars = prepare_jars()
    print(f"{flush} flush, proxy of Apache RocketMQ {jars.version}, medians of {rounds} rounds")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pyromq-compare-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        measured = {mode: Measured(mode, "", stack, flush) for mode in MODES}
        ours = [GrpcServer(f"PyroMQ {mode}", each.pid, each.port, each.nameserver) for mode, each in measured.items()]
        topics = {TOPIC: 4, RECEIVED: 1}
        running = stack.enter_context(apache_server(folder / "apache", flush, jars, topics, proxy=True))
        apache = GrpcServer("Apache", running.pid, running.grpc_port, running.nameserver)
        time.sleep(12)  # Apache's broker registers ten seconds after its start
        for server in (*ours, apache):
            _warm_up(server)
        for _ in range(int(rounds)):
            for name, measure in ROWS.items():
                for server in (*ours, apache):
                    server.taken.setdefault(name, []).append(measure(server))
        for server in (*ours, apache):
            server.memory_mb = resident_mb(server.pid)
        for each in ours:
            lines = [less(name, "CPU µs each", median(each.taken[name]), median(apache.taken[name])) for name in ROWS]
            memory = less("memory at the end", "MB", each.memory_mb, apache.memory_mb)
            print_lines([*lines, memory], each.name, apache.name)


def _warm_up(server: GrpcServer) -> None:
    end_s = time.monotonic() + WARM_UP_S
    while time.monotonic() < end_s:
        for measure in ROWS.values():
            measure(server)
