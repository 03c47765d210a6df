r"""Message properties as they are stored: ``name 0x01 value 0x02`` repeated, UTF-8, at most 32 767 bytes.

Everything that reads or writes these bytes is here; ``property_text`` has the same for the text that travels in
requests. Writers end the last item with 0x02 too; some old ones do not, so readers accept both. An item without 0x01,
with an empty name or an empty value is ignored; of a repeated name the last one counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.errors import LocalProtocolError, PropertiesTooLargeError, RemoteProtocolError
from pyromq.model.property_names import ITEM_END, KEYS, NAME_END, UNIQUE_KEY
from pyromq.wire.property_text import encode_text, join_items, split_items

PROPERTIES_BYTES_MAX = 32_767

_NAME_END, _ITEM_END = NAME_END.encode(), ITEM_END.encode()
ITEM_END_BYTE = _ITEM_END[0]
_UNIQUE_KEY, _KEYS = UNIQUE_KEY.encode() + _NAME_END, KEYS.encode() + _NAME_END


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The stored form; raises when an item could not be read back or everything is too long."""
    for name, value in properties.items():
        if not name or not value or NAME_END in name or ITEM_END in name or NAME_END in value or ITEM_END in value:
            raise LocalProtocolError(
                f"property {name!r} cannot be stored: name and value must be non-empty and free of \\x01 and \\x02"
            )
    raw = encode_text(join_items(properties.items()))
    if len(raw) > PROPERTIES_BYTES_MAX:
        raise PropertiesTooLargeError(what="properties", size_bytes=len(raw), bytes_max=PROPERTIES_BYTES_MAX)
    return raw


def decode_properties(raw: bytes) -> dict[str, str]:
    """All items; raises RemoteProtocolError only for text that is not UTF-8."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"properties are not UTF-8: {error}") from error
    return split_items(text)


def closed_properties(raw: bytes) -> bytes:
    """With the mark at the end that some writers leave out, so that items can be added."""
    return raw if not raw or raw[-1] == ITEM_END_BYTE else raw + _ITEM_END


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """One value straight from the stored form: ten times cheaper than decoding everything."""
    return _value_behind(raw, name + _NAME_END)


def message_keys(raw: bytes) -> list[bytes]:
    """What the key index holds of a message: its unique key first, then each part of KEYS."""
    before, found, behind = raw.rpartition(_UNIQUE_KEY)  # ``_value_behind``, unrolled for what nearly all have
    unique: bytes | None = behind.partition(_ITEM_END)[0] if found else None
    if not unique or (before and before[-1] != ITEM_END_BYTE):
        unique = _value_behind(raw, _UNIQUE_KEY)
    if raw.rfind(_KEYS) < 0 or (words := _value_behind(raw, _KEYS)) is None:
        return [unique] if unique else []
    keys = words.split(b" ")
    if len(keys) > 1:
        keys = [key for key in keys if key]
    return [unique, *keys] if unique else keys


def _value_behind(raw: bytes, key: bytes) -> bytes | None:
    """The value of the last item that begins with ``key`` (a name and 0x01) and has one."""
    before, found, behind = raw.rpartition(key)
    if not found:
        return None
    if not before or before[-1] == ITEM_END_BYTE:  # else the name is only the end of a longer one, or part of a value
        if value := behind.partition(_ITEM_END)[0]:
            return value
    return _value_further_in_front(raw, key, len(before))


def _value_further_in_front(raw: bytes, key: bytes, item: int) -> bytes | None:
    while (item := raw.rfind(key, 0, item)) >= 0:
        if item == 0 or raw[item - 1] == ITEM_END_BYTE:
            start = item + len(key)
            end = raw.find(_ITEM_END, start)
            if value := raw[start:] if end < 0 else raw[start:end]:
                return value
    return None
