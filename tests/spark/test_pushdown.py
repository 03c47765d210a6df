"""Conditions of a query are handed to the source, and change nothing but what is read."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyromq import Message
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("default_lane")]
SETTING = "spark.sql.python.filterPushdown.enabled"


@contextmanager
def pushing(spark: Any, value: str) -> Iterator[None]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, value)
    try:
        yield
    finally:
        spark.conf.set(SETTING, before)


def rows_of(spark: Any, options: dict[str, str], where: str) -> list[Any]:
    frame = spark.read.format("pyromq").options(**options).load().where(where)
    return sorted(tuple(row) for row in frame.select("queue_id", "queue_offset", "tags", "keys").collect())


def same_rows(spark: Any, options: dict[str, str], conditions: Iterable[str]) -> None:
    """Of each condition, with push-down and without."""
    for where in conditions:
        with pushing(spark, "false"):
            expected = rows_of(spark, options, where)
        with pushing(spark, "true"):
            assert rows_of(spark, options, where) == expected, where


def test_rows_are_the_same_with_and_without_push_down(spark: Any, topics: Topics) -> None:
    topic = topics.make()
    for number in range(120):
        tags = ["new", "paid", ""][number % 3]
        topics.producer.send(Message(topic, b"%d" % number, tags=tags, keys=(f"k{number % 5}",)))
    options = topics.options(topic) | {"pushFilters": "true"}
    frame = spark.read.format("pyromq").options(**options).load()
    times = [row[0] for row in frame.selectExpr("cast(store_time as string)").collect()]
    rng = random.Random(27)
    some = [
        *["tags = 'paid'", "tags in ('new', 'paid') and queue_offset >= 5", "tags is null", "tags <> 'new'"],
        *["keys = 'k2' and queue_id in (0, 1)", "queue_offset between 3 and 7", "queue_id > 0 or tags = 'new'"],
        *[f"topic = '{topic}' and delivery_attempt = 1", "topic = 'other'", "born_time > timestamp'2001-01-01'"],
        *[f"store_time >= timestamp'{rng.choice(times)}'", f"store_time < timestamp'{rng.choice(times)}'"],
        *[f"store_time = timestamp'{rng.choice(times)}' and tags = 'paid'", "queue_offset = 4 and queue_offset = 5"],
    ]
    same_rows(spark, options, some)
    assert len(rows_of(spark, options, "tags = 'paid'")) == 40


def test_a_condition_of_one_query_is_not_one_of_the_next(spark: Any, topics: Topics) -> None:
    topic = topics.make()
    for number in range(20):
        topics.producer.send(Message(topic, b"%d" % number, tags=["new", "paid"][number % 2]))
    frame = spark.read.format("pyromq").options(**topics.options(topic)).load()
    with pushing(spark, "true"):
        paid = frame.where("tags = 'paid'")
        assert (paid.count(), frame.count(), paid.union(frame).count()) == (10, 20, 30)


def test_rows_with_certain_keys_are_found_by_the_index(
    spark: Any, topics: Topics, lane: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.make(queues=3)
    rng = random.Random(271)
    words = ["a", "b", "k1", "k2", "k3", "Aa", "BB", "é"]  # of which two have one hash
    for _ in range(150):
        topics.producer.send(Message(topic, b"x", keys=tuple(rng.sample(words, rng.randrange(3)))))
    topics.producer.send(Message(topic, b"x", keys=("rare", "a")))
    options = topics.options(topic) | {"pushFilters": "true"}
    some = [
        *[f"keys = '{word}'" for word in words],
        *["keys in ('k1 k2', 'k2 k1', 'a', 'none')", "keys = 'rare a'", "keys = 'a rare'", "keys = 'rare'"],
        *["keys = ''", "keys = ' '", "keys = 'k3' and queue_offset > 20", "keys = 'k3' or keys is null"],
        *["keys like 'k%' and keys >= 'k2'", "keys = 'Aa' and keys = 'BB'"],
    ]
    same_rows(spark, options, some)
    with pushing(spark, "true"):
        frame = spark.read.format("pyromq").options(**options).load()
        rare = frame.where("keys = 'rare a'")
        assert (rare.rdd.getNumPartitions(), rare.count()) == (1, 1), "the queue that has it, and no other"
        rare.explain("formatted")
        assert "EqualTo(keys,rare a)" in capsys.readouterr().out


def test_what_is_pushed_stands_in_the_plan(spark: Any, topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    topic = topics.make()
    options = topics.options(topic) | {"pushFilters": "true", "lane": "python"}
    frame = spark.read.format("pyromq").options(**options).load()
    frame.where("queue_id = 1 and tags like '%x%'").explain("formatted")
    plan = capsys.readouterr().out
    assert "PushedFilters: [EqualTo(queue_id,1)" in plan or "EqualTo(queue_id,1)]" in plan, plan
    assert "Condition : Contains(tags" in plan, "Spark does the rest itself"
