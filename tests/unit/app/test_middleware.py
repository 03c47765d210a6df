"""The application's own code around its listeners."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pyromq import App
from pyromq.errors import ConfigError
from tests.unit.received import received


def around(app: App, call: Any, *, is_coroutine: bool, group: str = "shop") -> Any:
    for middleware in reversed(app.middlewares):
        call = middleware.around(call, group, "listener bill", is_coroutine=is_coroutine)
    return call


def test_functions_stand_around_functions_the_first_outermost() -> None:
    app, log = App(name="shop"), list[str]()

    @app.middleware
    def outer(message: Any, call_next: Any) -> Any:
        log.append("outer")
        return f"<{call_next(message)}>"

    @app.middleware
    def inner(message: Any) -> Iterator[None]:
        log.append(f"inner {message.topic}")
        yield
        log.append("after")

    call = around(app, lambda message: log.append("listener") or "done", is_coroutine=False)
    assert call(received()) == "<done>"
    assert log == ["outer", "inner orders", "listener", "after"]


async def test_coroutines_and_generators_of_both_kinds_stand_around_coroutines() -> None:
    app, log = App(name="shop"), list[str]()

    @app.middleware
    async def outer(message: Any, call_next: Any) -> Any:
        return f"<{await call_next(message)}>"

    @app.middleware
    def plain(message: Any) -> Iterator[None]:
        log.append("plain")
        yield
        log.append("plain after")

    @app.middleware
    async def waiting(message: Any) -> AsyncIterator[None]:
        log.append("waiting")
        yield
        log.append("waiting after")

    async def listen(message: Any) -> str:
        log.append("listener")
        return "done"

    assert await around(app, listen, is_coroutine=True)(received()) == "<done>"
    assert log == ["plain", "waiting", "listener", "waiting after", "plain after"]


async def test_what_a_listener_raises_is_raised_at_the_yield_and_goes_on() -> None:
    app, seen = App(name="shop"), list[str]()

    @app.middleware
    def watching(message: Any) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append(str(error))
            raise

    async def fail(message: Any) -> None:
        raise ValueError("no")

    def fail_at_once(message: Any) -> None:
        raise ValueError("nor this")

    with pytest.raises(ValueError, match="no"):
        await around(app, fail, is_coroutine=True)(received())
    with pytest.raises(ValueError, match="nor this"):
        around(app, fail_at_once, is_coroutine=False)(received())
    assert seen == ["no", "nor this"]


def test_the_wrong_kind_is_refused_when_the_app_is_checked() -> None:
    app = App(name="shop")

    @app.middleware
    async def in_transaction(message: Any, call_next: Any) -> Any:
        return await call_next(message)

    @app.consume("orders", group="sync")
    def bill(order: bytes) -> None: ...

    with pytest.raises(ConfigError, match=r"in_transaction cannot be around listener .*bill, which is a function"):
        app.check()


def test_groups_leave_other_listeners_out() -> None:
    app = App(name="shop")

    @app.middleware(groups=["async"])
    async def in_transaction(message: Any, call_next: Any) -> Any:
        return await call_next(message)

    @app.consume("orders", group="sync")
    def bill(order: bytes) -> None: ...

    app.check()
    call = around(app, len, is_coroutine=False, group="sync")
    assert call is len


def test_parameters_of_a_middleware_are_looked_at_by_the_decorator() -> None:
    app = App(name="shop")
    with pytest.raises(ConfigError, match=r"is called with \(message, call_next\)"):
        app.middleware(lambda message: None)
