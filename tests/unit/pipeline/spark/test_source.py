"""Spark's data source without a JVM: schemas, options, readers that travel."""

from __future__ import annotations

import pickle

import pytest

import pyspark_pyromq
from pyromq.errors import ConfigError
from pyromq.pipeline.core.errors import OptionError, SchemaError
from pyromq.pipeline.spark.source import BatchReader, PyromqDataSource, StreamReader
from tests.unit.pipeline.structs import struct


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("colour string", "no column colour; the columns are: topic, broker"),
        ("body string", "column body is binary, not string"),
        ("queue_offset int", "column queue_offset is bigint, not int32"),
        ("properties binary", "column properties is map<string,string> or string"),
        ("", "no columns"),
    ],
)
def test_a_wrong_schema_is_refused(ddl: str, text: str) -> None:
    source = PyromqDataSource({"topic": "orders"})
    with pytest.raises(SchemaError, match=text):
        source.reader(struct(ddl))


def test_readers_and_partitions_travel() -> None:
    source = PyromqDataSource({"topic": "orders", "group": "g", "nameserver": "n:1"})
    schema = struct("queue_offset bigint")
    for reader in (source.reader(schema), source.streamReader(schema)):
        copy = pickle.loads(pickle.dumps(reader))
        assert isinstance(copy, BatchReader | StreamReader)
        assert copy._options == reader._options  # type: ignore[attr-defined]


def test_options_are_checked_on_the_driver() -> None:
    """By the reader itself: where Spark makes one, it would raise an error of its own instead."""
    reader = PyromqDataSource({"topic": "orders"}).streamReader(struct("body binary"))
    with pytest.raises(OptionError, match="option group"):
        reader.initialOffset()


def test_load_tells_all_mistakes() -> None:
    with pytest.raises(OptionError) as caught:
        PyromqDataSource({"topik": "orders", "minpartitions": "x"}).schema()
    assert [option for option, _ in caught.value.mistakes] == ["topik", "minPartitions"]
    assert PyromqDataSource({"topic": "orders"}).schema().startswith("topic string")


def test_a_table_is_created_with_right_options_or_none() -> None:
    table = {"provider": "pyromq", "owner": "me"}
    assert PyromqDataSource(table).schema()
    assert PyromqDataSource({**table, "option.topic": "orders", "topic": "orders"}).schema()
    with pytest.raises(OptionError, match=r"^option topik: the source has no such option; did you mean topic\?$"):
        PyromqDataSource({**table, "option.topik": "orders", "topik": "orders"}).schema()


def test_a_table_without_options_is_told_where_they_went() -> None:
    with pytest.raises(ConfigError, match="Spark keeps no options of CREATE TABLE"):
        PyromqDataSource({}).reader(struct("body binary"))


def test_spark_finds_the_source_by_itself() -> None:
    assert pyspark_pyromq.DefaultSource is PyromqDataSource
    assert PyromqDataSource.name() == "pyromq"
