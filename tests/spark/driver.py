"""A driver to be killed: reads a topic batch by batch and stops for good in the batch it is told to.

``python -m tests.spark.driver OPTIONS CHECKPOINT FOLDER BATCH``: rows of each finished batch go to FOLDER/<batch>.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyromq.pipeline import session
from tests.spark.conftest import QUICK


def main() -> None:
    options, checkpoint, folder, fatal = json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    spark = session("local[2]", **QUICK)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def sink(frame: Any, batch: int) -> None:
        rows = [[row.queue_id, row.queue_offset, bytes(row.body).decode()] for row in frame.collect()]
        if batch == fatal:
            print(f"now {jvm}", flush=True)
            time.sleep(600)
        (folder / f"{batch}.json").write_text(json.dumps(rows))

    frame = spark.readStream.format("pyromq").options(**options).load()
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="0 seconds").start().awaitTermination()


if __name__ == "__main__":
    main()
