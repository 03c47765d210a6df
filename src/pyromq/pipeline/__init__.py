"""The data pipeline on Spark: topics as DataFrames, streaming and batch.

    from pyromq.pipeline import session

    spark = session()
    orders = spark.readStream.format("pyromq").option("topic", "orders").option("group", "reports").load()

    rooms, lower ones first: a room imports only what stands before it

    core         options, offsets, errors, open clients       spark       session(), format("pyromq"), group progress
    arrow        stored records to Arrow                      consuming   a consumer group whose handler Spark calls
    reading      which offsets a batch reads; pulling them    jobs        archive, replay, redrive, report, dedupe, run
    sink         rows to requests, sent until confirmed
    store_files  store folders without a broker

Nothing of Spark is imported before it is used; ``core``, ``arrow`` and ``reading`` do not know it at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.consuming.group import consume
    from pyromq.pipeline.consuming.options import ConsumeOptions
    from pyromq.pipeline.consuming.rows import Record
    from pyromq.pipeline.consuming.verdicts import DONE, Dead, Retry
    from pyromq.pipeline.spark.progress import ProgressListener
    from pyromq.pipeline.spark.session import register, session
    from pyromq.pipeline.spark.store_frames import read_store

__all__ = [
    "DONE",
    "ConsumeOptions",
    "Dead",
    "ProgressListener",
    "Record",
    "Retry",
    "consume",
    "read_store",
    "register",
    "session",
]

_HOMES = {
    "ProgressListener": "spark.progress",
    "register": "spark.session",
    "session": "spark.session",
    "read_store": "spark.store_frames",
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
