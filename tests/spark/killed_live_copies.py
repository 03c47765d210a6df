"""Copies of topic ``in`` in real-time mode, one for each mode of the JVM sink: what drivers run that are killed.

``python -m tests.spark.killed_live_copies NAMESERVER FOLDER``: goes on until it is killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyromq.pipeline import session
from tests.spark.conftest import QUICK

MODES = ("at-least-once", "idempotent")
"""Names of their groups and of the topics that they write to, too."""
LIVE = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
}


def copy(spark: Any, mode: str, nameserver: str, folder: Path, lane: str, trigger: dict[str, Any]) -> Any:
    reading = {"nameserver": nameserver, "topic": "in", "group": mode, "startingOffsets": "earliest", "lane": lane}
    rows = spark.readStream.format("pyromq").options(**reading).schema("body binary, keys string").load()
    writing = {
        "nameserver": nameserver, "topic": mode, "mode": mode, "lane": lane, "settleTime": "300ms",
        "checkpointLocation": str(folder / f"checkpoint-{mode}"), "asyncProgressTrackingEnabled": "false",
    }  # fmt: skip
    output = "update" if "realTime" in trigger else "append"
    return rows.writeStream.format("pyromq").options(**writing).outputMode(output).trigger(**trigger).start()


def main(nameserver: str, folder: Path) -> None:
    spark = session("local[6]", **QUICK, **LIVE, **{"spark.local.dir": folder})
    queries = [copy(spark, mode, nameserver, folder, "jvm", {"realTime": "3 seconds"}) for mode in MODES]
    while all(query.isActive for query in queries):
        time.sleep(0.1)
    raise SystemExit("; ".join(str(query.exception()) for query in queries))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
