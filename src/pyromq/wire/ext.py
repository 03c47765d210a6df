"""Ext fields: the string map of a header, and the typed structs that are made of it.

JSON headers hold it as an object whose values should be strings. Some clients write numbers and booleans: they count as
the strings they print as. A null counts as absent; an object or an array is an error.

Typed decoding goes straight from JSON text to the struct. Whatever that cannot settle (a number where a string belongs,
a boolean that msgspec would read more generously than Java) takes the way through the string map, which decides.
Fields that the struct does not know are skipped unseen on the straight way. Numbers are decimal, ``5.0`` passes for 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from pyromq.wire.header_errors import HeaderFieldError, UndecodableHeaderError
from pyromq.wire.headers.fields import Header

H = TypeVar("H", bound=Header)

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_SHOWN_CHARACTERS_MAX: Final = 60

Truths = Callable[[Any], tuple[bool | None, ...]]
"""The values of all boolean fields of a header."""

_decode_strings = msgspec.json.Decoder(dict[str, str]).decode
_decode_scalars = msgspec.json.Decoder(dict[str, str | int | float | bool | None] | None).decode


def parse_ext(text: bytes | msgspec.Raw) -> dict[str, str]:
    """The string map of a JSON ``extFields`` value. Raises UndecodableHeaderError."""
    try:
        return _decode_strings(text)
    except JSON_ERRORS:
        pass
    try:
        scalars = _decode_scalars(text) or {}
        return {name: value_text(value) for name, value in scalars.items() if value is not None}
    except JSON_ERRORS as error:
        raise UndecodableHeaderError(f"extFields cannot be decoded: {error}") from error


def value_text(value: str | float | bool) -> str:
    """A value as it stands in a string map."""
    if value is True:
        return "true"
    return "false" if value is False else str(value)


class HeaderReader(Generic[H]):
    """Makes headers of one type; readers are made once per type by reader_of."""

    def __init__(self, header_type: type[H]) -> None:
        fields = msgspec.structs.fields(header_type)
        booleans = [field for field in fields if _kind(field) is bool]
        self._type = header_type
        self.decode = msgspec.json.Decoder(header_type, strict=False).decode
        self._boolean_names = [field.encode_name for field in booleans]
        names = [field.name for field in booleans]
        self.truths: Truths | None = attrgetter(*names, names[0]) if names else None
        self._decode_truth_texts = _decoder_of_texts(booleans)

    def from_json(self, text: bytes | msgspec.Raw) -> H:
        """The header that an ``extFields`` value holds. Raises HeaderFieldError, UndecodableHeaderError."""
        try:
            header = self.decode(text)
        except JSON_ERRORS:
            return self.from_ext(parse_ext(text))
        if self.truths is not None and True in self.truths(header):  # msgspec takes "1" for true, Java does not
            return self.from_ext(parse_ext(text))
        return header

    def is_spelled_as_in_java(self, text: bytes, header: H) -> bool:
        """Whether what msgspec took for true in ``header``, out of the JSON ``text`` of a whole command, is so in Java.

        Java wants the word, in any case; msgspec takes "1", too. False is said of other oddities as well.
        """
        assert self.truths is not None
        try:
            texts: tuple[Any, ...] = self.truths(self._decode_truth_texts(text).extFields)
        except JSON_ERRORS:
            return False
        return [bool(each) for each in self.truths(header)] == [
            each is not None and each.lower() == "true" for each in texts
        ]

    def from_ext(self, ext: Mapping[str, str]) -> H:
        """The header that a string map holds. Raises HeaderFieldError."""
        values: Mapping[str, object] = ext
        if self._boolean_names:
            truths = {name: ext[name].lower() == "true" for name in self._boolean_names if name in ext}
            values = {**ext, **truths}
        try:
            return msgspec.convert(values, self._type, strict=False)
        except ValueError as error:
            raise self._explain(values) from error

    def _explain(self, values: Mapping[str, object]) -> HeaderFieldError:
        """Which field it was: msgspec says so in prose only."""
        name = self._type.__name__
        for field in msgspec.structs.fields(self._type):
            if field.encode_name not in values:
                if field.required:
                    return HeaderFieldError(header=name, field=field.encode_name, reason="is missing")
                continue
            value = values[field.encode_name]
            try:
                msgspec.convert(value, field.type, strict=False)
            except ValueError as error:
                shown = repr(value)[:_SHOWN_CHARACTERS_MAX]
                return HeaderFieldError(header=name, field=field.encode_name, reason=f"holds {shown}: {error}")
        raise AssertionError(f"every field of {name} converts, but not the whole")


def _decoder_of_texts(fields: list[msgspec.structs.FieldInfo]) -> Callable[[bytes], Any]:
    """Make a decoder of commands that reads these fields of the header, as the strings they must be."""
    texts = msgspec.defstruct(
        "Texts",
        [(field.name, str | None, None) for field in fields],
        rename={field.name: field.encode_name for field in fields},
        gc=False,
    )
    return msgspec.json.Decoder(msgspec.defstruct("CommandTexts", [("extFields", texts)], gc=False)).decode


_readers: dict[type[Header], HeaderReader[Any]] = {}


def reader_of(header_type: type[H]) -> HeaderReader[H]:
    reader = _readers.get(header_type)
    if reader is None:
        reader = _readers[header_type] = HeaderReader(header_type)
    return reader


def header_to_ext(header: Header | Mapping[str, str] | None) -> dict[str, str]:
    """The string map of a header, fields without a value left out: what signatures cover and binary headers hold."""
    if header is None:
        return {}
    if isinstance(header, Mapping):
        return dict(header)
    pairs = zip(header.__struct_encode_fields__, map(header.__getattribute__, header.__struct_fields__), strict=True)
    return {name: value_text(value) for name, value in pairs if value is not None}


def strings_of(header: Header | Mapping[str, str] | None) -> object:
    """What msgspec writes as a JSON ``extFields`` object with strings only; None for no header at all."""
    copier = _copiers.get(type(header))
    if copier is not None:
        return copier(header)
    if not isinstance(header, Header):
        return header_to_ext(header)
    copier = _copiers[type(header)] = compile_copier(type(header))
    return copier(header)


_copiers: dict[type[Any], Callable[[Any], object]] = {NoneType: lambda _: None, dict: lambda ext: ext}


def compile_copier(header_type: type[Header]) -> Callable[[Any], object]:
    """A function that copies a header into a twin struct whose fields are all strings.

    Made of source text, as dataclasses make their methods; for OffsetResponseHeader it is ``lambda h:
    twin(str(h.offset))``. That and msgspec's encoder take a third of the time that a loop over the fields takes.
    """
    fields = msgspec.structs.fields(header_type)
    twin = msgspec.defstruct(
        f"{header_type.__name__}Strings",
        [(field.name, str | None, None) for field in fields],
        rename={field.name: field.encode_name for field in fields},
        omit_defaults=True,
        gc=False,
    )
    arguments = []
    for field in fields:
        value = f"h.{field.name}"
        text = {str: value, int: f"str({value})", bool: f"'true' if {value} else 'false'"}[_kind(field)]
        is_optional = _kind(field) is not str and NoneType in get_args(field.type)
        arguments.append(f"None if {value} is None else {text}" if is_optional else text)
    copier: Callable[[Any], object] = eval(f"lambda h: twin({', '.join(arguments)})", {"twin": twin})
    return copier


def _kind(field: msgspec.structs.FieldInfo) -> type[str] | type[int] | type[bool]:
    """What a field holds besides None."""
    types = (field.type, *get_args(field.type))
    if str in types:
        return str
    return bool if bool in types else int
