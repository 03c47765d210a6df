from __future__ import annotations

import pytest

from pyromq.broker.refusals import RefusedError
from pyromq.broker.subscriptions import from_expression, refuse_unless_tags, tag_codes, tag_filter
from pyromq.wire.heartbeat import Subscription
from pyromq.wire.java_hash import java_hash


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


def test_other_kinds_of_expressions_are_refused_clearly() -> None:
    refuse_unless_tags(None)
    refuse_unless_tags("")
    with pytest.raises(RefusedError, match="SQL92 are not supported yet"):
        from_expression("orders", "a > 5", "SQL92", 0)
