"""Hooks around listeners: told before and after, and never in the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyromq.client.consumer.base.hook_runner import HookRunner, consume_code
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.hooks import ConsumeHook
from pyromq.wire.trace import ConsumeCode

SUCCESS, RETRY = ConsumeStatus.SUCCESS, ConsumeStatus.RETRY


@pytest.mark.parametrize(
    ("result", "raised", "spent_ms", "code"),
    [
        (SUCCESS, False, 5, ConsumeCode.SUCCESS),
        (None, False, 5, ConsumeCode.SUCCESS),
        (RETRY, False, 5, ConsumeCode.FAILED),
        (BatchResult(RETRY), False, 5, ConsumeCode.FAILED),
        (BatchResult(ack_index=0), False, 5, ConsumeCode.SUCCESS),
        (OrderlyStatus.COMMIT, False, 5, ConsumeCode.SUCCESS),
        (OrderlyResult(OrderlyStatus.SUSPEND), False, 5, ConsumeCode.FAILED),
        (OrderlyStatus.ROLLBACK, False, 5, ConsumeCode.FAILED),
        (42, False, 5, ConsumeCode.FAILED),
        (SUCCESS, False, 1_000, ConsumeCode.TIME_OUT),
        (None, True, 5, ConsumeCode.EXCEPTION),
    ],
)
def test_the_end_of_a_listener_has_a_code(result: object, raised: bool, spent_ms: int, code: ConsumeCode) -> None:
    assert consume_code(result, raised=raised, spent_ms=spent_ms, timeout_ms=1_000) is code


class Watching(ConsumeHook):
    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[tuple[object, ...]] = []

    def before_consume(self, messages: Sequence[Any]) -> object:
        self.seen.append(("before", *messages))
        return f"{self.name} {messages[0]}"

    def after_consume(self, messages: Sequence[Any], began: object, code: int, elapsed_ms: int) -> None:
        self.seen.append(("after", *messages, began, code, elapsed_ms))


class Broken(ConsumeHook):
    def before_consume(self, messages: Sequence[Any]) -> object:
        raise ValueError("before")

    def after_consume(self, messages: Sequence[Any], began: object, code: int, elapsed_ms: int) -> None:
        raise ValueError("after")


def test_each_hook_gets_its_own_note_back_whatever_order_batches_end_in_and_whatever_others_raise() -> None:
    one, two = Watching("one"), Watching("two")
    hook_runner = HookRunner([one, Broken(), two], lambda: 1_000)
    first: Any = ["a"]
    second: Any = ["a"]
    hook_runner.began(first)
    hook_runner.began(second)
    hook_runner.ended(second, None, None, 0.25)
    hook_runner.ended(first, None, ValueError(), 0.5)
    assert one.seen[2:] == [
        ("after", "a", "one a", ConsumeCode.SUCCESS, 250),
        ("after", "a", "one a", ConsumeCode.EXCEPTION, 500),
    ]
    assert [entry[0] for entry in two.seen] == ["before", "before", "after", "after"]


def test_without_hooks_there_is_nothing_to_tell() -> None:
    assert not HookRunner([], lambda: 1)
    assert HookRunner([ConsumeHook()], lambda: 1)
