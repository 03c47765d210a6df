"""``python -m interop.table_driver NAMESERVER FOLDER JAR…``: archives topic ``orders`` to a table of Delta, as far as
it goes, and prints what it did and what the table holds: one line of JSON.
"""

from __future__ import annotations

import json
import sys

from pyromq.pipeline import session
from pyromq.pipeline.jobs import Selection, archive
from pyromq.pipeline.jobs.archiving.job import ArchiveFormat


def main(nameserver: str, folder: str, *jars: str) -> None:
    spark = session(
        "local[2]", **{
            "spark.jars": ",".join(jars),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False, "spark.log.level": "OFF",
        }
    )  # fmt: skip
    table = f"{folder}/table"
    selection = Selection(topics=("orders",), nameserver=nameserver)
    done = archive(spark, selection, table, group="archive", form=ArchiveFormat.DELTA)
    rows = spark.read.format("delta").load(table).collect()
    bodies = sorted(bytes(row["body"]).decode() for row in rows)
    parts = sorted({f"{row['topic']}/{row['date']}/{row['hour']}" for row in rows})
    print(json.dumps({"messages": done.messages, "bodies": bodies, "parts": parts}))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
