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
    from pyromq.pipeline.consuming.consume_group import consume
    from pyromq.pipeline.consuming.consume_rows import Record
    from pyromq.pipeline.consuming.consume_verdicts import DONE, Dead, Retry
    from pyromq.pipeline.spark.progress import ProgressListener
    from pyromq.pipeline.spark.spark_session import register, session

__all__ = ["DONE", "Dead", "ProgressListener", "Record", "Retry", "consume", "register", "session"]

_HOMES = {
    "ProgressListener": "spark.progress",
    "register": "spark.spark_session",
    "session": "spark.spark_session",
    "consume": "consuming.consume_group",
    "Record": "consuming.consume_rows",
    "DONE": "consuming.consume_verdicts",
    "Dead": "consuming.consume_verdicts",
    "Retry": "consuming.consume_verdicts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
