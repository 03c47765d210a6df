"""A driver that copies a topic to two others, in one lane, until it is killed.

``python -m tests.spark.lane_driver NAMESERVER FOLDER LANE``; the topics ``at-least-once`` and ``idempotent`` are named
after the modes that write them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyromq.pipeline import session
from tests.spark.conftest import HEAP, QUICK

MODES = ("at-least-once", "idempotent")
SOURCE = "in"


def copy(spark: Any, mode: str, nameserver: str, folder: Path, lane: str, **trigger: Any) -> Any:
    reading = {
        "nameserver": nameserver, "topic": SOURCE, "group": mode, "startingOffsets": "earliest", "lane": lane,
        "maxOffsetsPerTrigger": "400", "requestTimeout": "5s",
    }  # fmt: skip
    rows = spark.readStream.format("pyromq").options(**reading).schema("body binary, keys string").load()
    writing = {
        "nameserver": nameserver, "topic": mode, "mode": mode, "lane": lane, "batchBytes": "1k", "settleTime": "300ms",
        "requestTimeout": "5s", "checkpointLocation": str(folder / mode),
    }  # fmt: skip
    return rows.writeStream.format("pyromq").options(**writing).trigger(**trigger).start()


def started(folder: Path) -> Any:
    return session("local[4,4]", **QUICK, **{"spark.local.dir": folder / "spark", "spark.driver.memory": HEAP})


def main(nameserver: str, folder: Path, lane: str) -> None:
    spark = started(folder)
    queries = [copy(spark, mode, nameserver, folder, lane, processingTime="0 seconds") for mode in MODES]
    print("begun", flush=True)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
