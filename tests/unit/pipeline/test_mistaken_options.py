"""Every option with a value that it cannot have, every column that is not what it should be: named, with what may be.

An option or column that is new fails these tests until it has a case.
"""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyromq.pipeline.arrow.columns import COLUMNS, spark_type
from pyromq.pipeline.core.errors import OptionError, SchemaError
from pyromq.pipeline.core.options import OPTIONS, SourceOption, SourceOptions, Use, parse_options
from pyromq.pipeline.sink.columns import SINK_COLUMNS, check_sink_schema
from pyromq.pipeline.sink.options import SINK_OPTIONS, parse_sink_options
from pyromq.pipeline.spark.source import columns_of_read

NOTHING = "empty; give it a value"
COUNT, AMOUNT, TIME, SWITCH = "number above 0", "512k or 64m", "30s or 15m", "neither true nor false"
OFFSETS = '"broker": {"0": 123}'
SOURCE_MISTAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "nameserver": (("nowhere", "host:port"), ("host:99999", "host:port"), (" ", NOTHING)),
    "topic": (("a/b", "only the characters"), (" , ", "names no topic")),
    "topicPattern": (("(", "not a regular expression"), ("", NOTHING)),
    "group": (("a b", "only the characters"), ("", "blank")),
    "exclusive": (("alone", SWITCH),),
    "startingOffsets": (("newest", OFFSETS), ("{", "not JSON"), ('{"a": {"b": {"0": -3}}}', "-2 (earliest)")),
    "startingTimestamp": (("now", "milliseconds since 1970"), ("-1", "milliseconds since 1970"), ("9" * 30, "1970")),
    "startingOffsetsByTimestamp": (
        ("5", "1700000000000"),
        ("{", "not JSON"),
        ('{"a": {"b": {"0": -3}}}', "milliseconds since 1970"),
    ),
    "startingOffsetsByTimestampStrategy": (("earliest", "neither error nor latest"),),
    "endingOffsetsByTimestamp": (("latest", "1700000000000"), ('{"a": {"b": {"x": 3}}}', "number of a queue")),
    "endingOffsets": (("newest", OFFSETS), ("[1]", OFFSETS), ('{"a": {"b": {"x": 3}}}', "number of a queue")),
    "endingTimestamp": (("2026-11-15", "milliseconds since 1970"),),
    "maxOffsetsPerTrigger": (("0", COUNT), ("-5", COUNT), ("many", COUNT), ("1e3", COUNT), ("9" * 30, "below 2^63")),
    "minOffsetsPerTrigger": (("0", COUNT), ("1.5", COUNT)),
    "maxTriggerDelay": (("soon", TIME), ("0s", TIME), ("5 weeks", TIME), ("400d", "366d")),
    "maxBytesPerTrigger": (("1x", AMOUNT), ("0", AMOUNT), ("-1m", AMOUNT)),
    "minPartitions": (("0", COUNT), ("²", COUNT)),
    "maxPartitions": (("none", COUNT),),
    "maxRecordsPerPartition": (("", COUNT),),
    "failOnDataLoss": (("maybe", SWITCH), ("1", SWITCH)),
    "tags": (("||", "names no tag"),),
    "sql": ((" ", NOTHING),),
    "pushFilters": (("all", SWITCH),),
    "badRows": (("a b", "only the characters"),),
    "includeRetry": (("yes", SWITCH),),
    "lane": (("fast", "auto, python, jvm"), ("", "auto, python, jvm")),
    "properties": (("json", "map nor raw"),),
    "payload": (("xml", "json, text, avro, msgpack, protobuf"), ("", "not one of json")),
    "schema": (("", NOTHING),),
    "payloadMode": (("strict", "permissive, failfast, dropmalformed"),),
    "pullBatchSize": (("0", COUNT),),
    "gatherBytes": (("2g", "more than 1g"), ("big", AMOUNT)),
    "batchRows": (("-1", COUNT),),
    "longPoll": (("0", TIME),),
    "retryTimeout": (("for ever", TIME),),
    "requestTimeout": (("5 s!", TIME),),
    "discoveryInterval": (("daily", TIME),),
    "namespace": (("", NOTHING),),
    "accessKey": (("", NOTHING),),
    "secretKey": (("", NOTHING),),
    "securityToken": (("", NOTHING),),
    "tls": (("on", SWITCH),),
    "tlsCa": (("", NOTHING),),
    "tlsCertificate": (("", NOTHING),),
    "tlsKey": (("", NOTHING),),
    "tlsVerify": (("no", SWITCH),),
    "tlsHostname": (("", NOTHING),),
    "storePath": (("data/store", "absolute path"), (" , ", "names no store folder")),
    "storeVerify": (("no", SWITCH),),
}
SINK_MISTAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "topic": (("a/b", "only the characters"), ("", "names no topic")),
    "mode": (("exactly-once", "at-least-once, idempotent, transactional"), ("", "at-least-once")),
    "sinkId": (("", NOTHING),),
    "group": (("a b", "only the characters"),),
    "batchBytes": (("8m", "more than 4m"), ("none", AMOUNT)),
    "inFlight": (("0", COUNT),),
    "badRows": (("bad/rows", "give it whole"), ("a b", "neither fail, nor a topic, nor a folder")),
    "settleTime": (("a while", TIME),),
    "checkAfter": (("0", TIME),),
    "checkpointLocation": (("", NOTHING),),
}
SHARED = {option.name for option in SINK_OPTIONS} & set(SOURCE_MISTAKES) - set(SINK_MISTAKES)


