"""Responses of receives and of acknowledgements by the compiled core are those of Python."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import pytest

from pyromq.broker.grpc.messages import OWN_PROPERTIES, Delivery, delivered
from pyromq.broker.grpc.settling import ack_response
from pyromq.broker.popping.receipts import InvalidReceiptError, Receipt, parse_receipt
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.wire.flags import SysFlag
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Resource, status_of, time_of
from pyromq.wire.grpc.framing import with_prefix
from pyromq.wire.grpc.hot import STATUS_OK, read_resource
from pyromq.wire.grpc.protobuf import ProtobufError, decode
from pyromq.wire.grpc.services import AckMessageEntry, AckMessageRequest, ReceiveMessageResponse
from pyromq.wire.http2.frames import Http2FrameDecoder
from pyromq.wire.message_id import Host
from pyromq.wire.property_text import join_items
from pyromq.wire.record import Draft, decode_record, encode_record
from tests.running.seeds import seeds

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
V4 = Host(bytes((127, 0, 0, 1)), 10911).encode()
V6 = Host(bytes(15) + b"\x01", 10911).encode()
ODD = ("TRAN_MSG", "TIMER_DELIVER_MS", "DELAY", "_SYS_MSG_PRIORITY_", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


def items_of(rng: Random, *, is_odd: bool) -> list[tuple[str, str]]:
    values = ("a", "k1 k2", " k1\t k2\x1ck3 ", "grüße", "x" * rng.choice((127, 128, 3_000)))
    known = ("TAGS", "KEYS", "__SHARDINGKEY", "TRACE_CONTEXT", "__BORNHOST", "PGROUP", "WAIT", "MSG_REGION", "CLUSTER")
    own = [f"p{number}" for number in range(rng.choice((0, 0, 1, 5)))]
    items = [("UNIQ_KEY", f"01{rng.randrange(1 << 60):X}")]
    items += [(name, rng.choice(values)) for name in known if rng.random() < 0.4]
    items += [(name, rng.choice(("x", "grüße", "a\x01b", "y" * rng.choice((126, 127, 128, 400))))) for name in own]
    if is_odd:
        items += rng.choice(
            ([("p0", "1"), ("p0", "2")], [(rng.choice(ODD), rng.choice(("true", "3")))], [("", "x")], [("y", "")])
        )
        if rng.random() < 0.3:
            items = items[1:]
    rng.shuffle(items)
    return items


def record_of(rng: Random) -> bytes:
    is_odd = rng.random() < 0.3
    body, sys_flag = rng.randbytes(rng.choice((0, 1, 55, 56, 63, 64, 119, 120, 1_024, 20_000))), 0
    if is_odd and rng.random() < 0.3:
        body, sys_flag = zlib.compress(body), int(SysFlag.COMPRESSED | SysFlag.ZLIB)
    draft = Draft(
        topic="orders",
        queue_id=rng.randrange(3),
        body=body,
        properties=join_items(items_of(rng, is_odd=is_odd)).encode(),
        sys_flag=sys_flag,
        born_ms=rng.choice((0, 1_700_000_000_000, 1_700_000_000_123)),
        born_host=V6 if is_odd and rng.random() < 0.3 else V4,
        delivery_attempt=rng.choice((0, 0, 1, 15)),
    )
    return encode_record(
        draft,
        offset=rng.choice((0, 7, 1 << 40)),
        position=rng.randrange(1 << 40),
        stored_ms=1_700_000_000_000 + rng.randrange(2_000),
        store_host=V6 if is_odd and rng.random() < 0.2 else V4,
        checksum=rng.random() < 0.7,
    )


def by_python(records: list[bytes], topic: Resource, receipt: Receipt) -> bytes:
    """Messages, each with its prefix."""
    found = b""
    for record in map(decode_record, records):
        text = receipt._replace(offset=record.offset).text()
        delivery = Delivery(topic, text, record.delivery_attempt + 1, receipt.invisible_ms)
        found += with_prefix(ReceiveMessageResponse(message=delivered(record, delivery)).encode())
    return found


@needs_core
@pytest.mark.parametrize("seed", seeds(8))
def test_messages_are_delivered_as_python_delivers_them(seed: int) -> None:
    assert core is not None
    rng, deliveries = Random(seed), core.Deliveries(sorted(OWN_PROPERTIES))
    taken = several = 0
    for _ in range(100):
        topic = Resource(name="orders", resource_namespace=rng.choice(("", "shop")))
        invisible_ms, portions, expected, count = rng.choice((1_000, 60_000, 61_500)), list[Any](), b"", 0
        for number in range(rng.choice((1, 1, 3))):
            runs = [[record_of(rng) for _ in range(rng.choice((1, 1, 2, 20)))] for _ in range(rng.choice((1, 1, 3)))]
            runs = runs if rng.random() < 0.2 else [[each for each in run if is_plain(each)] for run in runs]
            receipt = Receipt(3, 1_700_000_000_000, invisible_ms, 99 + number, 0, "broker-a", 2, 0)
            records = [each for run in runs for each in run]
            joined = [memoryview(b"".join(run)) for run in runs]
            portions.append((joined, receipt.text()[:-1].encode(), len(records)))
            expected += by_python(records, topic, receipt)
            count += len(records)
        found = deliveries.messages(portions, topic.encode(), invisible_ms)
        if found is not None:
            taken, several = taken + 1, several + (count > 8)
            assert found == expected
    assert taken > 50 and several > 20, "what is plain has to be taken"


def is_plain(record: bytes) -> bool:
    """Whether the core delivers the record."""
    assert core is not None
    deliveries = core.Deliveries(sorted(OWN_PROPERTIES))
    return deliveries.messages([([record], b"", 1)], b"", 0) is not None


@needs_core
@pytest.mark.parametrize("now_ms", [0, 7, 1_000, 1_700_000_000_000, 1_700_000_000_123])
def test_a_whole_response_ends_with_the_time_of_delivery(now_ms: int) -> None:
    assert core is not None
    deliveries, rng = core.Deliveries(sorted(OWN_PROPERTIES)), Random(now_ms)
    records = [each for each in (record_of(rng) for _ in range(30)) if is_plain(each)]
    portions: list[Any] = [([b"".join(records)], b"3 4 5 6 0 broker-a 2 ", len(records))]
    last = with_prefix(ReceiveMessageResponse(delivery_timestamp=time_of(now_ms)).encode())
    messages = deliveries.messages(portions, b"t", 1_000)
    assert messages is not None
    data, blocks = b"first" + messages + last, (b"head", b"trailers")
    found = deliveries.response(portions, b"t", 1_000, 7, (b"first", now_ms), blocks, len(data))
    assert found is not None and found[1] == len(data)
    frames = Http2FrameDecoder().feed(found[0])
    assert [frames[0][3], frames[-1][3]] == [*blocks]
    assert b"".join(payload for _, _, _, payload in frames[1:-1]) == data
    assert deliveries.response(portions, b"t", 1_000, 7, (b"first", now_ms), blocks, len(data) - 1) is None


@needs_core
def test_bytes_that_are_no_records_are_left_to_python() -> None:
    assert core is not None
    deliveries, rng = core.Deliveries([]), Random(1)
    record = next(each for each in iter(lambda: record_of(rng), b"") if is_plain(each))
    for cut in (1, 40, len(record) - 1):
        assert deliveries.messages([([record[:cut]], b"", 1)], b"", 0) is None
    assert deliveries.messages([([record], b"", 1)], b"", 0) is not None
    assert deliveries.messages([([record], b"", 2)], b"", 0) is None, "one of them is missing"


def odd_handle(rng: Random, handle: str) -> str:
    words = handle.split(" ")
    words[rng.randrange(len(words))] = rng.choice(("", "x", "-1", "+1", "1_0", "٣", "9" * 19, "1", "broker-b"))
    return rng.choice((" ".join(words), handle + " more", handle[:-3], "", handle + "x" * 500))


@needs_core
@pytest.mark.parametrize("seed", seeds(8))
def test_acknowledgements_are_read_as_python_reads_them(seed: int) -> None:
    assert core is not None
    rng, taken = Random(seed), 0
    for _ in range(300):
        entries = []
        for _ in range(rng.choice((0, 1, 1, 3, 32))):
            numbers = rng.randrange(99), 1_700_000_000_000, 60_000, rng.randrange(1 << 31), 0
            handle = Receipt(*numbers, "broker-a", rng.randrange(8), rng.choice((0, 5, 1 << 50))).text()
            if rng.random() < 0.05:
                handle = odd_handle(rng, handle)
            entries.append(AckMessageEntry(message_id=rng.choice(("01AB", "01AB", "ü")), receipt_handle=handle))
        request = AckMessageRequest(group=Resource(name="billing"), topic=Resource(name="orders"), entries=entries)
        data = request.encode()
        if rng.random() < 0.2:
            data = bytes(byte if rng.random() < 0.995 else rng.randrange(256) for byte in data)
        found = core.read_acks(data, b"broker-a", STATUS_OK)
        if found is None or None in map(read_resource, found[:2]):
            continue  # ``Settling`` leaves it to what reads anything
        taken += 1
        wanted = decode(AckMessageRequest, data)
        group, topic, receipts, response = found
        assert response == ack_response(wanted, [status_of(StatusCode.OK)] * len(wanted.entries))
        assert (read_resource(group), read_resource(topic)) == (wanted.group, wanted.topic)
        parsed = [parse_receipt(each.receipt_handle) for each in wanted.entries]
        texts = [each.receipt_handle for each in wanted.entries]
        assert [each[0] for each in receipts] == texts
        assert [each[1:] for each in receipts] == [(p.queue_id, p.offset, p.number, p.popped_ms) for p in parsed]
        assert {(each.kind, each.broker) for each in parsed} == {(0, "broker-a")}
    assert taken > 100, "what is plain has to be taken"


@needs_core
@pytest.mark.parametrize("seed", seeds(8))
def test_what_python_refuses_is_not_read(seed: int) -> None:
    assert core is not None
    rng = Random(seed)
    for _ in range(500):
        handle = odd_handle(rng, "7 1700000000000 60000 734215009 0 broker-a 3 1210")
        entries = [AckMessageEntry(message_id="01AB", receipt_handle=handle)]
        data = AckMessageRequest(group=Resource(name="g"), topic=Resource(name="t"), entries=entries).encode()
        if core.read_acks(data, b"broker-a", STATUS_OK) is not None:
            assert parse_receipt(handle).broker == "broker-a"
        damaged = bytes(byte if rng.random() < 0.98 else rng.randrange(256) for byte in data)
        found = core.read_acks(damaged, b"broker-a", STATUS_OK)
        if found is not None and None not in map(read_resource, found[:2]):
            try:
                for entry in decode(AckMessageRequest, damaged).entries:
                    parse_receipt(entry.receipt_handle)
            except (ProtobufError, InvalidReceiptError):  # pragma: no cover
                pytest.fail(f"Python refuses {damaged!r}")
