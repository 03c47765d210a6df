"""Handlers: how a replay calls a listener, whatever it takes.

    def bill(message): …                          the message
    def bill(order: Order): …                     its body, decoded as an Order (``pyromq.typed``)
    async def bill(order: Order, message): …      both
    def bill(order: Order, producer): …           and what the replay was handed: run(bill, producer=fake)

Everything is looked up once, before the first message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError
from pyromq.typed import decoder_for
from pyromq.typed.listeners import is_coroutine_function

Fill = Callable[[ReceivedMessage], Any]

_EMPTY: Final = inspect.Parameter.empty
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ReplayHandler:
    """``call(message)`` calls the function; ``is_coroutine`` says whether its result is to be awaited."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """Bind a function to what it needs besides the message. Raises ConfigError for one that cannot be called with a
        message.
        """
        if not callable(function):
            raise ConfigError(f"a handler is a function of a message, not {type(function).__name__}")
        self._function = function
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        self.is_coroutine = is_coroutine_function(function)
        self._positional, self._named = _fills(function, given, self.name)

    def call(self, message: ReceivedMessage) -> Any:
        positional = [fill(message) for fill in self._positional]
        return self._function(*positional, **{name: fill(message) for name, fill in self._named.items()})


def _fills(function: Callable[..., Any], given: Mapping[str, Any], name: str) -> tuple[list[Fill], dict[str, Fill]]:
    """What each parameter gets: by position where it must be, else by name."""
    positional: list[Fill] = []
    named: dict[str, Fill] = {}
    hints, has_body = _hints(function), False
    unused = dict(given)
    for parameter in _parameters(function):
        if parameter.kind in _VARIADIC:
            continue
        annotation = hints.get(parameter.name, _EMPTY)
        is_first = not positional and not named
        if parameter.name in unused:
            fill: Fill = _constant(unused.pop(parameter.name))
        elif _is_message(parameter.name, annotation, is_first=is_first):
            fill = _the_message
        elif annotation is not _EMPTY and not has_body:
            fill, has_body = _body_as(annotation), True
        elif parameter.default is not _EMPTY:
            continue
        else:
            raise ConfigError(f"{name} wants {parameter.name!r}: hand it in, run({name}, {parameter.name}=…)")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY or parameter.name in given:
            named[parameter.name] = fill
        else:
            positional.append(fill)
    if unused:
        raise ConfigError(f"{name} has no parameter {', '.join(sorted(unused))}")
    if not any(fill is not None for fill in (*positional, *named.values())):
        raise ConfigError(f"{name} takes nothing, so it cannot be given a message")
    return positional, named


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not say what it takes, such as list.append of old
        return [inspect.Parameter("message", inspect.Parameter.POSITIONAL_ONLY)]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    plain = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(inspect.unwrap(plain))
    except (NameError, TypeError):
        return {}


def _is_message(name: str, annotation: Any, *, is_first: bool) -> bool:
    if annotation is ReceivedMessage:
        return True
    return annotation in (_EMPTY, Any, object) and (is_first or name == "message")


def _the_message(message: ReceivedMessage) -> ReceivedMessage:
    return message


def _constant(value: Any) -> Fill:
    return lambda _: value


def _body_as(annotation: Any) -> Fill:
    if annotation is bytes:
        return lambda message: message.body
    decode = decoder_for(annotation)
    return lambda message: decode(message.body, message)
