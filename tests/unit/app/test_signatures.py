"""Which parameter gets what, and what is said when one gets nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyromq
from pyromq import App, ReceivedMessage, aio
from pyromq.errors import ConfigError, InvalidExpressionError, InvalidNameError

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

    from pyromq import ReceivedMessage as Unresolved
    from pyromq.client import sync as unresolved


class Order(msgspec.Struct):
    id: int


class Session:
    """Something that an application provides."""


def app_with(function: Callable[..., Any], **options: Any) -> App:
    app = App(name="shop")

    @app.provide
    def session() -> Session:
        return Session()

    app.consume("orders", **options)(function)
    return app


async def all_names(order: Order, message: ReceivedMessage, producer: aio.Producer, app: App, session: Session) -> None:
    """Everything at once."""


def in_a_function(message, producer, app, session, order: Order) -> None:  # type: ignore[no-untyped-def]
    """By name alone."""


def by_type(event: ReceivedMessage, out: pyromq.Producer, mine: App, db: Session, order: Order) -> None:
    """By annotation alone."""


def with_defaults(order: Order, limit: int = 3, *, session: Session, note: str = "") -> None:
    """Parameters with defaults keep them."""


def named_message(message: Order) -> None:
    """The annotation wins over the name."""


def ours_unresolved(message: unresolved.faces.ReceivedMessage, producer: unresolved.faces.Producer) -> Unresolved:
    """Names of ours that only type checkers know; what is returned does not matter."""


class Handler:
    def __call__(self, order: Order) -> None: ...

    def method(self, order: Order) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        all_names,
        in_a_function,
        by_type,
        with_defaults,
        named_message,
        ours_unresolved,
        Handler(),
        Handler().method,
        functools.partial(with_defaults, limit=5),
        lambda message: None,
    ],
)
def test_functions_that_fit(function: Callable[..., Any]) -> None:
    app_with(function).check()


def two_bodies(order: Order, other: dict[str, int]) -> None: ...
def no_annotation(order) -> None: ...  # type: ignore[no-untyped-def]
def wrong_producer(order: Order, producer: aio.Producer) -> None: ...
async def wrong_sync_producer(order: Order, producer: pyromq.Producer) -> None: ...
def unknown_type(order: OnlyForTypeCheckers) -> None: ...
def no_list(order: Order) -> None: ...
def a_list(messages: list[ReceivedMessage]) -> None: ...
def one_message(message: ReceivedMessage) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (two_bodies, {}, "'order' is the body already.*message, producer, app, session"),
        (no_annotation, {}, "no annotation.*order: Order.*message, producer, app, session"),
        (wrong_producer, {}, "a function: its producer is a pyromq.Producer"),
        (wrong_sync_producer, {}, "a coroutine: its producer is a pyromq.aio.Producer"),
        (unknown_type, {}, "'OnlyForTypeCheckers' is not defined.*not under TYPE_CHECKING"),
        (no_list, {"batch": 10}, r"write list\[Order\]"),
        (a_list, {}, "batch=… would give a list"),
        (one_message, {"batch": 10}, r"list\[ReceivedMessage\]"),
        (lambda order: None, {}, "no annotation"),
    ],
)
def test_functions_that_do_not_fit(function: Callable[..., Any], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app_with(function, **options).check()


def test_a_class_of_the_enclosing_function_is_found_if_the_listener_uses_it() -> None:
    class Local(msgspec.Struct):
        id: int

    def bill(order: Local) -> Local:
        return Local(order.id)

    app_with(bill).check()


def odd_annotation(order: "1 +") -> None: ...  # type: ignore[valid-type]  # noqa: F722
def not_a_type(order: Order.nothing) -> None: ...  # type: ignore[name-defined]


@pytest.mark.parametrize("function", [odd_annotation, not_a_type])
def test_annotations_that_are_none_are_told(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="annotation"):
        app_with(function).check()


def test_what_can_be_told_at_the_decorator_is_told_there() -> None:
    app = App(name="shop")
    with pytest.raises(ConfigError, match=r"\*arguments would get nothing"):
        app.consume("orders")(lambda *arguments: None)
    with pytest.raises(ConfigError, match="a function or a coroutine function"):
        app.consume("orders")("bill")  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r'@app.consume\("orders"'):
        app.consume(lambda message: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"no option 'ordely'; there are .*orderly"):
        app.consume("orders", ordely=True)(lambda message: None)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="orderly and broadcast"):
        app.consume("orders", orderly=True, broadcast=True)(lambda message: None)
    with pytest.raises(InvalidExpressionError, match="one of them"):
        app.consume("orders", tags="new", sql="a > 1")(lambda message: None)
    with pytest.raises(InvalidNameError):
        app.consume("or ders")(lambda message: None)
    with pytest.raises(ConfigError, match="which group"):
        App().consume("orders")
    with pytest.raises(ConfigError, match="names no topic"):
        app.consume([])(lambda message: None)
    with pytest.raises(ConfigError, match="once_key"):
        app.consume("orders", once_key=lambda message: "")(lambda message: None)
    assert app.listeners == []


def test_an_app_refuses_what_no_client_takes() -> None:
    with pytest.raises(TypeError, match="no option 'credential'; did you mean 'credentials'"):
        App(credential=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidNameError):
        App(name="%RETRY%shop")
    with pytest.raises(ConfigError, match="drain_timeout_ms"):
        App(drain_timeout_ms=0)


def test_decorated_functions_stay_what_they_are() -> None:
    app = App(name="shop")

    @app.consume("orders")
    def bill(order: Order) -> int:
        return order.id

    assert bill(Order(7)) == 7
