"""Properties of rows as the text they travel in, made column by column: a loop over columns, not over cells.

Names that are RocketMQ's own are left out of ``properties``: they have columns, or belong to the message that a row was
read from. So what the source gives can be handed to the sink as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.errors import MessageRefusedError
from pyromq.model import property_names as names

_SEPARATORS: Final = "[\x01\x02]"
_own = re.compile(
    "(?:(?<=\x02)|^)(?:" + "|".join(map(re.escape, sorted(names.RESERVED))) + ")\x01[^\x02]*(?:\x02|$)"
).sub


def property_texts(batch: pa.RecordBatch, keys: Sequence[str], system: str, first: int) -> list[str]:
    """One text per row. Raises MessageRefusedError."""
    texts = [f"UNIQ_KEY\x01{key}\x02{system}" for key in keys]
    for column, name in (("tags", names.TAGS), ("keys", names.KEYS), ("sharding_key", names.SHARDING_KEY)):
        if (values := _words(batch, column, first)) is not None:
            texts = [
                f"{text}{name}\x01{value}\x02" if value else text for text, value in zip(texts, values, strict=True)
            ]
    index = batch.schema.get_field_index("properties")
    if index < 0:
        return texts
    values = batch.column(index).to_pylist()
    if pa.types.is_map(batch.column(index).type):
        return [
            text + _from_map(items, first + number)
            for number, (text, items) in enumerate(zip(texts, values, strict=True))
        ]
    return [text + _from_raw(raw, first + number) for number, (text, raw) in enumerate(zip(texts, values, strict=True))]


def _words(batch: pa.RecordBatch, name: str, first: int) -> Sequence[Any] | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pa.array(
            [" ".join(filter(None, words)) if words else None for words in column.to_pylist()], pa.string()
        )
    forbidden = "[\x01\x02|]" if name == "tags" else _SEPARATORS
    if pc.any(pc.match_substring_regex(column, forbidden)).as_py():
        values = column.to_pylist()
        row = next(number for number, value in enumerate(values) if value and re.search(forbidden, value))
        problem = (
            "a tag holds no |, \\x01 or \\x02"
            if name == "tags"
            else "it holds \\x01 or \\x02, which separate properties"
        )
        raise MessageRefusedError(f"column {name}, row {first + row}: {problem}")
    words: list[Any] = column.to_pylist()
    return words


def _from_map(items: list[tuple[str, str]] | None, row: int) -> str:
    if not items:
        return ""
    text = "".join([f"{name}\x01{value}\x02" for name, value in items if name not in names.RESERVED and name and value])
    if text.count("\x01") + text.count("\x02") != 2 * text.count("\x02") or text.count("\x02") > len(items):
        raise MessageRefusedError(f"column properties, row {row}: a name or value holds \\x01 or \\x02")
    return text


def _from_raw(raw: str | None, row: int) -> str:
    if not raw:
        return ""
    text = _own("", raw)
    if text and text[-1] != "\x02":
        text += "\x02"
    if text.count("\x01") != text.count("\x02"):
        raise MessageRefusedError(f"column properties, row {row}: it is not name \\x01 value \\x02, again and again")
    return text
