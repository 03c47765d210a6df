"""Topic → Spark → topic, and topic → Python function per record: CPU µs per row of JVM and Python workers.

``python -m benchmarks.bench_spark_sink [messages [word of a case …]]``. Messages, broker and counting as in
``bench_spark``: two queues on two partitions, 1 KiB bodies, 200 000 rows a batch.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from benchmarks.spark_bench import TOPIC, Taken, bench_session, broker, cheapest, fill, print_head, print_taken, watched
from pyromq import Admin
from pyromq.pipeline import Record, consume

MODES = ("at-least-once", "idempotent", "transactional")
ROUNDS = 2
BATCH = 200_000
COPY_GOAL_US, HANDLER_GOAL_US = 14.0, 9.0


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, broker(Path(folder)) as (nameserver, pid):
        fill(nameserver, count)
        with Admin(nameserver) as admin:
            for mode in MODES:
                admin.topics.create(mode, queues=4)
        spark, batch = bench_session(), min(BATCH, count // 3)
        cases: dict[str, tuple[float | None, Callable[[Path], Any]]] = {
            "handler per record": (HANDLER_GOAL_US, partial(_handling, spark, nameserver, batch)),
            f"topic to topic, {MODES[0]}": (COPY_GOAL_US, partial(_copying, spark, nameserver, batch, MODES[0])),
        } | {f"topic to topic, {mode}": (None, partial(_copying, spark, nameserver, batch, mode)) for mode in MODES[1:]}
        chosen = sys.argv[2:]
        wanted = {name: case for name, case in cases.items() if not chosen or any(word in name for word in chosen)}
        print_head()
        for number, (name, (goal_us, start)) in enumerate(wanted.items()):
            rounds = [_taken(spark, pid, start, Path(folder) / f"{number}-{turn}") for turn in range(ROUNDS + 1)]
            print_taken(name, cheapest(rounds[1:]), goal_us)  # in the first the JVM compiles
        spark.stop()


def _taken(spark: Any, broker_pid: int, start: Callable[[Path], Any], checkpoint: Path) -> Taken:
    return watched(spark, broker_pid, lambda: start(checkpoint))


def _copying(spark: Any, nameserver: str, batch: int, mode: str, checkpoint: Path) -> Any:
    reading = spark.readStream.format("pyromq").options(
        nameserver=nameserver, topic=TOPIC, group=f"bench-{checkpoint.name}", startingOffsets="earliest",
        maxOffsetsPerTrigger=str(batch),
    )  # fmt: skip
    rows = reading.schema("body binary, tags string, keys string").load()
    writing = rows.writeStream.format("pyromq").options(nameserver=nameserver, topic=mode, mode=mode)
    return writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _handling(spark: Any, nameserver: str, batch: int, checkpoint: Path) -> Any:
    def handle(record: Record) -> None:
        if record.body[:1] == b"\xff" and len(record.body) < 10:
            raise ValueError("never")

    return consume(
        spark, TOPIC, f"bench-{checkpoint.name}", handle, nameserver=nameserver, start="earliest",
        checkpoint=str(checkpoint), trigger={"availableNow": True}, options={"maxOffsetsPerTrigger": batch},
    ).query  # fmt: skip


if __name__ == "__main__":
    main()
