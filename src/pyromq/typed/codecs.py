"""Codecs: types whose bodies are written in a format of their own.

    register(Codec(type=Order, content_type="application/vnd.shop.order", encode=Order.pack, decode=Order.unpack))
    register(avro(Order, schema))

A codec is for a type and its subclasses; the nearest one counts. ``decode`` says by ValueError, TypeError, LookupError,
ArithmeticError or EOFError that bytes are none of its type: that is a BodyError. Whatever else it raises stays as it
is, so that a registry of schemas that cannot be reached does not make dead letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.typed.content_types import format_of

DATA_ERRORS: Final = (ValueError, TypeError, LookupError, ArithmeticError, EOFError, RecursionError)
"""What says that data are wrong, not that something did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """How values of ``type`` become bodies with ``content_type``, and bodies values.

    ``decode(body, schema)`` gets the schema name of the message, empty if it has none, so that a reader can know
    writers apart; ``schema`` is the name that messages are sent with. ``json_schema`` describes the type in documents.
    """

    type: type[Any]
    content_type: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, str], Any]
    schema: str = ""
    json_schema: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, type):
            raise ConfigError(f"a codec is for a class, not for {self.type!r}")
        if self.type in (object, bytes, str, dict, list, tuple, int, float, bool):
            raise ConfigError(f"a codec is for a class of yours: {self.type.__name__} is what many messages are")
        if not isinstance(self.content_type, str) or "/" not in self.content_type:
            raise ConfigError(f"content_type={self.content_type!r}: write kind/name, as application/vnd.shop.order")


_codecs: dict[type[Any], Codec] = {}
_on_change: list[Callable[[], None]] = []


def register(codec: Codec) -> Codec:
    """From now on values of its type are sent and read with it; decoders that were made before stay as they are.

    Raises ConfigError when the type has another one already.
    """
    present = _codecs.get(codec.type)
    if present is not None and present != codec:
        name = codec.type.__qualname__
        raise ConfigError(f"{name} has a codec already ({present.content_type}): unregister({name}) first")
    _codecs[codec.type] = codec
    _changed()
    return codec


def unregister(kind: type[Any]) -> None:
    """Its values are sent and read as JSON again; does nothing for a type without codec."""
    if _codecs.pop(kind, None) is not None:
        _changed()


def codec_of(kind: object) -> Codec | None:
    """The codec of a class: its own, or that of the nearest class it is derived from."""
    if not _codecs or not isinstance(kind, type):
        return None
    return next((found for each in kind.__mro__ if (found := _codecs.get(each)) is not None), None)


def same_format(codec: Codec, content_type: str) -> bool:
    """Whether a message with this content type is one of the codec's."""
    if content_type == codec.content_type:
        return True
    known = format_of(codec.content_type)
    return known is not None and known is format_of(content_type)


def on_change(function: Callable[[], None]) -> None:
    """Whoever keeps something that was made of the codecs hears when they change."""
    _on_change.append(function)


def _changed() -> None:
    for function in _on_change:
        function()
