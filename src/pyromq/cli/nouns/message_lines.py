"""Lines of JSON as ``send --jsonl`` reads them: rows of messages (``consume -o jsonl``), or what people write.

    {"topic":"orders","message_id":"7F…","tags":"new","keys":["order-42"],"properties":{"currency":"EUR"},"body":"42"}

A body that is not UTF-8 is in ``body_base64``, which counts if there are both. What a line says of the place and time
of a message is for readers; sending passes over it, and over properties that servers set. ``delay`` (a span such as
10m), ``delay_ms``, ``deliver_at_ms`` and ``delay_level`` are for lines that people write: a message that was consumed
has waited already.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from pyromq.cli.output.times import span_ms
from pyromq.errors import MessageRefusedError
from pyromq.model.property_names import RESERVED

if TYPE_CHECKING:
    from pyromq.aio import Message

_NUMBERS: Final = ("delay_ms", "deliver_at_ms", "delay_level", "flag", "priority")
LINE_BYTES_PER_BODY_BYTE: Final = 6  # JSON writes a control character as \u0001
LINE_BYTES_MORE: Final = 1 << 18  # everything but the body: properties fit in 32 KiB, and may be escaped as well


def message_of_line(line: bytes, topic: str = "") -> Message:
    """The message that a line stands for; ``topic`` in place of the line's own. Raises MessageRefusedError."""
    import msgspec

    from pyromq.aio import Message

    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MessageRefusedError(f"this is not a message as JSON: {error}") from None
    if not isinstance(fields, dict):
        raise MessageRefusedError(f"a message as JSON is an object, not {_json_kind(fields)}")
    to = topic or fields.get("topic")
    if not isinstance(to, str) or not to:
        raise MessageRefusedError('no topic: name one on the command line, or write "topic" into the line')
    more = {name: _number(fields, name) for name in _NUMBERS if fields.get(name) is not None}
    if fields.get("delay") is not None:
        more["delay_ms"] = _span(fields["delay"])
    return Message(
        to,
        _body_in(fields),
        tags=_text(fields, "tags"),
        keys=_keys_in(fields),
        properties=_properties_in(fields),
        sharding_key=_text(fields, "sharding_key") or _text(fields, "order_key"),
        **more,  # type: ignore[arg-type]  # names and kinds are checked above
    )


def _body_in(fields: dict[str, Any]) -> bytes:
    import msgspec

    if (coded := fields.get("body_base64")) is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise MessageRefusedError(f"body_base64 is not base64: {error}") from None
    body = fields.get("body")
    if body is None:
        raise MessageRefusedError('no body: write "body", or "body_base64" for bytes that are not text')
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def _keys_in(fields: dict[str, Any]) -> str | list[str] | tuple[()]:
    keys = fields.get("keys")
    if keys is None or isinstance(keys, str | list):
        return keys or ()
    raise MessageRefusedError(f'"keys" are text, or a list of texts, not {_json_kind(keys)}')


def _properties_in(fields: dict[str, Any]) -> dict[str, str]:
    properties = fields.get("properties") or {}
    if not isinstance(properties, dict):
        raise MessageRefusedError(f'"properties" are an object of texts, not {_json_kind(properties)}')
    return {name: value for name, value in properties.items() if name not in RESERVED}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    raise MessageRefusedError(f'"{name}" is text, not {_json_kind(value)}')


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageRefusedError(f'"{name}" is a whole number, not {_json_kind(value)}')
    return value


def _span(value: object) -> int:
    found = span_ms(value) if isinstance(value, str) else None
    if found is None:
        raise MessageRefusedError(f'"delay" is a span such as 10m or 1h30m, not {value!r}')
    return found


def _json_kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
