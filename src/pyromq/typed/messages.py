"""Messages of values: ``message("orders", order, keys="order-42", delay=timedelta(minutes=30))``.

What a message may have besides its topic and body is one TypedDict, ``MessageOptions``: every way of sending a value
takes it (PEP 692), so type checkers know names and types, and no function has a long list of parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypedDict, Unpack

from pyromq.errors import MessageRefusedError
from pyromq.model.message import Message
from pyromq.model.times import Span
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA
from pyromq.typed.encoding import Encoded, encode
from pyromq.typed.kinds import RAW


class MessageOptions(TypedDict, total=False):
    """What ``Message`` takes besides topic and body, and ``content_type`` and ``schema`` where the type of the value
    should not choose them."""

    tags: str
    keys: Iterable[str]
    properties: Mapping[str, str]
    sharding_key: str
    priority: int | None
    delay: Span
    deliver_at: datetime
    delay_level: int
    delay_ms: int
    deliver_at_ms: int
    flag: int
    wait_stored: bool
    content_type: str
    schema: str


_NAMES: Final = MessageOptions.__optional_keys__


class BodyRule(Protocol):
    """How values of a topic are written, by its schema (``typed.schemas.topic_bodies``)."""

    def encode(self, value: Any) -> Encoded: ...


def is_by_schema(value: object, options: Mapping[str, Any]) -> bool:
    """Whether the schema of a topic has a say on a value: bytes are sent as they are, and so is what the sender has
    given a content type.
    """
    return value is not NO_VALUE and not isinstance(value, (*RAW, Message)) and options.get("content_type") is None


def message(topic: str, value: object, /, **options: Unpack[MessageOptions]) -> Message:
    """A message whose body is the value, encoded by its type; content type and schema name are properties.

    Bytes are sent as they are and say nothing of themselves unless ``content_type`` is given: the reader decides.
    Raises MessageRefusedError for a value that cannot be written, TypeError for an unknown option, and what ``Message``
    raises.
    """
    return _message(topic, value, options, None)


def _message(topic: str, value: object, options: MessageOptions, rule: BodyRule | None) -> Message:
    given: dict[str, Any] = {**options}
    content_type, schema = given.pop("content_type", None), given.pop("schema", None)
    if isinstance(value, Message):
        raise MessageRefusedError("a Message is sent as it is: send(message), without a topic")
    if not given.keys() <= _NAMES:
        raise unknown_option(given)
    body, written_as, name = rule.encode(value) if rule is not None else encode(value, content_type=content_type)
    marks = {} if content_type is None and isinstance(value, RAW) else {CONTENT_TYPE: written_as}
    if schema or name:
        marks[SCHEMA] = name if schema is None else schema
    if marks:
        given["properties"] = {**marks, **given["properties"]} if given.get("properties") else marks
    return Message(topic, body, **given)


def as_message(given: Message | str, value: object, options: MessageOptions, rule: BodyRule | None = None) -> Message:
    """What a way of sending was called with: a message alone, or a topic and a value with options, written by the
    topic's ``rule`` if it has one.

    ``NO_VALUE`` stands for a value that was not given. Raises MessageRefusedError, TypeError.
    """
    if isinstance(given, Message):
        if value is not NO_VALUE or options:
            if not options.keys() <= _NAMES:
                raise unknown_option(options)
            names = ", ".join(sorted(options)) or "a value"
            raise TypeError(f"{names} beside a Message: give it to Message(…) itself, or send a topic and a value")
        return given
    if isinstance(given, str) and value is not NO_VALUE:
        return _message(given, value, options, rule)
    advice = f"; send({given[:80]!r}, value) has a value" if isinstance(given, str) else ""
    raise MessageRefusedError(f"a producer sends Message(topic, body), not {type(given).__name__}{advice}")


def as_messages(given: Any, values: object, options: MessageOptions, rule: BodyRule | None = None) -> Any:
    """Make several messages from messages, or from a topic and values."""
    if not isinstance(given, str):
        if values is not NO_VALUE or options:
            if not options.keys() <= _NAMES:
                raise unknown_option(options)
            names = ", ".join(sorted(options)) or "values"
            raise TypeError(f"{names} beside messages: give it to each Message(…), or send a topic and values")
        return given
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise MessageRefusedError(f"send_batch takes a topic and several values, not {_kind(values)}")
    return [_message(given, value, options, rule if is_by_schema(value, options) else None) for value in values]


def unknown_option(options: Mapping[str, Any]) -> TypeError:
    from difflib import get_close_matches  # only mistakes need it

    name = next(each for each in options if each not in _NAMES)
    close = get_close_matches(name, (*_NAMES, "timeout", "timeout_ms", "queue", "selector"), n=1)
    more = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(_NAMES))}"
    return TypeError(f"a message has no option {name!r}{more}")


def _kind(values: object) -> str:
    return "a topic alone" if values is NO_VALUE else type(values).__name__


class _NoValue:
    def __repr__(self) -> str:
        return "no value"


NO_VALUE: Final = _NoValue()
"""None is a value: it is sent as JSON's null."""
