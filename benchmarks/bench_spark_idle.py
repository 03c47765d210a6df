"""An idle stream over many queues: what planning takes, and what waiting costs the driver's Python and the broker.

    python -m benchmarks.bench_spark_idle [queues] [seconds]

The stream is the one that Spark's process runs, asked as Spark asks: for its latest offsets, again 10 ms after each
response. CPU is user and system time of whole processes, as ``/proc`` has it; what the broker takes without a stream
stands beside it.
"""

from __future__ import annotations

import sys
import time

from benchmarks.measure import machine
from benchmarks.spark_bench import TICKS, cpu_of, print_figure
from pyromq import Admin
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.offsets import to_tree
from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.stream import Stream
from pyromq.testing import ServerProcess

QUEUES_OF_A_TOPIC = 16
SPARK_ASKS_S = 0.01
GOAL = "≤ 1 %"


def main() -> None:
    queues = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    topics = [f"t{number}" for number in range(-(-queues // QUEUES_OF_A_TOPIC))]
    print(machine())
    with ServerProcess("up") as server:
        with Admin(server.nameserver) as admin:
            for topic in topics:
                admin.topics.create(topic, queues=QUEUES_OF_A_TOPIC)
            admin.groups.create("idle")
        time.sleep(40)  # registration of so many topics, and whatever else a start leaves behind
        alone = _share(server.pid, seconds)
        texts = {"nameserver": server.nameserver, "topicPattern": r"t\d+", "group": "idle", "startingOffsets": "latest"}
        options = parse_options(texts, Use.STREAM)
        stream = Stream(options, Cluster(options, watches=True))
        begun = time.perf_counter()
        start = stream.initial()
        print_figure("initialOffset", f"{time.perf_counter() - begun:.2f} s of {len(start):,} queues", "≤ 2 s")
        begun = time.perf_counter()
        start = stream.latest(start)
        print_figure("latestOffset, with its wait of 0.3 s", f"{time.perf_counter() - begun:.2f} s", "≤ 0.5 s")
        print_figure("offsets in the log", f"{len(str(to_tree(start))) / 1000:.1f} KB", "≤ 20 KB")
        _wait(stream, start, 15)  # the first seconds repeat progress
        broker, driver, began = cpu_of(server.pid), time.process_time(), time.perf_counter()
        _wait(stream, start, seconds)
        took = time.perf_counter() - began
        print_figure("driver's Python", f"{(time.process_time() - driver) / took:.2%} of a core", GOAL)
        share = (cpu_of(server.pid) - broker) / TICKS / took
        print_figure("broker", f"{share:.2%} of a core, without the stream {alone:.2%}", GOAL)
        connect(options).face.close()


def _wait(stream: Stream, start: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert stream.latest(start) is start, "nobody sends"  # type: ignore[arg-type]
        time.sleep(SPARK_ASKS_S)


def _share(pid: int, seconds: float) -> float:
    before, began = cpu_of(pid), time.perf_counter()
    time.sleep(seconds)
    return (cpu_of(pid) - before) / TICKS / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
