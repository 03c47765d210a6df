"""A few fields of a record, without decoding the others: for clients, filters and whatever reads many records.

The plain form is ``record.decode_record``. Nothing here verifies a checksum, and but for ``check_lengths`` nothing is
checked: the other functions are for records that passed it, or that the store gave. ``stored_body`` and
``stored_property`` are those that messages read on access: the compiled core's where it is there, which leaves what it
does not find sound to ``pure_body`` and ``pure_property``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pyromq.checksum import crc32
from pyromq.compiled_core import core
from pyromq.errors import CorruptRecordError
from pyromq.model.property_names import SHARDING_KEY
from pyromq.wire.properties import find_property
from pyromq.wire.record_layout import ANY_V6, BODY_AT, FIXED_BYTES, HOST_BITS_AT, MAGIC_LOW_AT, MAGIC_V1, MAGIC_V1_LOW

_SHARDING_KEY: Final = SHARDING_KEY.encode()

# Size, magic, queue id, offset, position, sysFlag: at the same place in every record.
HEAD: Final = Struct(">II4xi4xqqi")
# One number at a place that ``record_layout`` names; each gives a tuple.
read_u32: Final = Struct(">I").unpack_from
read_i32: Final = Struct(">i").unpack_from
read_i64: Final = Struct(">q").unpack_from


def check_lengths(record: bytes, magic: int, sys_flag: int, position: int) -> None:
    """Raises CorruptRecordError unless body, topic and properties fill the record exactly.

    Then nothing that reads them can leave it.
    """
    size, fixed = len(record), BODY_AT if not sys_flag & ANY_V6 else FIXED_BYTES[sys_flag >> 4 & 3]
    if fixed + 3 <= size:
        body_end = fixed + int.from_bytes(record[fixed - 4 : fixed], "big")
        if body_end + 3 <= size:
            if magic == MAGIC_V1:
                topic_end = body_end + 1 + record[body_end]
            else:
                topic_end = body_end + 2 + (record[body_end] << 8 | record[body_end + 1])
            if topic_end + 2 <= size and topic_end + 2 + (record[topic_end] << 8 | record[topic_end + 1]) == size:
                return
    raise CorruptRecordError(position=position, reason=f"its parts do not add up to its size {size}")


def body_range(record: bytes, sys_flag: int) -> tuple[int, int]:
    """Where the body begins and ends."""
    start = FIXED_BYTES[sys_flag >> 4 & 3]
    return start, start + read_u32(record, start - 4)[0]


def topic_range(record: bytes, sys_flag: int) -> tuple[int, int]:
    """The properties begin two bytes behind it, and go on to the end of the record."""
    start = FIXED_BYTES[sys_flag >> 4 & 3]
    start += read_u32(record, start - 4)[0]
    if record[MAGIC_LOW_AT] == MAGIC_V1_LOW:
        return start + 1, start + 1 + record[start]
    return start + 2, start + 2 + (record[start] << 8 | record[start + 1])


def stored_properties(record: memoryview) -> bytes:
    """The properties of a whole record."""
    body_start = FIXED_BYTES[record[HOST_BITS_AT] >> 4 & 3]
    at = body_start + int.from_bytes(record[body_start - 4 : body_start], "big")
    topic_bytes = record[at] + 1 if record[MAGIC_LOW_AT] == MAGIC_V1_LOW else (record[at] << 8 | record[at + 1]) + 2
    return bytes(record[at + topic_bytes + 2 :])


def message_group(record: memoryview) -> int:
    """A hash of the message group (sharding key) that a record belongs to; 0 for none."""
    key = find_property(stored_properties(record), _SHARDING_KEY)
    return crc32(key) + 1 if key else 0


def pure_body(record: bytes, sys_flag: int) -> bytes:
    """Body of a record as it is stored: compressed if ``sys_flag`` says so."""
    start, end = body_range(record, sys_flag)
    return record[start:end]


def pure_property(record: bytes, sys_flag: int, name: bytes) -> str | None:
    """The last value of that name, bytes that are no UTF-8 replaced; None if it has none."""
    value = find_property(record[topic_range(record, sys_flag)[1] + 2 :], name)
    return None if value is None else value.decode("utf-8", "replace")


_values = None if core is None else core.RecordValues(pure_body, pure_property)
stored_body: Final = pure_body if _values is None else _values.body
stored_property: Final = pure_property if _values is None else _values.property
