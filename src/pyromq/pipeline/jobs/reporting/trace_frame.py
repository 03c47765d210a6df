"""The trace topic as a DataFrame: what was handed to listeners, and how that ended. All of it in Spark's own functions.

``pyromq.wire.trace`` has the layout; what cannot be read there is left out here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyromq.wire.trace import FIELD_END, RECORD_END

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def handled_frame(trace: DataFrame) -> DataFrame:
    """One row for each time that a message was handed to a listener.

    ``group, message_id, keys, attempt, began_ms, ended_ms, cost_ms, is_success``; the last three are null where
    nothing was reported of the end. ``trace`` has the column ``body``, and is read once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    records = trace.select(F.explode(F.split(F.decode("body", "UTF-8"), RECORD_END)).alias("record"))
    fields = records.select(
        F.split("record", FIELD_END).alias("f"), F.substring_index("record", FIELD_END, 1).alias("kind")
    )
    is_begin = F.col("kind") == "SubBefore"
    events = fields.where("kind IN ('SubBefore', 'SubAfter')").select(
        F.when(is_begin, _text(4)).otherwise(_text(1)).alias("request"),
        F.when(is_begin, _text(5)).otherwise(_text(2)).alias("message_id"),
        F.when(is_begin, _text(3)).alias("group"),
        F.when(is_begin, _text(7)).alias("keys"),
        F.when(is_begin, F.coalesce(_number(6), F.lit(0)) + 1).alias("attempt"),
        F.when(is_begin, _number(1)).alias("began_ms"),
        F.when(~is_begin, _number(3)).alias("cost_ms"),
        F.when(~is_begin, _text(4) == "true").alias("is_success"),
        F.when(~is_begin, _number(7)).alias("ended_at"),
    )
    columns = ("group", "keys", "attempt", "began_ms", "cost_ms", "is_success", "ended_at")
    both = events.groupBy("request", "message_id").agg(*(F.max(name).alias(name) for name in columns))
    ended_ms = F.when(F.col("ended_at") > 0, F.col("ended_at")).otherwise(F.col("began_ms") + F.col("cost_ms"))
    return both.where("began_ms IS NOT NULL").select(
        "group", "message_id", "keys", "attempt", "began_ms",
        ended_ms.alias("ended_ms"),
        "cost_ms", "is_success",
    )  # fmt: skip


def _text(at: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.nullif(F.get("f", F.lit(at)), F.lit("null"))


def _number(at: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.get("f", F.lit(at)).try_cast("bigint")
