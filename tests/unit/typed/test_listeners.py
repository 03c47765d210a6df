"""What a listener wants, read from its annotation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BodyError, ConfigError, DeadLetterError
from pyromq.typed import UndecodableError, listener
from tests.unit.client.stored import received as stored

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

    from pyromq import ReceivedMessage as ElsewhereReceivedMessage

T = TypeVar("T")


@dataclass
class Order:
    id: int


def takes_order(order: Order) -> Any:
    return order


def takes_both(order: Order, message: ReceivedMessage) -> Any:
    return order, message


def takes_optional(order: Order | None = None) -> Any:
    return order


def with_default(order: Order, note: str = "") -> Any:
    return order, note


def plain(message) -> Any:  # type: ignore[no-untyped-def]
    return message


def annotated(message: ReceivedMessage) -> Any:
    return message


def anything(message: Any) -> Any:
    return message


def generic(message: T) -> T:
    return message


def for_checkers_alone(message: ElsewhereReceivedMessage) -> Any:
    return message


class Handler:
    def method(self, order: Order) -> Any:
        return order

    def __call__(self, order: Order) -> Any:
        return order


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


def two(prefix: str, order: Order) -> Any:
    return order


@pytest.mark.parametrize(
    "function",
    [takes_order, takes_optional, Handler().method, Handler(), logged(takes_order), functools.partial(two, "x")],
)
def test_a_parameter_of_another_type_gets_the_body(function: Any) -> None:
    assert listener(function)(stored(body=b'{"id": 3}')) == Order(3)
    assert Listener(function, None, threads=1, name="g").function(stored(body=b'{"id": 3}')) == Order(3)


def test_a_second_parameter_gets_the_message() -> None:
    message = stored(body=b'{"id": 3}')
    assert listener(takes_both)(message) == (Order(3), message)
    assert Listener(takes_both, None, threads=1, name="g").function(message) == (Order(3), message)
    assert listener(with_default)(message) == (Order(3), "")


@pytest.mark.parametrize(
    "function", [plain, annotated, anything, generic, for_checkers_alone, lambda message: message, print]
)
def test_other_listeners_get_the_message_as_ever(function: Any) -> None:
    assert listener(function) is function
    assert Listener(function, None, threads=1, name="g").function is function


async def test_a_coroutine_stays_one() -> None:
    async def soon(order: Order) -> Any:
        return order

    wrapped = listener(soon)
    assert await wrapped(stored(body=b'{"id": 3}')) == Order(3)
    made = Listener(soon, None, threads=1, name="g")
    assert made.is_coroutine
    assert made.function_name.endswith("soon")
    assert await made.function(stored(body=b'{"id": 3}')) == Order(3)


def test_what_does_not_decode_is_told_with_the_reason() -> None:
    with pytest.raises(UndecodableError, match="body is no Order") as caught:
        listener(takes_order)(stored(body=b"[]"))
    assert isinstance(caught.value, DeadLetterError)
    assert isinstance(caught.value.__cause__, BodyError)
    assert list(caught.value.reasons) == [0]


def test_a_batch_is_decoded_whole_or_says_which_are_not() -> None:
    def handle(orders: Sequence[Order]) -> Any:
        return orders

    made = Listener(None, handle, threads=1, name="g")
    assert made.function([stored(body=b'{"id": 1}'), stored(body=b'{"id": 2}')]) == [Order(1), Order(2)]
    with pytest.raises(UndecodableError) as caught:
        made.function([stored(body=b"1"), stored(body=b'{"id": 2}'), stored(body=b"x")])
    assert list(caught.value.reasons) == [0, 2]


def test_a_batch_listener_that_takes_one_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not Order; it is listener=… that takes one"):
        Listener(None, takes_order, threads=1, name="g")


def test_an_annotation_that_nobody_knows_is_refused_when_the_consumer_is_made() -> None:
    def handle(order: Unknown) -> None: ...

    with pytest.raises(ConfigError, match=r"annotated with 'Unknown', which nobody knows .* outside of TYPE_CHECKING"):
        Listener(handle, None, threads=1, name="g")


def test_a_local_class_that_the_function_uses_is_known() -> None:
    @dataclass
    class Local:
        id: int

    def handle(order: Local) -> Any:
        assert isinstance(order, Local)
        return order.id

    assert listener(handle)(stored(body=b'{"id": 5}')) == 5


class Opaque:
    pass


def test_a_type_that_nothing_is_read_as_is_refused_when_the_consumer_is_made() -> None:
    def handle(order: Opaque) -> None: ...

    with pytest.raises(ConfigError, match="no body can be read as Opaque"):
        Listener(handle, None, threads=1, name="g")


def test_a_listener_of_three_parameters_is_refused() -> None:
    def handle(order: Order, message: ReceivedMessage, third: int) -> None: ...

    with pytest.raises(ConfigError, match="does not fit"):
        Listener(handle, None, threads=1, name="g")


def test_a_listener_of_two_parameters_needs_an_annotation_to_decode_by() -> None:
    def handle(first, second) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigError, match="does not fit"):
        Listener(handle, None, threads=1, name="g")
