"""Message traces: what producers and consumers wrote about a message, read from the trace topic."""

from __future__ import annotations

from pyromq.errors import NotFoundError
from pyromq.operate.reading.stored_messages import TIME_MAX, StoredMessages
from pyromq.wire.codes import ResponseCode
from pyromq.wire.trace import TRACE_TOPIC, ConsumeBegan, ConsumeEnded, TraceRecord, decode_records, keys_of, sent_from

TRACES_MAX = 64


async def read_trace(
    stored: StoredMessages, message_id: str, *, topic: str = TRACE_TOPIC, begin_ms: int = 0, end_ms: int = TIME_MAX
) -> list[TraceRecord]:
    """Return what is told of a message, by its id or one of its keys, in the order in which it happened.

    Raises TopicNotFoundError without a trace topic, NotFoundError when nothing is told.
    """
    packs = await stored.find(topic, message_id, begin_ms=begin_ms, end_ms=end_ms, count_max=TRACES_MAX)
    records = [sent_from(record, str(pack.born_host)) for pack in packs for record in decode_records(pack.body)]
    chosen = in_order([record for record in records if message_id in keys_of(record)])
    if not chosen:
        text = f"topic {topic} tells nothing of {message_id}: were its producer and consumers tracing?"
        raise NotFoundError(code=ResponseCode.QUERY_NOT_FOUND, remark=text)
    return chosen


def in_order(records: list[TraceRecord]) -> list[TraceRecord]:
    """By time, each record once; an end without a time stands behind its beginning."""
    began = {(r.request_id, r.message_id): r.time_ms for r in records if isinstance(r, ConsumeBegan)}

    def when(record: TraceRecord) -> tuple[int, int]:
        if not isinstance(record, ConsumeEnded):
            return record.time_ms, 0
        return record.time_ms or began.get((record.request_id, record.message_id), 0) + record.cost_ms, 1

    return sorted(dict.fromkeys(records), key=when)
