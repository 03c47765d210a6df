"""The data pipeline on Spark: topics as DataFrames, streaming and batch.

    from pyromq.pipeline import session

    spark = session()
    orders = spark.readStream.format("pyromq").option("topic", "orders").option("group", "reports").load()

    plan.py, starts.py   which offsets a batch reads, in which partitions: pure     options.py   what users may say
    cluster.py           what brokers are asked on the driver                       pulls.py     what workers read
    decode.py            stored bytes to Arrow                                      source.py    Spark's side of it

Nothing of Spark is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.consuming.group import consume
    from pyromq.pipeline.consuming.rows import Record
    from pyromq.pipeline.consuming.verdicts import DONE, Dead, Retry
    from pyromq.pipeline.spark.progress import ProgressListener
    from pyromq.pipeline.spark.session import register, session

__all__ = ["DONE", "Dead", "ProgressListener", "Record", "Retry", "consume", "register", "session"]

_HOMES = {
    "ProgressListener": "spark.progress",
    "register": "spark.session",
    "session": "spark.session",
    "consume": "consuming.group",
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
