"""Many records at once, as recovery scans a log: the usual kind only, without a call for each.

The plain form is ``record.scan_record``, which also says what is wrong.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pyromq.checksum import CRC_MASK, crc32
from pyromq.wire.properties import ITEM_END_BYTE
from pyromq.wire.record import RecordFound
from pyromq.wire.record_layout import (
    ANY_V6,
    BODY_AT,
    CHECKSUM_BYTES,
    CHECKSUM_NAME,
    MAGIC_V1,
    RECORD_OVERHEAD_BYTES,
)

# Of the fixed part with IPv4 hosts: size, magic, queue id, offset, position, sysFlag, store time, body size.
_PLAIN: Final = Struct(">II4xi4xqqi16xq20xi")
_TOPIC_AT: Final = BODY_AT + 1  # behind an empty body and a length of one byte


def scan_run(data: bytes, position: int) -> tuple[list[tuple[int, RecordFound]], int]:
    """Records that follow each other from the start of ``data``, with their positions, and the end of the last one.

    Stops at a record that is cut by the end of ``data``, and at whatever is not a plain one (V1, IPv4, with checksum,
    undamaged): for that ask ``scan_record``, of which this is the fast part.
    """
    found: list[tuple[int, RecordFound]] = []
    start, end, view, unpack = 0, len(data), memoryview(data), _PLAIN.unpack_from
    while end - start >= RECORD_OVERHEAD_BYTES:
        total, magic, queue_id, offset, own_position, sys_flag, stored_ms, body_bytes = unpack(data, start)
        topic_start, record_end = start + _TOPIC_AT + body_bytes, start + total
        if magic != MAGIC_V1 or sys_flag & ANY_V6 or own_position != position + start or record_end > end:
            break
        if body_bytes < 0 or topic_start + 2 > record_end:
            break
        properties_start = topic_start + data[topic_start - 1] + 2
        properties = data[properties_start:record_end]
        if (
            properties_start > record_end
            or len(properties) != data[properties_start - 2] << 8 | data[properties_start - 1]
        ):
            break
        digits = b"%010d" % (crc32(view[start : record_end - CHECKSUM_BYTES]) & CRC_MASK)
        if (
            properties[-2:-12:-1] != digits
            or properties[-CHECKSUM_BYTES:-11] != CHECKSUM_NAME
            or data[record_end - 1] != ITEM_END_BYTE
        ):
            break
        topic = data[topic_start : properties_start - 2]
        found.append((own_position, RecordFound(total, queue_id, offset, sys_flag, stored_ms, topic, properties)))
        start = record_end
    return found, start
