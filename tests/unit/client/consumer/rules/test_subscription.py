"""What a consumer asks for."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.rules.subscription import (
    InvalidExpressionError,
    parse_tags,
    subscribe_retries,
    subscribe_sql,
    subscribe_tags,
    wanted_messages,
)
from pyromq.wire.json.heartbeat import Subscription
from tests.unit.client.messages import FakeMessage


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        (None, set()),
        ("", set()),
        ("*", set()),
        (" * ", set()),
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        ("  TagA  ||\tTagB || || TagA", {"TagA", "TagB"}),
        ("TagA || *", {"TagA", "*"}),  # as Java reads it: the star is a tag here
        ("\u00a0x", {"\u00a0x"}),  # Java's trim knows ASCII only
        ("a|b", {"a|b"}),
    ],
)
def test_tags_are_read_as_java_reads_them(expression: str | None, tags: set[str]) -> None:
    assert parse_tags(expression) == tags


@pytest.mark.parametrize("expression", ["||", " ", "|| ||"])
def test_an_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(InvalidExpressionError):
        parse_tags(expression)


def test_a_subscription_carries_tags_and_their_hashes() -> None:
    assert subscribe_tags("orders", "TagA || TagB", 1_000) == Subscription(
        topic="orders",
        sub_string="TagA || TagB",
        sub_version=1_000,
        tags_set=frozenset({"TagA", "TagB"}),
        code_set=frozenset({2598919, 2598920}),
    )
    assert subscribe_tags("orders", None, 1_000) == Subscription(topic="orders", sub_string="*", sub_version=1_000)


def test_a_group_subscribes_its_retries_whole() -> None:
    assert subscribe_retries("g", 5) == Subscription(topic="%RETRY%g", sub_string="*", sub_version=5)


def test_sql_is_passed_on_as_it_is() -> None:
    found = subscribe_sql("orders", "a > 5 AND b = 'x'", 5)
    assert (found.expression_type, found.sub_string, found.tags_set) == ("SQL92", "a > 5 AND b = 'x'", frozenset())
    with pytest.raises(InvalidExpressionError):
        subscribe_sql("orders", " ", 5)


def test_tags_with_the_same_hash_are_told_apart_and_messages_without_tag_dropped() -> None:
    pulled = [FakeMessage(1, tags="Aa"), FakeMessage(2, tags="BB"), FakeMessage(3), FakeMessage(4, tags="")]
    assert list(wanted_messages(subscribe_tags("orders", "Aa", 5), pulled)) == pulled[:1]


def test_a_subscription_to_all_gets_the_same_list() -> None:
    pulled = [FakeMessage(1, tags="Aa"), FakeMessage(3)]
    assert wanted_messages(subscribe_tags("orders", "*", 5), pulled) is pulled
    assert wanted_messages(subscribe_sql("orders", "a > 5", 5), pulled) is pulled
