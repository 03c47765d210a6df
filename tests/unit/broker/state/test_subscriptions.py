from __future__ import annotations

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.subscriptions import (
    compiled,
    filter_of,
    from_expression,
    is_by_tags,
    record_filter,
    retry_filter,
    tag_codes,
    tag_filter,
)
from pyromq.store.tables.filter_table import FilterTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import ResponseCode
from pyromq.wire.java_hash import java_hash
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, encode_record
from tests.unit.broker.builders import ROOT


def test_an_expression_lists_tags() -> None:
    assert tag_codes("TagA || TagB||  ||TagA") == {java_hash("TagA"), java_hash("TagB")}
    assert tag_codes("*") == tag_codes("") == frozenset()


@pytest.mark.parametrize("expression", ["*", " * ", "", None])
def test_everything_passes_without_a_filter(expression: str | None) -> None:
    assert tag_filter(from_expression("orders", expression, "TAG", 0)) is None


def test_a_filter_takes_the_hashes_of_its_tags_only() -> None:
    accept = tag_filter(from_expression("orders", "TagA || TagB", None, 0))
    assert accept is not None
    assert accept(java_hash("TagA")) and accept(java_hash("TagB")) and not accept(java_hash("TagC")) and not accept(0)


def test_the_codes_of_a_heartbeat_count_and_an_expression_stands_in_for_missing_ones() -> None:
    sent = Subscription(topic="orders", sub_string="TagA", code_set=frozenset((1, 2)))
    bare = Subscription(topic="orders", sub_string="TagA")
    one, two = tag_filter(sent), tag_filter(bare)
    assert one is not None and one(1) and not one(java_hash("TagA"))
    assert two is not None and two(java_hash("TagA"))
    assert tag_filter(Subscription(topic="orders", sub_string="TagA", class_filter_mode=True)) is None


def record(**properties: str) -> memoryview:
    draft = Draft(topic="orders", queue_id=0, body=b"body", properties=encode_properties(properties))
    return memoryview(encode_record(draft, offset=0, position=0, stored_ms=0, store_host=bytes(8)))


def sql(topic: str, text: str, version: int = 1) -> Subscription:
    return from_expression(topic, text, "SQL92", version)


def empty_filters() -> Filters:
    return Filters(FilterTable.load(FaultyDisk(), ROOT), ManualClock())


def test_an_sql_expression_is_a_test_of_records() -> None:
    subscription = sql("orders", "price > 10")
    assert tag_filter(subscription) is None and not is_by_tags(subscription)
    accept = record_filter(compiled(subscription)).accept
    assert accept(record(price="11")) and not accept(record(price="9")) and not accept(record(other="11"))


@pytest.mark.parametrize(("kind", "text", "reason"), [
    ("SQL92", "price >", "topic orders cannot be used: the expression ends too early"),
    ("SQL92", "", "the expression is empty"),
    ("REGEX", "a.*", "type REGEX is unknown"),
])  # fmt: skip
def test_an_expression_that_cannot_be_used_is_refused(kind: str, text: str, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason) as refusal:
        compiled(from_expression("orders", text, kind, 0))
    assert refusal.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_registered_filter_must_be_there_and_as_new_as_the_one_asked_for() -> None:
    filters, good, bad = empty_filters(), sql("orders", "a = 1", 7), sql("orders", "a =", 7)
    with pytest.raises(RefusedError, match="heartbeat has not arrived") as missing:
        filter_of(filters, "g", good, 7)
    with pytest.raises(RefusedError, match="ends too early") as unusable:
        filter_of(filters, "g", bad, 7)
    assert missing.value.code is unusable.value.code is ResponseCode.FILTER_DATA_NOT_EXIST
    filters.register("g", [good])
    assert filter_of(filters, "g", good, 7).expression == "a = 1"
    with pytest.raises(RefusedError, match="has not arrived yet") as old:
        filter_of(filters, "g", good, 8)
    assert old.value.code is ResponseCode.FILTER_DATA_NOT_LATEST


def test_a_retried_message_is_tested_with_the_expression_for_its_topic() -> None:
    filters = empty_filters()
    filters.register("g", [sql("orders", "a = 1")])
    accept = retry_filter(filters, "g").accept
    assert accept(record(RETRY_TOPIC="orders", a="1")) and not accept(record(RETRY_TOPIC="orders", a="2"))
    assert accept(record(RETRY_TOPIC="others", a="2")) and accept(record(a="2"))
    assert retry_filter(filters, "other group").accept(record(RETRY_TOPIC="orders", a="2"))


def test_a_damaged_record_does_not_vanish_in_a_filter() -> None:
    damaged = bytearray(record(a="2"))
    damaged[84:88] = b"\x00\xff\xff\xff"
    assert record_filter(compiled(sql("orders", "a = 1"))).accept(memoryview(damaged))
    assert retry_filter(empty_filters(), "g").accept(memoryview(damaged))
