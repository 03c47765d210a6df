"""Copies of records: what a stored message takes along when it is written once more."""

from __future__ import annotations

from typing import Final

from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.properties import closed_properties
from pyromq.wire.record import Draft, Record, has_checksum
from pyromq.wire.record_layout import CHECKSUM_BYTES

_COMMIT: Final = int(SysFlag.COMMIT)


def properties_of(record: Record) -> bytes:
    """Without the checksum of the record, closed so that items can follow."""
    raw = record.properties
    if has_checksum(raw):
        raw = raw[:-CHECKSUM_BYTES]
    return closed_properties(raw)


def again(record: Record, topic: str, queue_id: int, properties: bytes, *, failures: int = 0) -> Draft:
    """Copy a stored message to another topic: visible there, whatever part of a transaction it was."""
    sys_flag = record.sys_flag
    if sys_flag & TRANSACTION_MASK != _COMMIT:
        sys_flag &= ~TRANSACTION_MASK
    return Draft(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        flag=record.flag,
        sys_flag=sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        delivery_attempt=record.delivery_attempt + failures,
        prepared_position=record.prepared_position,
    )
