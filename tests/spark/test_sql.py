"""One text of SQL, two engines: Spark answers as DuckDB does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, sql
from pyromq.errors import TopicNotFoundError
from pyromq.model.names import dead_letter_topic
from pyromq.pipeline import sql_frame
from pyromq.pipeline.tables.errors import SqlError
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(topics: Topics) -> str:
    topic = topics.make()
    for number in range(30):
        topics.producer.send(Message(topic, b'{"n": %d}' % number, tags="ab"[number % 2], keys=f"k{number}"))
    topics.producer.send(Message(dead_letter_topic(topics.group), b"dead"))
    return topic


@pytest.mark.parametrize(
    "text",
    [
        'select tags, count(*) as n from "{topic}" group by tags order by tags',
        "select keys, get_json_object(string(body), '$.n') as n from \"{topic}\" where queue_offset < 3 order by keys",
        'select string(body) as body, topic from "dlq:{group}"',
        "with o as (select * from \"{topic}\" where tags = 'a') "
        'select count(*) as n from o join "{topic}" p on o.keys = p.keys',
    ],
)
def test_spark_answers_as_duckdb_does(spark: Any, topics: Topics, orders: str, text: str) -> None:
    question = text.format(topic=orders, group=topics.group)
    ours = list(sql(question, topics.nameserver))
    theirs = [row.asDict() for row in sql_frame(spark, question, nameserver=topics.nameserver).collect()]
    assert ours == theirs and ours
    assert not [view for view in spark.catalog.listTables() if view.name in (orders, f"dlq:{topics.group}")]


def test_folders_and_names_that_are_wrong(spark: Any, topics: Topics, orders: str, tmp_path: Path) -> None:
    spark.range(5).write.parquet(str(tmp_path / "numbers"))
    tables = {"numbers": tmp_path / "numbers"}
    found = sql_frame(spark, "select sum(id) as s from numbers", nameserver=topics.nameserver, tables=tables)
    assert found.first()["s"] == 10
    with pytest.raises(TopicNotFoundError, match="there is no topic"):
        sql_frame(spark, "select * from nosuchtopic", nameserver=topics.nameserver)
    with pytest.raises(SqlError, match="has no other name before its own"):
        sql_frame(spark, "select * from a.b", nameserver=topics.nameserver)
