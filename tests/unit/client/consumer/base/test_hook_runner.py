"""Hooks around listeners: told before and after, and never in the way."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import pytest

from pyromq.client.consumer.base.hook_runner import HookRunner, consume_code
from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.hooks import ConsumeHook, Delivery
from pyromq.testing import ManualClock
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


# --- context managers around a listener ---

here = ContextVar("here", default="")


class Scope(ConsumeHook):
    def __init__(self) -> None:
        self.log: list[object] = []

    @contextmanager
    def listening(self, delivery: Delivery) -> Iterator[None]:
        assert delivery.code is None
        token = here.set(f"{delivery.group} {len(delivery.messages)}")
        try:
            yield
        except BaseException as error:
            self.log.append(type(error))
            raise
        finally:
            here.reset(token)
            self.log.append(delivery.code)


def listener_in(hook: ConsumeHook, one: Any = None, many: Any = None, clock: ManualClock | None = None) -> Listener:
    listener = Listener(one, many, threads=1, name="billing")
    HookRunner([hook], lambda: 1_000).wrap(listener, "billing", clock or ManualClock())
    return listener


def test_a_function_runs_inside_the_scope_and_the_scope_hears_how_it_ended() -> None:
    scope, clock, seen = Scope(), ManualClock(), []

    def handle(message: Any) -> Any:
        seen.append((message, here.get()))
        if message == "bad":
            raise KeyError("bad")
        clock.advance_ms(5_000 if message == "slow" else 1)
        return RETRY if message == "again" else None

    listener = listener_in(scope, handle, clock=clock)
    batch: Any
    for batch in (["ok"], ["again"], ["slow"]):
        listener.call(batch)
    batch = ["bad"]
    with pytest.raises(KeyError):
        listener.call(batch)
    assert seen == [(word, "billing 1") for word in ("ok", "again", "slow", "bad")]
    ends = [ConsumeCode.SUCCESS, ConsumeCode.FAILED, ConsumeCode.TIME_OUT, KeyError, ConsumeCode.EXCEPTION]
    assert scope.log == ends
    assert here.get() == ""


def test_coroutines_and_batches_run_inside_the_scope() -> None:
    scope, seen = Scope(), []

    async def handle(messages: Any) -> None:
        await asyncio.sleep(0)
        seen.append((list(messages), here.get()))

    listener = listener_in(scope, many=handle)
    assert listener.is_coroutine
    batch: Any = ["a", "b"]
    asyncio.run(listener.call(batch))
    assert seen == [(["a", "b"], "billing 2")]
    assert scope.log == [ConsumeCode.SUCCESS]


def test_a_cancelled_coroutine_ends_its_scope() -> None:
    scope = Scope()

    async def handle(message: Any) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(listener_in(scope, handle).call(["a"]))  # type: ignore[list-item]
    assert scope.log == [asyncio.CancelledError, ConsumeCode.EXCEPTION]


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration()])
def test_a_scope_cannot_swallow_what_a_listener_raises(error: Exception) -> None:
    class Swallows(ConsumeHook):
        def listening(self, delivery: Delivery) -> AbstractContextManager[object]:
            return suppress(Exception)

    def handle(message: Any) -> None:
        raise error

    with pytest.raises(type(error)):
        listener_in(Swallows(), handle).call(["a"])  # type: ignore[list-item]


def test_a_listener_in_a_scope_keeps_its_name_and_one_without_is_not_touched() -> None:
    def handle(message: Any) -> None: ...

    wrapped = listener_in(Scope(), functools.partial(handle))
    assert wrapped.function_name.endswith("handle")
    assert listener_in(Watching("no scope"), handle).function is handle
