"""Columns of the sink: wrong ones are named."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.pipeline.core.errors import SchemaError
from pyromq.pipeline.sink.columns import check_sink_schema
from tests.unit.pipeline.sink.packing import parse


def schema(text: str) -> Any:
    """From ``name type, name type``."""
    types = pytest.importorskip("pyspark.sql.types")
    known = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "timestamp": types.TimestampType(),
        "map<string;int>": types.MapType(types.StringType(), types.IntegerType()),
    }
    pairs = [column.split(" ") for column in text.split(", ")]
    return types.StructType([types.StructField(name, known[kind]) for name, kind in pairs])


@pytest.mark.parametrize(
    ("ddl", "given", "words"),
    [
        ("body int", {}, "column body must be binary or string, not int"),
        ("tags string", {}, "column body is missing"),
        ("body string, born_time timestamp", {}, "column born_time is unknown to the sink"),
        ("body string, properties map<string;int>", {}, "column properties must be map<string,string> or string, not"),
        ("body string, delay_level int, deliver_time timestamp", {}, "column deliver_time and column delay_level"),
        ("body string, queue_id int, sharding_key string", {}, "column queue_id and column sharding_key"),
        ("body string, broker string", {}, "column broker needs column queue_id"),
        ("body string, delay_level int", {"mode": "idempotent"}, "column delay_level does not go with mode idempotent"),
        ("body string, unique_key string", {"mode": "transactional"}, "column unique_key does not go with mode"),
    ],
)
def test_wrong_columns_are_named(ddl: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(SchemaError) as failure:
        check_sink_schema(schema(ddl), parse(topic="out", checkpointLocation="/c", **given))
    assert str(failure.value).startswith(words)


def test_without_a_topic_option_there_must_be_a_column() -> None:
    with pytest.raises(SchemaError, match="column topic is missing"):
        check_sink_schema(schema("body string"), parse())
    check_sink_schema(schema("body string, topic string"), parse())
