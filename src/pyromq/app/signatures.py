"""Signatures: which parameter of a function of the application gets what.

    message, messages   the ReceivedMessage, or the list of them                  also by annotation
    producer            pyromq.aio.Producer for coroutines, pyromq.Producer for functions
    app                 the App
    a provided name     what ``@app.provide`` gives, by name or by type
    the first other one with an annotation: the body, decoded

Read once, when an app starts. Everything that does not fit is reported then, with the names that would.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.producer import Producer
from pyromq.client.sync.faces import Producer as SyncProducer
from pyromq.errors import ConfigError
from pyromq.typed.listeners import is_coroutine_function

if TYPE_CHECKING:
    from pyromq.app.providers import Provider

MISSING: Final = inspect.Parameter.empty
_OURS: Final = ("ReceivedMessage", "Producer", "App")
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_COLLECTING: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ParameterKind(Enum):
    """What a parameter may be, besides what the application provides."""

    MESSAGE = "message"
    PRODUCER = "producer"
    APP = "app"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """One parameter and its source; ``is_keyword`` when it cannot be given by position."""

    name: str
    source: ParameterKind | Provider
    annotation: Any = MISSING
    is_keyword: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of the application, and what it is called with."""

    function: Callable[..., Any]
    what: str
    slots: tuple[ParameterSlot, ...]
    is_coroutine: bool

    @property
    def body(self) -> Any:
        """The type of its body; MISSING if it takes none."""
        return next((slot.annotation for slot in self.slots if slot.source is ParameterKind.BODY), MISSING)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What functions of one kind may ask for."""

    given: frozenset[ParameterKind]
    providers: Mapping[str, Provider]
    is_batch: bool = False

    def names(self) -> list[str]:
        """For mistakes: every name that would do."""
        found = [self.message_name] if ParameterKind.MESSAGE in self.given else []
        found += [each.value for each in (ParameterKind.PRODUCER, ParameterKind.APP) if each in self.given]
        return found + sorted(self.providers)

    @property
    def message_name(self) -> str:
        return "messages" if self.is_batch else "message"


def name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def check_function(what: str, function: object) -> None:
    """What can be checked at the decorator. Raises ConfigError."""
    if not callable(function):
        raise ConfigError(f"{what} must be a function or a coroutine function, not {function!r}")
    for parameter in _parameters(what, function):
        if parameter.kind in _COLLECTING:
            text = f"{what}{name_of(function)}: *{parameter.name} would get nothing"
            raise ConfigError(f"{text}; name the parameters that it needs")


def read_signature(what: str, function: Callable[..., Any], allowed: Allowed) -> Signature:
    """``what`` begins mistakes: "listener ". Raises ConfigError."""
    check_function(what, function)
    where = f"{what}{name_of(function)}"
    is_coroutine = is_coroutine_function(function) or inspect.isasyncgenfunction(function)
    hints = _hints(where, function)
    slots: list[ParameterSlot] = []
    for parameter in _parameters(what, function):
        annotation = hints.get(parameter.name, MISSING)
        source = _source_of(parameter.name, annotation, allowed, is_coroutine, where)
        if source is None:
            if parameter.default is not MISSING:
                continue
            source = _body(where, parameter.name, annotation, allowed, slots)
        slots.append(ParameterSlot(parameter.name, source, annotation, parameter.kind is _KEYWORD))
    return Signature(function, where, _by_position_first(where, function, slots), is_coroutine)


def item_type(where: str, annotation: Any) -> Any:
    """``Order`` of ``list[Order]``, for listeners of batches. Raises ConfigError."""
    if get_origin(annotation) in (list, Sequence, Iterable) and len(found := get_args(annotation)) == 1:
        return found[0]
    text = f"{where} gets several messages at once (batch=…), and its body is {annotation!r}"
    raise ConfigError(f"{text}: write list[{getattr(annotation, '__name__', 'Order')}]")


def _source_of(
    name: str, annotation: Any, allowed: Allowed, is_coroutine: bool, where: str
) -> ParameterKind | Provider | None:
    if provider := allowed.providers.get(name):
        return provider
    given = _given(name, annotation, allowed)
    if given is ParameterKind.PRODUCER:
        _check_producer(where, annotation, is_coroutine)
    if given is not None:
        if given not in allowed.given:
            raise ConfigError(f"{where} cannot have {name!r}: {_choices(allowed)}")
        return given
    found = [each for each in allowed.providers.values() if annotation is not MISSING and each.type is annotation]
    if len(found) > 1:
        names = " and ".join(sorted(each.name for each in found))
        raise ConfigError(f"{where}: {name!r} may be {names}, which have the same type; use the name of one of them")
    return found[0] if found else None


def _given(name: str, annotation: Any, allowed: Allowed) -> ParameterKind | None:
    from pyromq.app.app import App

    is_message = annotation is ReceivedMessage or annotation == list[ReceivedMessage]
    if is_message or (annotation is MISSING and name in ("message", "messages")):
        wanted = list[ReceivedMessage] if allowed.is_batch else ReceivedMessage
        if annotation is not MISSING and annotation != wanted and ParameterKind.MESSAGE in allowed.given:
            text = "list[ReceivedMessage]" if allowed.is_batch else "ReceivedMessage; batch=… would give a list"
            raise ConfigError(f"parameter {name!r} is {annotation!r}, and this listener gets {text}")
        return ParameterKind.MESSAGE
    if annotation in (Producer, SyncProducer) or (annotation is MISSING and name == "producer"):
        return ParameterKind.PRODUCER
    if annotation is App or (annotation is MISSING and name == "app"):
        return ParameterKind.APP
    return None


def _check_producer(where: str, annotation: Any, is_coroutine: bool) -> None:
    wanted = Producer if is_coroutine else SyncProducer
    if annotation is not MISSING and annotation is not wanted:
        kind, name = ("a coroutine", "pyromq.aio.Producer") if is_coroutine else ("a function", "pyromq.Producer")
        raise ConfigError(f"{where} is {kind}: its producer is a {name}")


def _body(where: str, name: str, annotation: Any, allowed: Allowed, slots: Sequence[ParameterSlot]) -> ParameterKind:
    if ParameterKind.BODY not in allowed.given:
        raise ConfigError(f"{where} has a parameter {name!r} that nothing fills: {_choices(allowed)}")
    if annotation is MISSING:
        text = f"{where}: parameter {name!r} has no annotation. As a body it needs one ({name}: Order, dict, bytes)"
        raise ConfigError(f"{text}; else {_choices(allowed)}")
    if other := next((slot.name for slot in slots if slot.source is ParameterKind.BODY), None):
        raise ConfigError(f"{where}: {other!r} is the body already, so {name!r} cannot be: {_choices(allowed)}")
    return ParameterKind.BODY


def _choices(allowed: Allowed) -> str:
    names = ", ".join(allowed.names())
    return f"there are {names}, and what @app.provide adds" if names else "it takes no parameters"


def _by_position_first(
    where: str, function: Callable[..., Any], slots: list[ParameterSlot]
) -> tuple[ParameterSlot, ...]:
    """After a parameter that keeps its default, others are given by name."""
    positions = [each.name for each in inspect.signature(function).parameters.values() if each.kind is not _KEYWORD]
    kept: list[ParameterSlot] = []
    for at, slot in enumerate(slots):
        in_place = at < len(positions) and positions[at] == slot.name
        kept.append(
            slot if in_place or slot.is_keyword else ParameterSlot(slot.name, slot.source, slot.annotation, True)
        )
    return tuple(kept)


def _parameters(what: str, function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:  # some built-in functions say nothing about themselves
        raise ConfigError(f"{what}{name_of(function)} does not tell its parameters: wrap it in a function") from error


def _hints(where: str, function: Any) -> dict[str, Any]:
    """Annotations of parameters, resolved one by one: what a function returns may be known to type checkers alone."""
    target = inspect.unwrap(function)
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not (inspect.isfunction(target) or inspect.ismethod(target)):
        target = type(target).__call__
    names = {**getattr(target, "__globals__", {}), **_closure(target)}
    found: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        if name != "return" and (hint := _resolved(where, name, annotation, names)) is not MISSING:
            found[name] = hint
    return found


def _resolved(where: str, name: str, annotation: Any, names: dict[str, Any]) -> Any:
    """MISSING for a class of ours that was imported for type checkers alone: the name of the parameter decides then."""
    holder = SimpleNamespace(__annotations__={name: annotation})
    try:
        return get_type_hints(holder, globalns=names)[name]
    except NameError as error:
        if isinstance(annotation, str) and annotation.rpartition(".")[2] in _OURS:
            return MISSING
        text = f"{where}: the annotation {error.name!r} is not defined where the function is"
        raise ConfigError(f"{text}; import it there, not under TYPE_CHECKING, or define it at the top") from error
    except (TypeError, AttributeError, SyntaxError) as error:
        raise ConfigError(f"{where}: the annotation {annotation!r} of {name!r} cannot be read: {error}") from error


def _closure(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found
