"""Jobs of the pipeline beside each other: archives by both writers, stores read with and without their broker.

    python -m benchmarks.bench_spark_jobs [messages]

Messages have 1 KiB; the broker runs on the same machine. CPU is that of JVM and Python workers together, per message.
The first run of each kind warms up and is not shown; of the others the cheapest is.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench_spark import SEND_BATCH, TICKS, TOPIC, below, broker, cpu_of, fill
from benchmarks.measure import machine

ROUNDS = 3


def main() -> None:
    from pyromq.pipeline import session
    from pyromq.pipeline.jobs import Selection, archive
    from pyromq.pipeline.jobs.archive_job import ArchiveWriterKind
    from pyromq.pipeline.store_source import read_store

    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 400_000) // SEND_BATCH * SEND_BATCH
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, _):
        folder, made = Path(name), iter(range(1_000_000))
        fill(nameserver, count)
        settings = {"spark.ui.enabled": False, "spark.log.level": "OFF", "spark.driver.memory": "2g"}
        spark = session("local[2]", **settings)
        selection = Selection(topics=(TOPIC,), nameserver=nameserver)

        def archived(writer: ArchiveWriterKind) -> int:
            group = f"bench-{next(made)}"
            done = archive(spark, selection, str(folder / group), group=group, writer=writer)
            return done.messages

        def counted(frame: Any) -> int:
            frame.write.format("noop").mode("overwrite").save()
            return count

        cases: tuple[tuple[str, Callable[[], int]], ...] = (
            ("archive, written in tasks", lambda: archived(ArchiveWriterKind.TASK)),
            ("archive, Spark's writer", lambda: archived(ArchiveWriterKind.SPARK)),
            ("topic through the broker", lambda: counted(selection.frame(spark))),
            ("the same from store files", lambda: counted(read_store(spark, _store(folder), topics=[TOPIC]))),
        )
        print(f"\n{'':32} {'messages/s':>12} {'CPU µs':>8}")
        for title, work in cases:
            work()
            rounds = [_measured(spark, work, count) for _ in range(ROUNDS)]
            rate, spent = max(rate for rate, _ in rounds), min(spent for _, spent in rounds)
            print(f"  {title:30} {rate:12,.0f} {spent:8.2f}", flush=True)
        spark.stop()


def _measured(spark: Any, work: Callable[[], int], count: int) -> tuple[float, float]:
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    ticks, begun = cpu_of(jvm) + sum(map(cpu_of, below(jvm))), time.perf_counter()
    done = work()
    assert done == count, f"{done} of {count} messages"
    taken = time.perf_counter() - begun
    spent = cpu_of(jvm) + sum(map(cpu_of, below(jvm))) - ticks
    return count / taken, spent / TICKS * 1e6 / count


def _store(folder: Path) -> Path:
    """The folder with the log in it."""
    return next((folder / "data").rglob("commitlog")).parent


if __name__ == "__main__":
    main()