def test_every_option_has_its_mistakes() -> None:
    assert {option.name for option in OPTIONS} == set(SOURCE_MISTAKES)
    assert {option.name for option in SINK_OPTIONS} == set(SINK_MISTAKES) | SHARED


def check(caught: pytest.ExceptionInfo[OptionError], name: str, value: str, allowed: str) -> None:
    """Its text names the option, the value and what may be."""
    text = str(caught.value)
    assert caught.value.option == name and text.startswith(f"option {name}: ")
    shown = (value, value.strip(), "-3" if "-3" in value else value, "x" if '"x"' in value else value)
    assert any(f"{each!r}" in text or (each and each in text) for each in shown), text
    assert allowed in text


def uses(option: SourceOption) -> list[Use]:
    return [Use.BATCH, Use.STREAM] if option.use is Use.BOTH else [option.use]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_wrong_value_for_the_source_is_named(option: SourceOption) -> None:
    for use in uses(option):
        for value, allowed in SOURCE_MISTAKES[option.name]:
            given = {"topic": "orders", **({"group": "g"} if use is Use.STREAM else {}), option.name.lower(): value}
            with pytest.raises(OptionError) as caught:
                parse_options(given, use)
            check(caught, option.name, value, allowed)


@pytest.mark.parametrize("option", SINK_OPTIONS, ids=lambda option: option.name)
def test_a_wrong_value_for_the_sink_is_named(option: SourceOption) -> None:
    mistakes = SINK_MISTAKES.get(option.name) or SOURCE_MISTAKES[option.name]
    for use in (Use.BATCH, Use.STREAM):
        for value, allowed in mistakes:
            if option.use in (Use.BOTH, use):
                with pytest.raises(OptionError) as caught:
                    parse_sink_options({"topic": "orders", option.name.lower(): value}, use)
                check(caught, option.name, value, allowed)


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.use is not Use.BOTH], ids=lambda each: each.name)
def test_an_option_of_the_other_kind_of_read_is_named(option: SourceOption) -> None:
    other, kind = (Use.STREAM, "batch") if option.use is Use.BATCH else (Use.BATCH, "stream")
    with pytest.raises(OptionError, match=f"option {option.name}: it is for {kind} reads only"):
        parse_options({"topic": "orders", "group": "g", option.name: "1"}, other)


@pytest.mark.parametrize("name", ["sinkID2", "chekAfter", "nothing-like-it"])
def test_an_option_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: "):
        parse_options({"topic": "orders", name: "1"}, Use.BATCH)
    with pytest.raises(OptionError, match=f"option {name}: "):
        parse_sink_options({"topic": "orders", name: "1"}, Use.BATCH)


# --- schemas ---------------------------------------------------------------------------------------------------------


def schema_of(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(*column) for column in columns])


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_another_type_is_named_with_the_type_it_has(column: str) -> None:
    with pytest.raises(SchemaError, match=rf"column {column} is {spark_type(column)}.*, not "):
        columns_of_read(SourceOptions(), schema_of((column, ArrayType(IntegerType()))))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([("colour", StringType())], "there is no column colour; the columns are: topic, broker,"),
        ([("Topic", StringType())], "there is no column Topic; the columns are"),
        ([("body", BinaryType())] * 2, "the schema names a column twice: body, body"),
        ([("properties", MapType(StringType(), IntegerType()))], "column properties is map<string,string> or string"),
        ([("queue_id", LongType())], "column queue_id is int, not int64"),
        ([("store_time", DateType())], "column store_time is timestamp, not date"),
    ],
)
def test_a_schema_that_asks_for_something_else_is_told(columns: list[tuple[str, DataType]], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        columns_of_read(SourceOptions(), schema_of(*columns))


def test_a_schema_without_columns_is_told() -> None:
    with pytest.raises(SchemaError, match="no columns"):
        columns_of_read(SourceOptions(), StructType([]))


@pytest.mark.parametrize("column", SINK_COLUMNS)
def test_a_column_of_another_type_is_not_sent(column: str) -> None:
    options = parse_sink_options({"topic": "orders"}, Use.BATCH)
    rest = [] if column == "body" else [("body", BinaryType())]
    with pytest.raises(SchemaError, match=rf"column {column} must be .*, not double"):
        check_sink_schema(schema_of((column, DoubleType()), *rest), options)
