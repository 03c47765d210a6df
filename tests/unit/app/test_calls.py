"""What a listener is called with when a message comes, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pyromq import App, ReceivedMessage
from pyromq.app.calls import Values, arguments_of, build_call
from pyromq.app.run import build
from pyromq.errors import ConfigError, DeadLetterError
from tests.unit.received import received


class Order(msgspec.Struct):
    id: int


@dataclass
class Refund:
    id: int
    reason: str = ""


log: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log() -> Iterator[None]:
    log.clear()
    yield


def call_of(app: App, provided: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    """Of its only listener."""
    built = build(app)
    values = Values(app, "async producer", "sync producer", provided or {}, built.signatures)
    for provider, signature in built.providers:
        if provider.scope.value == "app" and provider.name not in values.provided:
            made = provider.function(**arguments_of(signature, values))
            values.provided[provider.name] = made  # type: ignore[index]
    return build_call(built.listeners[0], values, is_batch=app.listeners[0].is_batch)


def listening(function: Callable[..., Any], **options: Any) -> App:
    app = App(name="shop")
    app.consume("orders", **options)(function)
    return app


def test_a_listener_of_messages_is_called_itself() -> None:
    def handle(message: ReceivedMessage) -> None: ...

    assert call_of(listening(handle)) is handle


def test_bodies_are_decoded_by_their_annotation() -> None:
    def order(order: Order) -> Any:
        return order

    def refund(body: Refund) -> Any:
        return body

    def text(body: str) -> Any:
        return body

    def raw(body: bytes) -> Any:
        return body

    def mapping(body: dict[str, Any]) -> Any:
        return body

    json = received(b'{"id":7}')
    assert call_of(listening(order))(json) == Order(7)
    assert call_of(listening(refund))(json) == Refund(7)
    assert call_of(listening(text))(received("grün".encode())) == "grün"
    assert call_of(listening(raw))(received(b"\xff")) == b"\xff"
    assert call_of(listening(mapping))(json) == {"id": 7}


def test_arguments_stand_where_the_signature_has_them() -> None:
    app = App(name="shop")

    @app.provide
    def rate() -> int:
        return 19

    @app.consume("orders")
    async def bill(  # type: ignore[no-untyped-def]
        message, order: Order, limit: int = 3, /, rest: str = "x", *, app, producer, rate, note: str = "n"
    ):
        return message.topic, order.id, limit, rest, app.name, producer, rate, note

    found = asyncio.run(call_of(app)(received(b'{"id":7}')))
    assert found == ("orders", 7, 3, "x", "shop", "async producer", 19, "n")


@pytest.mark.parametrize("body", [b"{", b'{"id":"x"}', b"\xff\xfe", b"[]", b'{"other":1}', b"null"])
def test_a_body_that_does_not_decode_is_a_dead_letter_and_the_listener_is_not_called(body: bytes) -> None:
    def bill(order: Order) -> None:
        log.append(order)

    with pytest.raises(DeadLetterError, match="no Order"):
        call_of(listening(bill))(received(body))
    assert log == []


def test_a_batch_is_a_list_of_bodies_and_of_messages() -> None:
    def bill(orders: list[Order], messages: list[ReceivedMessage]) -> Any:
        return [order.id for order in orders], [message.topic for message in messages]

    call = call_of(listening(bill, batch=3))
    assert call([received(b'{"id":1}'), received(b'{"id":2}')]) == ([1, 2], ["orders", "orders"])
    with pytest.raises(DeadLetterError):
        call([received(b'{"id":1}'), received(b"{")])


def test_what_is_provided_for_each_message_is_made_and_closed_around_the_call() -> None:
    app = App(name="shop")

    @app.provide(scope="message")
    def connection(message: ReceivedMessage) -> Iterator[str]:
        log.append("open")
        yield f"connection for {message.topic}"
        log.append("close")

    @app.provide(scope="message")
    def session(connection: str) -> str:
        return f"session on {connection}"

    @app.consume("orders")
    def bill(order: Order, session: str) -> None:
        log.append((order.id, session))
        if order.id < 0:
            raise ValueError("no")

    call = call_of(app)
    call(received(b'{"id":1}'))
    assert log == ["open", (1, "session on connection for orders"), "close"]
    log.clear()
    with pytest.raises(ValueError, match="no"):
        call(received(b'{"id":-1}'))
    assert log[0] == "open" and len(log) == 2, "what stands behind the yield did not ask for the exception"


async def test_coroutines_have_providers_of_both_kinds() -> None:
    app = App(name="shop")

    @app.provide(scope="message")
    async def connection() -> AsyncIterator[str]:
        try:
            yield "connection"
        finally:
            log.append("closed")

    @app.provide(scope="message")
    async def user(connection: str, message: ReceivedMessage) -> str:
        return f"{connection} {message.tags}"

    @app.consume("orders")
    async def bill(order: Order, user: str) -> None:
        log.append(user)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        await call_of(app)(received(b'{"id":1}', tags="new"))
    assert log == ["connection new", "closed"]


def test_mistakes_of_providers_are_told() -> None:
    app = App(name="shop")

    @app.provide(scope="message")
    async def session() -> str:
        return ""

    with pytest.raises(ConfigError, match="already"):
        app.provide(session)
    with pytest.raises(ConfigError, match="scope='request'; there are app and message"):
        app.provide(scope="request")(lambda: 3)
    with pytest.raises(ConfigError, match="'message' is taken"):

        @app.provide
        def message() -> None: ...

    @app.consume("orders")
    def bill(session: str) -> None: ...

    with pytest.raises(ConfigError, match="is a function, and its 'session' is provided by a coroutine"):
        app.check()


def test_providers_that_ask_for_each_other_are_refused() -> None:
    app = App(name="shop")

    @app.provide
    def one(two): ...  # type: ignore[no-untyped-def]

    @app.provide
    def two(three): ...  # type: ignore[no-untyped-def]

    @app.provide
    def three(one): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigError, match="one → two → three → one"):
        app.check()


def test_a_provider_of_the_app_has_nothing_of_a_message() -> None:
    app = App(name="shop")

    @app.provide(scope="message")
    def session() -> str:
        return ""

    @app.provide
    def cache(session): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigError, match="made once, and 'session' anew for each message"):
        app.check()
    other = App(name="shop")

    @other.provide
    def table(message): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigError, match="cannot have 'message'"):
        other.check()


def test_values_replace_providers_in_tests() -> None:
    app = App(name="shop")

    @app.provide(scope="message")
    def session() -> Iterator[str]:
        raise AssertionError("the real one")
        yield ""

    @app.consume("orders")
    def bill(session: str) -> str:
        return session

    with app.override(session="fake"):
        assert call_of(app)(received()) == "fake"
    with (
        pytest.raises(ConfigError, match="no provider 'sesion' to override; there are session"),
        app.override(sesion=1),
    ):
        pass
    with pytest.raises(AssertionError, match="the real one"):
        call_of(app)(received())
