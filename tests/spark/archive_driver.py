"""A driver to be killed in the middle of a commit: one file is in its place, the others are not.

``python -m tests.spark.archive_driver NAMESERVER TOPIC GROUP PATH``: prints ``now <pid of the JVM>`` when it is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyromq.pipeline import session
from pyromq.pipeline.jobs import Selection, archive
from tests.spark.conftest import QUICK


def main(nameserver: str, topic: str, group: str, path: str) -> None:
    spark = session("local[2]", **QUICK)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    inner, moved = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        if Path(target).suffix == ".parquet":
            moved.append(self)
            if len(moved) == 2:
                print(f"now {jvm}", flush=True)
                time.sleep(600)
        return inner(self, target)

    Path.rename = rename  # type: ignore[method-assign,assignment]
    archive(spark, Selection(topics=(topic,), nameserver=nameserver), path, group=group)


if __name__ == "__main__":
    main(*sys.argv[1:])
