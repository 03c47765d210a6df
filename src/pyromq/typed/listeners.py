"""Listeners whose first parameter is not the message but what is in it.

    def bill(order: Order) -> None: ...                             the body, decoded as an Order
    def bill(order: Order, message: ReceivedMessage) -> None: ...   the message beside it
    def bill_all(orders: list[Order]) -> None: ...                  of a batch listener
    def handle(message): …, (message: ReceivedMessage): …, (message: Any): …    the message, as ever

Annotations are read once, when a consumer is made. What does not decode ends in UndecodableError, which is a
DeadLetterError: no retry can help.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, get_args, get_origin, get_type_hints

from pyromq.errors import BodyError, ConfigError, DeadLetterError
from pyromq.typed.decoding import Decoder, decoder_for
from pyromq.typed.kinds import is_message, members, name_of, without_annotated

Function = Callable[..., Any]
FunctionT = TypeVar("FunctionT", bound=Function)

_MARK: Final = "__pyromq_takes_messages__"
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SEVERAL: Final = (list, tuple, Sequence)


class ReadMessage(Protocol):
    """What a listener's message has at least."""

    @property
    def body(self) -> bytes: ...

    def get(self, name: str, /) -> str | None: ...


Reader = Callable[[ReadMessage], Any]


class UndecodableError(DeadLetterError):
    """Messages that are not what their listener takes; ``reasons`` by their place in the batch."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__("; ".join(list(reasons.values())[:3]))
        self.reasons = dict(reasons)


def listener(function: Function) -> Function:
    """Wrap a function so that it takes messages: its first parameter is decoded as annotated. A function without a type
    stays.

    A PushConsumer does that by itself; this is for code that calls listeners. Raises ConfigError for an annotation that
    nothing can be decoded as.
    """
    read = reader_for(function)
    if read is None:
        return function
    takes_both = takes_message_too(function)

    @functools.wraps(function)
    def handle(message: ReadMessage) -> Any:
        return function(read(message), message) if takes_both else function(read(message))

    @functools.wraps(function)
    async def handle_soon(message: ReadMessage) -> Any:
        return await handle(message)

    return takes_messages(handle_soon if is_coroutine_function(function) else handle)


def takes_messages(function: FunctionT) -> FunctionT:
    """Says of a wrapper that it wants the message, whatever the function in it is annotated with."""
    setattr(function, _MARK, True)
    return function


def reader_for(function: Function) -> Reader | None:
    """What makes the first argument of a listener from a message; None when it takes the message itself.

    Raises ConfigError for an annotation that nothing can be decoded as. The reader raises UndecodableError.
    """
    annotation = first_annotation(function)
    return None if annotation is None or takes_the_message(annotation) else body_reader(annotation)


def body_reader(annotation: Any, decode: Decoder[Any] | None = None) -> Reader:
    """Return what decodes the body of a message. Raises ConfigError; what it returns raises UndecodableError."""
    decode = decode or decoder_for(annotation)

    def read(message: ReadMessage) -> Any:
        try:
            return decode(message.body, message)
        except BodyError as error:
            raise UndecodableError({0: error.summary}) from error

    return read


def batch_reader_for(function: Function) -> Callable[[Sequence[ReadMessage]], list[Any]] | None:
    """Return the function that decodes a batch for a parameter such as ``list[Order]``; None for plain messages."""
    annotation = first_annotation(function)
    plain = without_annotated(annotation)
    if annotation is None or takes_the_message(annotation) or plain in _SEVERAL:
        return None
    item = get_args(plain)[:1]
    if get_origin(plain) not in _SEVERAL or not item:
        text = f"a batch listener takes a list of messages, or of what they hold: list[…], not {name_of(annotation)}"
        raise ConfigError(f"{text}; it is listener=… that takes one")
    if takes_the_message(item[0]):
        return None
    return batch_reader(item[0])


def batch_reader(annotation: Any, decode: Decoder[Any] | None = None) -> Callable[[Sequence[ReadMessage]], list[Any]]:
    """Values of several messages; all that do not decode are named at once, and the others come again without them."""
    decode = decode or decoder_for(annotation)

    def read(messages: Sequence[ReadMessage]) -> list[Any]:
        values: list[Any] = []
        reasons: dict[int, str] = {}
        for place, message in enumerate(messages):
            try:
                values.append(decode(message.body, message))
            except BodyError as error:
                reasons[place] = error.summary
        if reasons:
            raise UndecodableError(reasons)
        return values

    return read


def takes_message_too(function: Function) -> bool:
    """Whether there is a second parameter that must be given."""
    required = [each for each in _parameters(function) if each.default is inspect.Parameter.empty]
    return len([each for each in required if each.kind in _POSITIONAL]) > 1


def takes_the_message(annotation: Any) -> bool:
    """Nothing said, anything, or a class that is a message by its looks."""
    kinds = members(annotation)
    return any(kind in (Any, object) or isinstance(kind, TypeVar) or is_message(kind) for kind in kinds)


# --- what a function says of itself --------------------------------------------------------------------------------


def first_annotation(function: Function) -> Any:
    """The type of the first parameter; None when nothing is said. Raises ConfigError for a name that is not known."""
    if hasattr(function, _MARK):
        return None
    parameters = _parameters(function)
    if not parameters or parameters[0].kind not in _POSITIONAL:
        return None
    annotation = parameters[0].annotation
    if annotation is inspect.Parameter.empty:
        return None
    return _resolved(annotation, function) if _has_names(annotation) else annotation


def _parameters(function: Function) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):  # some built-in functions say nothing about themselves
        return []
    inner = getattr(function, "__wrapped__", None)
    if inner is not None and (not parameters or parameters[0].kind is inspect.Parameter.VAR_POSITIONAL):
        return _parameters(inner)  # a decorator that hands on whatever it gets
    return parameters


def _has_names(annotation: Any) -> bool:
    return isinstance(annotation, str) or any(map(_has_names, get_args(annotation)))


def _resolved(annotation: Any, function: Function) -> Any:
    owner = _plain_function(function)
    holder = type("holder", (), {"__annotations__": {"first": annotation}})
    names = {**getattr(owner, "__globals__", {}), **_closure(owner)}
    try:
        return get_type_hints(holder, globalns=names, localns={}, include_extras=True)["first"]
    except (NameError, AttributeError) as error:
        if isinstance(annotation, str) and annotation.rpartition(".")[2].strip("'\"").endswith("ReceivedMessage"):
            return None  # known to type checkers alone
        name = getattr(owner, "__qualname__", repr(owner))
        text = f"the first parameter of {name} is annotated with {annotation!r}, which nobody knows at run time"
        advice = "define it in the module, and import it outside of TYPE_CHECKING"
        raise ConfigError(f"{text} ({error}): {advice}") from error


def _plain_function(function: Any) -> Any:
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isfunction(function):
            inner = getattr(function, "__wrapped__", None)
            first = next(iter(inspect.signature(function, follow_wrapped=False).parameters.values()), None)
            if inner is None or first is None or first.kind is not inspect.Parameter.VAR_POSITIONAL:
                return function
            function = inner
        else:
            return getattr(type(function), "__call__", function)  # noqa: B004 - of an object that can be called


def _closure(function: Any) -> Mapping[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def is_coroutine_function(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
