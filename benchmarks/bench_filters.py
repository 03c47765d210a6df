"""Filters: messages of 1 KiB with 8 properties that a pull looks at and passes over; in page cache, on one core."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measure import Row, measure
from pyromq.broker.state.subscriptions import record_filter
from pyromq.filters import SqlFilter, compile_filter
from pyromq.store.message_store import MessageStore
from pyromq.store.queue_reader import RecordFilter, TagFilter
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft

TOPIC, MESSAGES = "orders", 51_200
EXPRESSIONS = {
    "three terms": "price > 100 AND region IN ('eu', 'us') AND customer = 'c-7'",
    "OR and NOT": "price BETWEEN 10 AND 20 OR NOT (region = 'asia' OR weight < 2.5) AND customer IS NULL",
}
_new = count()


def rows() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC, index_backlog_max=1 << 40))
        for first in range(0, MESSAGES, 256):
            store.append(_drafts(first, 256))
        tags = {tag_hash(b"TagB")}
        found = [measure("queue entry passed over by tag", partial(_scan, store, accept_tag=tags.__contains__))]
        for name, text in EXPRESSIONS.items():
            sql = compile_filter(text)
            found.append(
                measure(f"record passed over, {name}", partial(_scan, store, accept_record=record_filter(sql)))
            )
            found.append(measure(f"the expression alone, {name}", partial(_evaluate, sql)))
        found.append(measure("compiling three terms", _compile))
        store._release()
        return found
    finally:
        shutil.rmtree(folder)


def _drafts(first: int, number: int) -> list[Draft]:
    body = b"x" * 1024
    return [Draft(topic=TOPIC, queue_id=0, body=body, properties=_properties(n)) for n in range(first, first + number)]


def _properties(number: int) -> bytes:
    return encode_properties(
        {
            "UNIQ_KEY": f"7F0000010B3C18B4AAC2{number:012X}",
            "KEYS": f"order-{number}",
            "TAGS": "TagA",
            "WAIT": "true",
            "price": str(101 + number % 900),
            "region": ("eu", "us")[number % 2],
            "customer": f"c-{number % 7}",
            "weight": "12.5",
        }
    )


def _scan(
    store: MessageStore, *, accept_tag: TagFilter | None = None, accept_record: RecordFilter | None = None
) -> int:
    offset = 0
    while offset < MESSAGES:
        result = store.reader.read(TOPIC, 0, offset, accept_tag=accept_tag, accept_record=accept_record)
        assert not result.count
        offset = result.next_offset
    return MESSAGES


def _evaluate(sql: SqlFilter) -> int:
    matches, properties = sql.matches, _properties(3)
    for _ in range(MESSAGES):
        matches(properties)
    return MESSAGES


def _compile() -> int:
    for _ in range(500):
        compile_filter(f"price > {next(_new)} AND region IN ('eu', 'us') AND customer = 'c-7'")
    return 500
