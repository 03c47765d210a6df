"""Known messages, written through a broker or into a store, and read back from either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from interop.asking import connected
from interop.conversation import pull_header, send_header, topic_header
from pyromq.net import Connection
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadStatus
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import PullResponseHeader, QueryMessageHeader
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import Draft, Record, split_records

QUEUES: Final = 4
TOPICS: Final = ("Orders", "Payments", "a-rather-long-topic-name-" + "x" * 60)
TIMEOUT_MS: Final = 20_000
_IN_FLIGHT: Final = 64
_BATCH: Final = 10


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was acknowledged."""

    topic: str
    queue_id: int
    offset: int
    body: bytes
    key: str
    tag: str


Expected = dict[tuple[str, int, int], Sent]


@dataclass(frozen=True, slots=True)
class Wanted:
    topic: str
    queue_id: int
    body: bytes
    key: str
    tag: str

    @property
    def properties(self) -> str:
        return f"KEYS\x01{self.key} all\x02TAGS\x01{self.tag}\x02UNIQ_KEY\x01U-{self.key}\x02WAIT\x01true\x02"

    def sent(self, offset: int) -> Sent:
        return Sent(self.topic, self.queue_id, offset, self.body, self.key, self.tag)


def messages(count: int, prefix: str) -> Iterator[Wanted]:
    """Messages of many sizes, over all topics and queues."""
    for n in range(count):
        size = (n * 37) % 900 + (20_000 if n % 499 == 0 else 0)
        body = f"{prefix}-{n} äöü ".encode() + b"." * size
        yield Wanted(TOPICS[n % len(TOPICS)], n // len(TOPICS) % QUEUES, body, f"{prefix}-{n}", f"Tag{n % 5}")


# --- through a broker ----------------------------------------------------------------------------------------------


async def send_all(address: str, count: int, prefix: str) -> Expected:
    """Sends single messages, pipelined, and every seventh part as batches; what was acknowledged."""
    expected: Expected = {}
    async with connected(address) as broker:
        for topic in TOPICS:
            await broker.request(
                RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header(topic, QUEUES), timeout_ms=TIMEOUT_MS
            )
        wanted = list(messages(count, prefix))
        single, batched = wanted[: count * 6 // 7], wanted[count * 6 // 7 :]
        for start in range(0, len(single), _IN_FLIGHT):
            group = single[start : start + _IN_FLIGHT]
            for sent in await asyncio.gather(*(_send(broker, each) for each in group)):
                expected[sent.topic, sent.queue_id, sent.offset] = sent
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                of_queue = [each for each in batched if (each.topic, each.queue_id) == (topic, queue_id)]
                for start in range(0, len(of_queue), _BATCH):
                    for sent in await _send_batch(broker, of_queue[start : start + _BATCH]):
                        expected[sent.topic, sent.queue_id, sent.offset] = sent
    return expected


async def _send(broker: Connection, wanted: Wanted) -> Sent:
    header = send_header(wanted.topic, wanted.queue_id, wanted.properties)
    response = await broker.request(RequestCode.SEND_MESSAGE_V2, header, wanted.body, timeout_ms=TIMEOUT_MS)
    assert response.code == 0, (response.code, response.remark)
    return wanted.sent(response.header_as(SendResponseHeader).queue_offset)


async def _send_batch(broker: Connection, wanted: list[Wanted]) -> list[Sent]:
    items = [BatchItem(each.body, each.properties.encode()) for each in wanted]
    header = send_header(wanted[0].topic, wanted[0].queue_id, batch=True)
    response = await broker.request(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items), timeout_ms=TIMEOUT_MS)
    assert response.code == 0, (response.code, response.remark)
    first = response.header_as(SendResponseHeader).queue_offset
    return [each.sent(first + n) for n, each in enumerate(wanted)]


async def pull_all(address: str) -> dict[tuple[str, int, int], Record]:
    """Every message of every queue, by topic, queue and offset."""
    found: dict[tuple[str, int, int], Record] = {}
    async with connected(address) as broker:
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                offset = 0
                while True:
                    header = pull_header(offset, queue_id=queue_id, topic=topic, consumer_group="interop-reader")
                    response = await broker.request(RequestCode.PULL_MESSAGE, header, timeout_ms=TIMEOUT_MS)
                    if response.code != 0:
                        break
                    for record in split_records(response.body):
                        found[topic, queue_id, record.offset] = record
                    offset = response.header_as(PullResponseHeader).next_begin_offset
    return found


async def query_key(address: str, topic: str, key: str) -> list[Record]:
    async with connected(address) as broker:
        header = QueryMessageHeader(topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=2**62)
        response = await broker.request(RequestCode.QUERY_MESSAGE, header, timeout_ms=TIMEOUT_MS)
        return split_records(response.body) if response.code == 0 else []


# --- in a store ----------------------------------------------------------------------------------------------------


def write_all(store: MessageStore, count: int, prefix: str) -> Expected:
    """The same messages without a broker, in groups; flushed at the end."""
    expected: Expected = {}
    group: list[Wanted] = []
    for number, wanted in enumerate(messages(count, prefix)):
        group.append(wanted)
        if number % 16 == 15 or number == count - 1:
            drafts = [_draft(each) for each in group]
            for each, placed in zip(group, store.append(drafts), strict=True):
                expected[each.topic, each.queue_id, placed.offset] = each.sent(placed.offset)
            group.clear()
    store.flush()
    return expected


def _draft(wanted: Wanted) -> Draft:
    return Draft(
        topic=wanted.topic,
        queue_id=wanted.queue_id,
        body=wanted.body,
        properties=wanted.properties.encode(),
        born_ms=1_700_000_000_000,
    )


def read_all(store: MessageStore) -> dict[tuple[str, int, int], Record]:
    found: dict[tuple[str, int, int], Record] = {}
    for topic, queue_id in list(store.queues):
        offset = 0
        while (result := store.reader.read(topic, queue_id, offset)).status is ReadStatus.FOUND:
            for record in split_records(result.to_bytes()):
                found[topic, queue_id, record.offset] = record
            offset = result.next_offset
    return found


def differences(expected: Expected, found: dict[tuple[str, int, int], Record]) -> list[str]:
    """What is not as it was acknowledged, in words; at most a few."""
    wrong: list[str] = []
    for place, sent in expected.items():
        record = found.get(place)
        if record is None:
            wrong.append(f"{place} is missing")
            continue
        properties = decode_properties(record.properties)
        if (record.body, properties.get("KEYS"), properties.get("TAGS")) != (sent.body, f"{sent.key} all", sent.tag):
            wrong.append(f"{place} has body {record.body[:40]!r}, properties {properties}")
    known = {(topic, queue_id) for topic, queue_id, _ in expected}
    extra = [place for place in found if place[:2] in known and place not in expected]
    wrong += [f"{place} was never acknowledged" for place in extra]
    return wrong[:10]
