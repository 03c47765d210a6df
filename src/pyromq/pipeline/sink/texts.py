"""Properties of rows as the text they travel in, made column by column: Arrow joins them, without a loop over cells.

Names that are RocketMQ's own are left out of ``properties``: they have columns, or belong to the message that a row was
read from. So what the source gives can be handed to the sink as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.errors import MessageRefusedError
from pyromq.model import property_names as names
from pyromq.model.property_names import ITEM_END, NAME_END
from pyromq.pipeline.arrow.buffers import all_bytes
from pyromq.wire.property_text import closed, item_key, join_items

_SEPARATORS: Final = NAME_END + ITEM_END
_own = re.compile(
    f"(?:(?<={ITEM_END})|^)(?:{'|'.join(map(re.escape, sorted(names.RESERVED)))})"
    f"{NAME_END}[^{ITEM_END}]*(?:{ITEM_END}|$)"
).sub


def property_texts(batch: pa.RecordBatch, keys: pa.Array, system: str, first: int) -> pa.Array:
    """One text per row, as bytes; ``keys`` are bytes too. Raises MessageRefusedError."""
    parts = [item_key(names.UNIQUE_KEY).encode(), keys, f"{ITEM_END}{system}".encode()]
    for column, name in (("tags", names.TAGS), ("keys", names.KEYS), ("sharding_key", names.SHARDING_KEY)):
        if (values := _words(batch, column, first)) is not None:
            parts += _item(name, values)
    index = batch.schema.get_field_index("properties")
    if index >= 0:
        parts.append(_others(batch.column(index), first))
    return pc.binary_join_element_wise(*parts, b"")


def _item(name: str, values: pa.Array) -> list[Any]:
    """What is joined to get the item; nothing where there is no value, or an empty one."""
    parts = [item_key(name).encode(), values.cast(pa.binary()), ITEM_END.encode()]
    is_there = pc.fill_null(pc.greater(pc.binary_length(values), 0), False)
    if pc.all(is_there).as_py():
        return parts
    return [pc.if_else(is_there, pc.binary_join_element_wise(*parts, b""), pa.scalar(b"", pa.binary()))]


def _others(column: pa.Array, first: int) -> pa.Array:
    text_of: Callable[[Any, int], str] = _from_map if pa.types.is_map(column.type) else _from_raw
    texts = [text_of(value, first + number).encode() for number, value in enumerate(column.to_pylist())]
    return pa.array(texts, pa.binary())


def _words(batch: pa.RecordBatch, name: str, first: int) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pa.array(
            [" ".join(filter(None, words)) if words else None for words in column.to_pylist()], pa.string()
        )
    forbidden = f"{_SEPARATORS}|" if name == "tags" else _SEPARATORS
    together = all_bytes(column)  # looking into each would take as long as all the rest
    if any(each.encode() in together for each in forbidden):
        values = column.to_pylist()
        row = next(number for number, value in enumerate(values) if value and re.search(f"[{forbidden}]", value))
        problem = (
            "a tag must not contain |, \\x01 or \\x02"
            if name == "tags"
            else "it contains \\x01 or \\x02, which separate properties"
        )
        raise MessageRefusedError(f"column {name}, row {first + row}: {problem}")
    return column


def _from_map(items: list[tuple[str, str]] | None, row: int) -> str:
    if not items:
        return ""
    text = join_items((name, value) for name, value in items if name not in names.RESERVED and name and value)
    if text.count(NAME_END) != text.count(ITEM_END) or text.count(ITEM_END) > len(items):
        raise MessageRefusedError(f"column properties, row {row}: a name or value holds \\x01 or \\x02")
    return text


def _from_raw(raw: str | None, row: int) -> str:
    if not raw:
        return ""
    text = closed(_own("", raw))
    if text.count(NAME_END) != text.count(ITEM_END):
        raise MessageRefusedError(f"column properties, row {row}: it is not name \\x01 value \\x02, again and again")
    return text
