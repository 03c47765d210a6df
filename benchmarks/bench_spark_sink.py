"""Topic → Spark → topic, and topic → Python function per record: CPU µs per row of JVM and Python workers.

``python -m benchmarks.bench_spark_sink [messages [word of a case …]]``. Messages, broker and counting as in
``bench_spark``: two queues on two partitions, 1 KiB bodies, 100 000 rows a batch; the first batch of each query starts
processes and is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench_spark import BATCH, TICKS, TOPIC, Taken, below, broker, cpu_of, fill
from benchmarks.measure import machine
from pyromq import Admin
from pyromq.pipeline import Record, consume, session

MODES = ("at-least-once", "idempotent", "transactional")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, broker(Path(folder)) as (nameserver, pid):
        fill(nameserver, count)
        with Admin(nameserver) as admin:
            for mode in MODES:
                admin.create_topic(mode, queues=4)
        spark = session(
            "local[2]", **{"spark.ui.enabled": False, "spark.log.level": "OFF", "spark.driver.memory": "2g"}
        )
        cases: list[tuple[str, Callable[[Path], Any]]] = [
            (f"topic to topic, {mode}", _copying(spark, nameserver, mode)) for mode in MODES
        ]
        cases.append(("handler per record", lambda at: _handling(spark, nameserver, at)))
        chosen = sys.argv[2:]
        cases = [case for case in cases if not chosen or any(word in case[0] for word in chosen)]
        measure(spark, pid, cases[0][1], Path(folder) / "warm")
        print(f"\n{'':32} {'best rows/s':>12} {'JVM µs':>8} {'Python µs':>10} {'together':>9} {'broker µs':>10}")
        for number, (name, start) in enumerate(cases):
            rounds = [measure(spark, pid, start, Path(folder) / f"{number}-{turn}") for turn in (1, 2)]
            best = min(rounds, key=lambda taken: taken.jvm_us + taken.python_us)
            rate, both = max(taken.best_rate for taken in rounds), best.jvm_us + best.python_us
            spent = f"{best.jvm_us:8.2f} {best.python_us:10.2f} {both:9.2f} {best.broker_us:10.2f}"
            print(f"  {name:30} {rate:12,.0f} {spent}", flush=True)
        spark.stop()


def _copying(spark: Any, nameserver: str, mode: str) -> Callable[[Path], Any]:
    def start(checkpoint: Path) -> Any:
        reading = spark.readStream.format("pyromq").options(
            nameserver=nameserver, topic=TOPIC, group=f"bench-{checkpoint.name}", startingOffsets="earliest",
            maxOffsetsPerTrigger=str(BATCH),
        )  # fmt: skip
        rows = reading.schema("body binary, tags string, keys string").load()
        writing = rows.writeStream.format("pyromq").options(nameserver=nameserver, topic=mode, mode=mode)
        return writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    return start


def _handling(spark: Any, nameserver: str, checkpoint: Path) -> Any:
    def handle(record: Record) -> None:
        if record.body[:1] == b"\xff" and len(record.body) < 10:
            raise ValueError("never")

    return consume(
        spark, TOPIC, f"bench-{checkpoint.name}", handle, nameserver=nameserver, start="earliest",
        checkpoint=str(checkpoint), trigger={"availableNow": True}, options={"maxOffsetsPerTrigger": BATCH},
    ).query  # fmt: skip


def measure(spark: Any, broker_pid: int, start: Callable[[Path], Any], checkpoint: Path) -> Taken:
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    query = start(checkpoint)
    seen: list[tuple[int, int, int, int]] = []  # rows so far, ticks of JVM, workers and broker
    while query.isActive:
        rows = sum(each.numInputRows for each in query.recentProgress)
        if rows and (not seen or rows > seen[-1][0]):
            seen.append((rows, cpu_of(jvm), sum(map(cpu_of, below(jvm))), cpu_of(broker_pid)))
        time.sleep(0.02)
    query.awaitTermination()
    best = max(each.numInputRows / each.durationMs["triggerExecution"] * 1000 for each in query.recentProgress)
    counted = seen[-1][0] - seen[0][0]
    spent = [(late - early) / TICKS * 1e6 / counted for early, late in zip(seen[0][1:], seen[-1][1:], strict=True)]
    return Taken(counted, best, *spent)


if __name__ == "__main__":
    main()
