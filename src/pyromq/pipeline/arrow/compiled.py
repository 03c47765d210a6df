"""Columns by the compiled core: one pass over the records, without the GIL, and arrays of the buffers that it returns.

What the core leaves out (compressed bodies, IPv6 hosts, irregular properties) ``decode`` makes as it does without one.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pyromq.compiled_core import Core
from pyromq.pipeline.arrow.columns import ARROW_TYPES

_MAP: Final = "properties"
_TEXT: Final = "properties as text"  # what the core calls them where a text is asked for
_OFFSET_END: Final = 1 << 63  # no offset is as large, and no number that the core takes

Buffers = tuple[bytes | None, bytes, bytes]
"""Validity (None: nothing is null), offsets and data of texts or binaries."""


def columns(
    core: Core, data: bytes, schema: pa.Schema, offsets: range, tags: frozenset[str]
) -> tuple[int, dict[str, pa.Array]] | None:
    """The number of rows and the columns that the core has made; None when it leaves all to Python."""
    first, end = offsets.start, offsets.stop
    if not (-_OFFSET_END <= first < _OFFSET_END and -_OFFSET_END <= end < _OFFSET_END):
        return None
    names = [_TEXT if field.name == _MAP and pa.types.is_string(field.type) else field.name for field in schema]
    found = core.arrow_columns(data, names, first, end, [tag.encode("utf-8", "surrogatepass") for tag in tags])
    if found is None:
        return None
    count, buffers = found
    return count, {
        field.name: _array(field, count, buffers[name])
        for field, name in zip(schema, names, strict=True)
        if name in buffers
    }


def _array(field: pa.Field, count: int, buffers: Any) -> pa.Array:
    if isinstance(buffers, bytes):
        return pa.Array.from_buffers(ARROW_TYPES[field.name], count, [None, pa.py_buffer(buffers)])
    if pa.types.is_map(field.type):
        ends, names, values = buffers
        offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(ends)])
        items = len(names[1]) // 4 - 1
        return pa.MapArray.from_arrays(offsets, _values(pa.string(), items, names), _values(pa.string(), items, values))
    return _values(field.type, count, buffers)


def _values(kind: pa.DataType, count: int, buffers: Buffers) -> pa.Array:
    parts = [None if part is None else pa.py_buffer(part) for part in buffers]
    return pa.Array.from_buffers(kind, count, parts)
