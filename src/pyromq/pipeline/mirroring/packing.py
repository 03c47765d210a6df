"""Messages of one queue as send requests, in order.

Plain messages travel in batches. Alone go what brokers take in no batch (messages of retry topics, with the number of
their attempts) and bodies that are compressed: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, SEND_BATCH, OutgoingMessage
from pyromq.model import property_names as names
from pyromq.model.queue import QueueId
from pyromq.pipeline.mirroring.marks import copied_properties
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, BatchItem, encode_batch
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag
from pyromq.wire.property_text import encode_text, join_items

BATCH_BYTES: Final = 256 << 10
_BODY_FLAGS: Final = int(SysFlag.COMPRESSED | COMPRESSION_MASK)


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """Some messages in one request; ``first`` and ``last`` are their offsets in the queue that is mirrored."""

    message: OutgoingMessage
    first: int
    last: int
    count: int
    attempts: int = 0  # of a message that is consumed again


def packed(
    messages: Iterable[ReceivedMessage], source: QueueId, topic: str, *, is_retry: bool
) -> Iterator[CopyRequest]:
    """Requests for copies in ``topic``, in the order of the messages."""
    items: list[BatchItem] = []
    offsets: list[int] = []
    born_ms, size = 0, 0
    for each in messages:
        properties = copied_properties(each.properties, source, each.offset, is_retry=is_retry)
        text = join_items(properties.items())
        is_alone = is_retry or bool(each.sys_flag & _BODY_FLAGS) or names.PRIORITY in properties
        item = BatchItem(each.packed_body, encode_text(text), each.flag)
        item_bytes = ITEM_OVERHEAD_BYTES + len(item.body) + len(item.properties)
        if items and (is_alone or size + item_bytes > BATCH_BYTES):
            yield _batch(items, offsets, topic, born_ms)
            items, offsets, size = [], [], 0
        if is_alone:
            ready = OutgoingMessage(
                SEND, topic, each.packed_body, text, "", each.born_ms, 0, each.flag, each.sys_flag & _BODY_FLAGS
            )
            yield CopyRequest(ready, each.offset, each.offset, 1, each.delivery_attempt if is_retry else 0)
            continue
        born_ms = born_ms if items else each.born_ms
        items.append(item)
        offsets.append(each.offset)
        size += item_bytes
    if items:
        yield _batch(items, offsets, topic, born_ms)


def _batch(items: list[BatchItem], offsets: list[int], topic: str, born_ms: int) -> CopyRequest:
    ready = OutgoingMessage(SEND_BATCH, topic, encode_batch(items), "", "", born_ms, 0)
    return CopyRequest(ready, offsets[0], offsets[-1], len(items))
