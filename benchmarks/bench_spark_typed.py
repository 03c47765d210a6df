"""JSON bodies to typed columns: ``payload=json`` beside Spark's own ``from_json``, CPU µs per row of JVM and workers.

``python -m benchmarks.bench_spark_typed [messages]``. Orders of about 190 bytes: id, customer, decimal, time, a flag
and two lines. Both read the same topic and end in a no-op sink, in one Spark, in turns; ``spark_bench`` says how CPU is
counted. Then two of the fields alone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import machine
from benchmarks.spark_bench import (
    SEND_BATCH,
    TOPIC,
    Taken,
    bench_session,
    broker,
    cheapest,
    made_topic,
    print_figure,
    print_head,
    print_taken,
    watched,
)
from pyromq import Message, aio
from pyromq.model.queue import QueueId

BATCH = 200_000
ROUNDS = 3
GOAL = 1.5
WAYS = ("from_json", "payload=json")
ALL = (
    "id bigint, customer string, amount decimal(10,2), at timestamp, paid boolean, "
    "lines array<struct<sku:string,count:int,price:double>>"
)
FEW = "id bigint, customer string"
PLACE = "queue_id int, queue_offset bigint"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, pid):
        asyncio.run(_fill(nameserver, made_topic(nameserver, TOPIC), count))
        spark, folder, batch = bench_session(), Path(name), min(BATCH, count // 3)
        cases = [(title, fields, way) for title, fields in (("6 fields", ALL), ("2 fields", FEW)) for way in WAYS]
        rounds: list[list[Taken]] = [[] for _ in cases]
        for turn in range(ROUNDS + 1):
            for number, (_, fields, way) in enumerate(cases):
                taken = _run(spark, nameserver, pid, folder / f"{number}-{turn}", fields, way, batch)
                if turn:  # the first is for the JVM to compile
                    rounds[number].append(taken)
        print(f"load {os.getloadavg()[0]:.1f}")
        print_head()
        best = [cheapest(some) for some in rounds]
        for (title, _, way), taken in zip(cases, best, strict=True):
            print_taken(f"{title}, {way}", taken)
        for place in range(0, len(cases), len(WAYS)):
            ratio = best[place + 1].us / best[place].us
            print_figure(f"{cases[place][0]}: payload=json ÷ from_json", f"{ratio:.2f}", f"≤ {GOAL}")
        spark.stop()


def _frame(spark: Any, nameserver: str, group: str, fields: str, way: str, batch: int) -> Any:
    reader = spark.readStream.format("pyromq").options(
        nameserver=nameserver, topic=TOPIC, group=group, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch)
    )
    if way == "payload=json":
        return reader.option("payload", "json").option("schema", ALL).schema(f"{PLACE}, {fields}").load()
    rows = reader.schema(f"{PLACE}, body binary").load()
    quoted = fields.replace("'", "''")
    return rows.selectExpr("queue_id", "queue_offset", f"from_json(string(body), '{quoted}') AS body").select(
        "queue_id", "queue_offset", "body.*"
    )


def _run(spark: Any, nameserver: str, pid: int, folder: Path, fields: str, way: str, batch: int) -> Taken:
    def start() -> Any:
        writing = _frame(spark, nameserver, f"bench-{folder.name}", fields, way, batch).writeStream.format("noop")
        return writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()

    taken = watched(spark, pid, start)
    shutil.rmtree(folder)
    return taken


def _order(number: int) -> bytes:
    lines = [{"sku": f"sku-{number % 977}-{each}", "count": each + 1, "price": number % 100 + 0.25} for each in (0, 1)]
    order = {
        "id": number, "customer": f"customer-{number % 10_007}", "amount": f"{number % 10_000}.90",
        "at": f"2026-11-17T09:{number % 60:02}:05.123Z", "paid": number % 3 == 0, "lines": lines,
    }  # fmt: skip
    return msgspec.json.encode(order)


async def _fill(nameserver: str, queues: list[QueueId], count: int) -> None:
    async with aio.Producer(nameserver, group="bench") as producer:
        for begin in range(0, count, SEND_BATCH * 32):
            parts = range(begin, min(count, begin + SEND_BATCH * 32), SEND_BATCH)
            await asyncio.gather(
                *(
                    producer.send_batch(
                        [Message(TOPIC, _order(n)) for n in range(first, min(count, first + SEND_BATCH))],
                        queue=queues[first // SEND_BATCH % len(queues)],
                    )
                    for first in parts
                )
            )
    print(f"{count:,} orders of {len(_order(count - 1))} bytes sent to {TOPIC}")


if __name__ == "__main__":
    main()
