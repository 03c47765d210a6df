from __future__ import annotations

import pytest

from pyromq.client.consumer.assigning.group_view import Subscriptions
from pyromq.errors import InvalidExpressionError


def test_a_change_takes_effect_when_it_is_told() -> None:
    subscriptions = Subscriptions()
    subscriptions.add("orders", "A || B", sql=False, now_ms=1_000)
    assert subscriptions.changed == {"orders"} and subscriptions.effective == {}
    subscriptions.take_effect()
    assert not subscriptions.changed
    subscriptions.remove("orders")
    assert subscriptions.changed == {"orders"} and "orders" in subscriptions.effective


def test_a_new_expression_is_newer_even_if_the_clock_went_back() -> None:
    subscriptions = Subscriptions()
    subscriptions.add("orders", "A", sql=False, now_ms=1_000)
    subscriptions.add("orders", "B", sql=False, now_ms=10)
    assert subscriptions.wanted["orders"].sub_version == 1_001


def test_a_bad_expression_changes_nothing() -> None:
    subscriptions = Subscriptions()
    with pytest.raises(InvalidExpressionError):
        subscriptions.add("orders", "||", sql=False, now_ms=1)
    assert not subscriptions.changed
