"""A replay from executors, during which something is killed once.

``python -m tests.spark.killed_replay MASTER NAMESERVER FOLDER WHAT``: replays topic ``in`` to ``out`` under a name, and
prints a line of JSON about it. WHAT dies at its 2300th message: the Python ``worker`` of a task, or the ``jvm`` that
started it, which is an executor, or where Spark is local the driver.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyromq.pipeline import session
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.resending import executors, replay
from pyromq.pipeline.jobs.resending.packed import CopyMark
from tests.spark import killed_replay as importable
from tests.spark.cluster_driver import parent_of
from tests.spark.conftest import QUICK

FATAL = 2_300  # some chunks are sent by then, or under way
FOLDER, WHAT = "PYROMQ_TEST_FOLDER", "PYROMQ_TEST_WHAT"
_seen = 0


class DyingMessage(replay.ReplayedMessage):
    """As it is, but for the process that makes so many of them first."""

    def mark(self, place: str, origin: str = "") -> CopyMark:
        global _seen
        _seen += 1
        if _seen == FATAL and _is_first():
            os.kill(os.getpid() if os.environ[WHAT] == "worker" else parent_of(os.getppid()), signal.SIGKILL)
            time.sleep(5)  # its workers go with it, a moment later
            os._exit(1)
        return super().mark(place, origin)


def _is_first() -> bool:
    try:
        Path(os.environ[FOLDER], "killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main(master: str, nameserver: str, folder: str, what: str) -> None:
    vars(replay)["ReplayedMessage"] = importable.DyingMessage  # by its name, which executors can import
    vars(executors)["FEW"] = 0
    settings: dict[str, Any] = {
        **QUICK, f"spark.executorEnv.{FOLDER}": folder, f"spark.executorEnv.{WHAT}": what, "spark.local.dir": folder,
        "spark.sql.execution.arrow.maxRecordsPerBatch": 500,
    }  # fmt: skip
    os.environ |= {FOLDER: folder, WHAT: what}  # of a local Spark
    if not master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1", "spark.executor.cores": 1, "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
        }  # fmt: skip
    spark = session(master, **settings)
    done = replay.replay(spark, Selection(topics=("in",), nameserver=nameserver), "out", name="again", dry_run=False)
    print(json.dumps(["replayed", [done.found, done.sent, done.sent_before, done.failed]]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:5])
