"""Every kind of pipeline at once, each reading the topic ``in``: what drivers run that are killed, and their heirs.

``python -m tests.spark.killed_pipelines NAMESERVER FOLDER``: a driver that goes on until it is killed. Lives read in
the lanes in turn, as far as they stop at places that both have. Python writes the modes of the sink; those of the JVM
sink are written by the JVM, and by Python in one life between the others.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.functions import lit, rtrim, udf

from pyromq.pipeline import Dead, Record, Retry, consume, session
from pyromq.pipeline.jobs import Selection, archive
from pyromq.pipeline.jobs.common.errors import JobFailedError
from tests.spark.conftest import QUICK
from tests.spark.places import LIFE, checkpoint_of, held_value

MODES = ("at-least-once", "idempotent", "transactional")
BY_JVM = {"jvm-at-least-once": "at-least-once", "jvm-idempotent": "idempotent"}
"""Pipelines of the JVM sink, and their modes."""
COPIES = (*MODES, *BY_JVM)
PIPELINES = (*COPIES, "consume", "archive")
"""Names of their groups, and of the topics that the sinks write to."""
WRITTEN_BY_PYTHON = 3
"""The life in which Python goes on with what the JVM sink has begun, for the next one to go on with what Python did."""
LITTLE_AT_A_TIME = {"spark.sql.execution.python.udf.maxRecordsPerBatch": 10}
"""So that values which went through a function of Python come to the sink before the last of their task."""
LANES = ("auto", "python")
"""Of even and of odd lives; the last is odd, and stops in Python workers that read."""
TOO_LATE = ("CANNOT_OPEN_SOCKET", "failed to connect back")
"""What ends a query when its Python process did not start within Spark's ten seconds; so it is started again."""


def copy(spark: Any, name: str, nameserver: str, folder: Path, trigger: dict[str, Any]) -> Any:
    reading = {"nameserver": nameserver, "topic": "in", "group": name, "startingOffsets": "latest"}
    rows = spark.readStream.format("pyromq").options(**reading).schema("body binary, keys string").load()
    if name in BY_JVM:  # the JVM knows no places: its rows come through a function that does
        held = udf(held_value, "string", useArrow=False)("body", lit(name))
        rows = rows.select(rtrim(held).alias("body"), "keys")
    writing = {
        "nameserver": nameserver, "topic": name, "mode": BY_JVM.get(name, name), "checkAfter": "2s",
        "requestTimeout": "10s", "batchBytes": "1k", "inFlight": "1", "settleTime": "300ms", "lane": lane_of(name),
        "checkpointLocation": str(checkpoint_of(folder, name)),
    }  # fmt: skip
    return rows.writeStream.format("pyromq").options(**writing).trigger(**trigger).start()


def lane_of(name: str) -> str:
    """Who writes in this life; where there is no JVM lane, Python does."""
    is_python = name not in BY_JVM or int(os.environ.get(LIFE, 0)) == WRITTEN_BY_PYTHON
    return "python" if is_python else "auto"


def handler(notes: str) -> Callable[[Record], Any]:
    """Of ten messages one is dead, one is asked for again, one fails the first time. What is done is written down."""

    def handle(record: Record) -> Any:
        number = int(record.body.rpartition(b"-")[2])
        if number % 10 == 3:
            return Dead("a three")
        if not record.delivery_attempt and number % 10 == 5:
            return Retry(delay_level=1)
        if not record.delivery_attempt and number % 10 == 7:
            raise ValueError("a seven")
        with open(notes, "a", encoding="utf-8") as file:
            file.write(f"{record.message_id}\n")
        return None

    return handle


def consuming(spark: Any, nameserver: str, folder: Path, trigger: dict[str, Any]) -> Any:
    return consume(
        spark, "in", "consume", handler(str(folder / "done")), nameserver=nameserver, start="latest",
        checkpoint=str(checkpoint_of(folder, "consume")), trigger=trigger, options={"requestTimeout": "10s"},
    ).query  # fmt: skip


def archiving(spark: Any, nameserver: str, folder: Path, follow_s: float | None = None) -> None:
    selection = Selection(topics=("in",), nameserver=nameserver)
    archive(spark, selection, str(folder / "archive"), group="archive", follow_s=follow_s)


def is_too_late(text: str) -> bool:
    return any(each in text for each in TOO_LATE)


def main(nameserver: str, folder: Path) -> None:
    lane = LANES[int(os.environ[LIFE]) % len(LANES)]
    spark = session(
        "local[16,4]", **QUICK, **LITTLE_AT_A_TIME, **{"spark.local.dir": folder, "spark.pyromq.lane": lane}
    )
    trigger, queries = {"processingTime": "0 seconds"}, dict[str, Any]()

    def begin(name: str) -> None:
        if name == "archive":
            threading.Thread(target=_archive_on, args=(spark, nameserver, folder), daemon=True).start()
        elif name == "consume":
            queries[name] = consuming(spark, nameserver, folder, trigger)
        else:
            queries[name] = copy(spark, name, nameserver, folder, trigger)

    def look() -> None:
        for name, query in queries.items():
            if not query.isActive:
                if not is_too_late(str(query.exception())):
                    raise SystemExit(f"{name} ended: {query.exception()}")
                begin(name)

    for name in PIPELINES:
        begin(name)
        while not (folder / f"{name}.begun").exists():  # one after the other
            look()
            time.sleep(0.02)
    while True:
        look()
        time.sleep(0.1)


def _archive_on(spark: Any, nameserver: str, folder: Path) -> None:
    while True:
        try:
            archiving(spark, nameserver, folder, 0.05)
        except JobFailedError as error:
            if not is_too_late(f"{error} {error.__cause__}"):
                print(f"archive ended: {error}", flush=True)
                os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
