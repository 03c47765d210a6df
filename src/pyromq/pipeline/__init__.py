"""The data pipeline on Spark: topics as DataFrames, streaming and batch.

    from pyromq.pipeline import session

    spark = session()
    orders = spark.readStream.format("pyromq").option("topic", "orders").option("group", "reports").load()

    rooms, lower ones first: a room imports only what stands before it

    core         options, offsets, errors, open clients       spark       session(), format("pyromq"), group progress
    arrow        stored records to Arrow                      consuming   a consumer group whose handler Spark calls
    payload      bodies to typed columns
    reading      which offsets a batch reads; pulling them    jobs        archive, replay, redrive, report, dedupe, run
    store_files  store folders without a broker
    sink         rows to requests, sent until confirmed
    tables       SQL and Delta tables without Spark
    mirroring    topics and groups in another cluster

Nothing of Spark is imported before it is used; ``core``, ``arrow``, ``payload``, ``reading``, ``tables`` and
``mirroring`` do not know it at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.consuming.group import consume
    from pyromq.pipeline.consuming.options import ConsumeOptions
    from pyromq.pipeline.consuming.rows import Record
    from pyromq.pipeline.consuming.verdicts import DONE, Dead, Retry
    from pyromq.pipeline.mirroring.job import MirrorRound, mirror
    from pyromq.pipeline.spark.jvm.jar import lane_jar
    from pyromq.pipeline.spark.progress import ProgressListener
    from pyromq.pipeline.spark.session import register, session
    from pyromq.pipeline.spark.sql_frames import sql_frame
    from pyromq.pipeline.spark.store_frames import read_store
    from pyromq.pipeline.tables.filling import fill_table, table_versions, where_is

__all__ = [
    "DONE",
    "ConsumeOptions",
    "Dead",
    "MirrorRound",
    "ProgressListener",
    "Record",
    "Retry",
    "consume",
    "fill_table",
    "lane_jar",
    "mirror",
    "read_store",
    "register",
    "session",
    "sql_frame",
    "table_versions",
    "where_is",
]

_HOMES = {
    "ProgressListener": "spark.progress",
    "lane_jar": "spark.jvm.jar",
    "register": "spark.session",
    "session": "spark.session",
    "read_store": "spark.store_frames",
    "sql_frame": "spark.sql_frames",
    **dict.fromkeys(("fill_table", "table_versions", "where_is"), "tables.filling"),
    **dict.fromkeys(("MirrorRound", "mirror"), "mirroring.job"),
    "consume": "consuming.group",
    "ConsumeOptions": "consuming.options",
    "Record": "consuming.rows",
    "DONE": "consuming.verdicts",
    "Dead": "consuming.verdicts",
    "Retry": "consuming.verdicts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
