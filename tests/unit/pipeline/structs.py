"""Schemas of Spark without a JVM."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "binary": BinaryType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def struct(ddl: str) -> StructType:
    """What Spark makes of the same text; its own parser needs a JVM."""
    made = StructType()
    for name, kind in (column.split(" ") for column in ddl.split(", ") if column):
        made.add(name, _TYPES[kind])
    return made
