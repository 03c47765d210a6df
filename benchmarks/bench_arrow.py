"""Stored records to Arrow: what a worker of Spark does with what it pulled, without Spark and without sockets.

Records of 1 KiB with four properties, 1 000 in a batch, columns as in ``bench_spark``; the same function with the
compiled core and without. One operation is one row.
"""

from __future__ import annotations

import pyarrow as pa

from benchmarks.measure import Row, measure
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow import decode as decoding
from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.arrow.decode import WantedRows, decode
from pyromq.wire.record import Draft, encode_record

BATCH = 1_000
BATCHES = 20
QUEUE = QueueId("bench", "broker-a", 1)
PROPERTIES = b"UNIQ_KEY\x017F000001251A3A122C29493E92150000\x02TAGS\x01a\x02KEYS\x01order-42\x02currency\x01EUR\x02"
SIX = ("topic", "queue_id", "queue_offset", "born_time", "store_time", "delivery_attempt")
TWELVE = (*SIX, "flag", "sys_flag", "body_crc", "commit_log_offset", "properties", "body")
SCHEMAS = {
    "offset and body": ("queue_offset", "body"),
    "6 columns, no bodies": SIX,
    "12 columns with bodies, properties raw": TWELVE,
    "all 19 columns, properties map": tuple(ARROW_TYPES),
}


def rows() -> list[Row]:
    draft = Draft(topic="bench", queue_id=1, body=bytes(1024), properties=PROPERTIES)
    host = b"\x7f\0\0\1\0\0\x2a\x9f"
    data = b"".join(
        encode_record(draft, offset=n, position=n * 1200, stored_ms=1_700_000_000_000, store_host=host)
        for n in range(BATCH)
    )
    return [_row(name, mode, data) for name in SCHEMAS for mode in ("core", "pure")]


def _row(name: str, mode: str, data: bytes) -> Row:
    kinds = {**ARROW_TYPES, "properties": pa.string()} if name.endswith("raw") else ARROW_TYPES
    schema = pa.schema([(column, kinds[column]) for column in SCHEMAS[name]])

    def run() -> int:
        for _ in range(BATCHES):
            decode(data, QUEUE, schema, WantedRows(0, BATCH))
        return BATCH * BATCHES

    core = decoding.core
    try:
        if mode == "pure":
            decoding.core = None
        return measure(f"{name}, {mode if decoding.core or mode == 'pure' else 'no core here'}", run, repeat=9)
    finally:
        decoding.core = core
