"""Lanes of the Spark source beside each other: CPU per row, rows per second, a small batch, the way of a message.

``python -m benchmarks.bench_spark_lanes [messages]``. ``bench_spark`` and ``bench_spark_latency`` say what is measured
and how; here each case runs in both lanes in turn, in one Spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bench_spark import BATCH, BODY, HEAD, ROUNDS, Case, run
from benchmarks.bench_spark_latency import small_batches, ways
from benchmarks.measure import machine
from benchmarks.spark_bench import Taken, bench_session, broker, cheapest, fill, print_head, print_taken

LANES = ("python", "jvm")
SETTING = "spark.pyromq.lane"
CASES = (
    Case("12 columns with bodies", BODY),
    Case("6 columns, no bodies", HEAD),
    Case("all 19, properties map"),
    Case("12 columns → Parquet, Spark's", BODY, to_parquet=True),
)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, pid):
        fill(nameserver, count)
        spark, folder = bench_session(), Path(name)
        _sources(spark, nameserver, pid, folder, min(BATCH, count // 3))
        for lane in LANES:
            print(f"\n{lane}; load {os.getloadavg()[0]:.1f}")
            spark.conf.set(SETTING, lane)
            small_batches(spark, nameserver, folder, f"small-{lane}")
            ways(spark, nameserver, folder, f"ways-{lane}")
        spark.stop()


def _sources(spark: Any, nameserver: str, broker_pid: int, folder: Path, batch: int) -> None:
    cases = [(lane, case) for case in CASES for lane in LANES]
    rounds: list[list[Taken]] = [[] for _ in cases]
    for turn in range(ROUNDS + 1):
        for number, (lane, case) in enumerate(cases):
            spark.conf.set(SETTING, lane)
            taken = run(spark, nameserver, broker_pid, folder / f"{number}-{turn}", case, batch)
            if turn:  # the first is for the JVM to compile
                rounds[number].append(taken)
    print(f"load {os.getloadavg()[0]:.1f}")
    print_head()
    for (lane, case), some in zip(cases, rounds, strict=True):
        print_taken(f"{lane}: {case.name}", cheapest(some))


if __name__ == "__main__":
    main()
