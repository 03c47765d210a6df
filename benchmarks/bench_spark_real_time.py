"""Real-time mode, topic → Spark → topic in the JVM lane: how long a message takes inside of a batch.

``python -m benchmarks.bench_spark_real_time [messages a second [seconds]]``. A broker with default settings on the same
machine, two queues at either end, so two tasks. A producer sends 1 KiB messages at an even rate, each with its time.

    inside     from the moment that the broker stored a message to that when it stored its copy: pull, Spark, send
    whole      from before the send to the moment that the broker stored the copy

Brokers note times in milliseconds. The first seconds do not count: the JVM compiles. All that counts lies in one batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from benchmarks.measure import machine
from benchmarks.spark_bench import TICKS, bench_session, broker, cpu_of, jvm_of, made_topic, print_figure
from pyromq import Admin, Message, Producer
from pyromq.model.queue import QueueId

RATE, SECONDS, WARM_S = 1_000, 30, 20
BODY_BYTES = 1_024
GOAL = "p50 ≤ 3, p99 ≤ 20 ms"
_PATIENCE_S = 60


def main() -> None:
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else RATE
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, pid):
        spark = bench_session()
        for mode in ("at-least-once", "idempotent"):
            made_topic(nameserver, f"{mode}-in")
            queues = made_topic(nameserver, f"{mode}-out")
            query = _copying(spark, nameserver, Path(name) / mode, mode)
            pids = jvm_of(spark), pid
            warm, _ = _send(nameserver, f"{mode}-in", rate, WARM_S)
            before, begun_ms = [cpu_of(each) for each in pids], time.time() * 1000
            count, took_s = _send(nameserver, f"{mode}-in", rate, seconds)
            cores = [(cpu_of(each) - ticks) / TICKS / took_s for each, ticks in zip(pids, before, strict=True)]
            _wait_for_copies(nameserver, queues, warm + count)
            assert query.isActive and query.lastProgress is None, "all of it lies in the first batch"
            query.stop()
            print(f"\n{mode}: {count:,} messages at {count / took_s:,.0f}/s, load {os.getloadavg()[0]:.1f}")
            _print(_times(spark, nameserver, f"{mode}-out", begun_ms), count, cores)
        spark.stop()


def _print(found: list[Any], count: int, cores: list[float]) -> None:
    assert len(found) == count, f"{len(found)} copies of {count} messages"
    for what, taken in (("inside", [row.inside for row in found]), ("whole", [row.whole for row in found])):
        percentiles = quantiles(taken, n=1000, method="inclusive")
        told = " / ".join(f"{percentiles[at - 1]:.1f}" for at in (500, 900, 990, 999))
        print_figure(f"{what}, p50 / p90 / p99 / p99.9", f"{told} ms, most {max(taken):.0f}", GOAL)
    print_figure("cores of JVM + broker", " + ".join(f"{each:.2f}" for each in cores), "–")


def _copying(spark: Any, nameserver: str, checkpoint: Path, mode: str) -> Any:
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    reading = spark.readStream.format("pyromq").options(
        nameserver=nameserver, topic=f"{mode}-in", group=f"bench-{mode}", startingOffsets="earliest", lane="jvm"
    )
    rows = reading.schema("body binary, store_time timestamp").load()
    rows = rows.selectExpr("body", "map('stored', string(unix_millis(store_time))) AS properties")
    options = {"nameserver": nameserver, "topic": f"{mode}-out", "lane": "jvm", "mode": mode}
    options["asyncProgressTrackingEnabled"] = "false"
    writing = rows.writeStream.format("pyromq").options(**options).option("checkpointLocation", str(checkpoint))
    return writing.outputMode("update").trigger(realTime="10 minutes").start()


def _send(nameserver: str, topic: str, rate: int, seconds: int) -> tuple[int, float]:
    """How many, and how long that took."""
    filling = Random(1).randbytes(BODY_BYTES)
    with Producer(nameserver, group="bench") as producer:
        begun = time.perf_counter()
        for number in range(rate * seconds):
            time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            producer.send(Message(topic, f"{time.time() * 1000:.3f} ".encode() + filling))
        return rate * seconds, time.perf_counter() - begun


def _wait_for_copies(nameserver: str, queues: list[QueueId], count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    with Admin(nameserver) as admin:
        while (there := sum(admin.offsets.range(queue).max_offset for queue in queues)) < count:
            assert time.monotonic() < deadline, f"{there} of {count} messages have arrived"
            time.sleep(0.1)


def _times(spark: Any, nameserver: str, topic: str, begun_ms: float) -> list[Any]:
    """Of what was sent since then; no query may run, for it has all cores."""
    rows = spark.read.format("pyromq").options(nameserver=nameserver, topic=topic, lane="python").load()
    sent, stored = "cast(substring_index(string(body), ' ', 1) AS double)", "unix_millis(store_time)"
    timed = rows.selectExpr(
        f"{sent} AS sent", f"{stored} - {sent} AS whole", f"{stored} - bigint(properties['stored']) AS inside"
    )
    found: list[Any] = timed.where(f"sent >= {begun_ms}").collect()
    return found


if __name__ == "__main__":
    main()
