"""Records as a pop hands them out: as they are stored, but for what only this delivery knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyromq.broker.base.record_copy import again, properties_of
from pyromq.broker.popping.calls import Bytes
from pyromq.model import property_names as names
from pyromq.wire.fast.record_parts import HEAD
from pyromq.wire.property_text import join_items
from pyromq.wire.record import decode_record, encode_record, has_checksum


def split(runs: Sequence[Bytes]) -> Iterator[tuple[int, memoryview]]:
    """Each record of a read, with its offset."""
    for run in runs:
        view, at = memoryview(run), 0
        while at < len(view):
            size, _, _, offset, _, _ = HEAD.unpack_from(view, at)
            yield offset, view[at : at + size]
            at += size


def under_topic(record: Bytes, topic: str, receipt: str, attempts: int) -> bytes:
    """The record of a retry topic as clients want it: under the topic that they popped, and with its receipt."""
    stored = decode_record(bytes(record))
    properties = properties_of(stored) + join_items([(names.POP_CHECK, receipt)]).encode()
    draft = again(stored, topic, stored.queue_id, properties, failures=attempts - 1)
    return encode_record(
        draft,
        offset=stored.offset,
        position=stored.position,
        stored_ms=stored.stored_ms,
        store_host=stored.store_host,
        checksum=has_checksum(stored.properties),
    )
