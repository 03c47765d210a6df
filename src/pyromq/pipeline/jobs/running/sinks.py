"""Columns of the source turned into columns of the sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyromq.model import property_names as names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


UNIQUE_KEY: Final = "unique_key"


def to_message_columns(frame: DataFrame) -> DataFrame:
    """``body, tags, keys, properties, flag, unique_key``; properties of the system are left out, they are made anew.

    Of columns that are not there the sink makes nothing; ``body`` must be there.
    """
    from pyspark.sql import functions as F  # noqa: N812

    given = set(frame.columns)
    columns = [F.col(name) for name in ("body", "tags", "keys", "flag", UNIQUE_KEY) if name in given]
    if "properties" in given:
        reserved = sorted(names.RESERVED)
        columns.append(F.map_filter("properties", lambda name, _: ~name.isin(reserved)).alias("properties"))
        columns.append(F.col("properties").getItem(names.SHARDING_KEY).alias("sharding_key"))
    return frame.select(*columns)
