"""Listeners of one group are one consumer: who gets which message, and what cannot be together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pyromq import App, ReceivedMessage
from pyromq.app.listeners import plans_of
from pyromq.errors import ConfigError
from tests.unit.received import received


def three_listeners() -> App:
    app = App(name="billing")

    @app.consume("orders", tags="new || changed")
    def bill(message: ReceivedMessage) -> str:
        return "bill"

    @app.consume("orders", tags="cancelled")
    def cancel(message: ReceivedMessage) -> str:
        return "cancel"

    @app.consume(["refunds", "returns"])
    def refund(message: ReceivedMessage) -> str:
        return "refund"

    return app


def test_one_consumer_subscribes_to_everything_and_calls_the_listener_that_a_message_is_for() -> None:
    (plan,) = plans_of(three_listeners().listeners)
    assert plan.subscriptions() == [
        ("orders", "new || changed || cancelled", False),
        ("refunds", "*", False),
        ("returns", "*", False),
    ]
    call = plan.routed([listener.function for listener in plan.listeners])
    assert call(received(tags="changed")) == "bill"
    assert call(received(tags="cancelled")) == "cancel"
    assert call(received(topic="returns")) == "refund"
    assert call(received(topic="%RETRY%billing", tags="new", RETRY_TOPIC="orders")) == "bill"


def test_a_message_that_nobody_is_for_comes_again() -> None:
    (plan,) = plans_of(three_listeners().listeners)
    call = plan.routed([listener.function for listener in plan.listeners])
    with pytest.raises(LookupError, match="no listener for topic orders with tag odd"):
        call(received(tags="odd"))
    with pytest.raises(LookupError, match="topic other"):
        call(received(topic="other"))


async def test_coroutines_are_routed_too() -> None:
    app = App(name="billing")

    @app.consume("a")
    async def one(message: ReceivedMessage) -> str:
        return "one"

    @app.consume("b")
    async def two(message: ReceivedMessage) -> str:
        return "two"

    (plan,) = plans_of(app.listeners)
    call = plan.routed([listener.function for listener in plan.listeners])
    assert [await call(received(topic=topic)) for topic in ("b", "a")] == ["two", "one"]


def handle(message: ReceivedMessage) -> None: ...
async def handle_soon(message: ReceivedMessage) -> None: ...


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ({}, {}, "would both get messages of topic orders.*different tags"),
        ({"tags": "a || b"}, {"tags": "b"}, "would both get"),
        ({"tags": "a"}, {}, "would both get"),
        ({"sql": "x > 1"}, {"tags": "a"}, "would both get"),
        ({"topic": "a", "orderly": True}, {"topic": "b"}, "orderly is True for one and False for the other"),
        ({"topic": "a", "retries": 3}, {"topic": "b", "retries": 4}, "retries is 3 for one and 4"),
        ({"topic": "a", "batch": 3}, {"topic": "b"}, "a group of its own"),
        ({"topic": "a", "trace": True}, {"topic": "b"}, "different things about trace"),
        ({"topic": "a"}, {"topic": "b", "function": handle_soon}, "make both functions, or both coroutines"),
    ],
)
def test_listeners_that_cannot_share_a_group(one: dict[str, Any], other: dict[str, Any], text: str) -> None:
    app = App(name="billing")
    for given in (one, other):
        options = dict(given)
        function = options.pop("function", handle)
        app.consume(options.pop("topic", "orders"), **options)(function)
    with pytest.raises(ConfigError, match=text):
        app.check()


def test_groups_are_apart() -> None:
    app = App()
    app.consume("orders", group="billing", orderly=True)(handle)
    app.consume("orders", group="shipping", batch=10)(handle)
    with pytest.raises(ConfigError, match="ReceivedMessage"):
        app.check()
    assert [plan.group for plan in plans_of(app.listeners)] == ["billing", "shipping"]


@pytest.mark.parametrize("delays", ["1s 10s 1m", [1, 10, timedelta(minutes=1)]])
def test_delays_are_the_ladder_of_retries_and_say_how_many_there_are(delays: Any) -> None:
    app = App(name="billing")
    app.consume("orders", delays=delays)(lambda message: None)
    app.consume("refunds", group="more", delays=delays, retries=9)(lambda message: None)
    short, more = (plan.settings for plan in plans_of(app.listeners))
    assert (short.retry_levels, short.attempts_max) == ({1: 1, 2: 3, 3: 5}, 3)
    assert (more.retry_levels, more.attempts_max) == ({1: 1, 2: 3, 3: 5}, 9)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delays": "1s 7s"}, "no delay level is 7 s long; there are 1s 5s 10s"),
        ({"delays": "soon"}, "each step is a number followed by"),
        ({"delays": ""}, "delays is empty"),
        ({"delays": [-1]}, "negative"),
        ({"delays": "1s", "orderly": True}, "an orderly listener tries again on the spot"),
        ({"delays": "1s", "broadcast": True}, "a broadcast is not tried again"),
    ],
)
def test_delays_that_cannot_work_are_refused_at_the_decorator(options: Any, text: str) -> None:
    app = App(name="billing")
    with pytest.raises(ConfigError, match=text):
        app.consume("orders", **options)(lambda message: None)
