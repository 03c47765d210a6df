"""Trace records: the bytes of Apache RocketMQ 5.5.0's own encoder, both ways, and packs within their limits."""

from __future__ import annotations

import pytest

from pyromq.model.message import Message
from pyromq.wire.trace import (
    PACK_BYTES_MAX,
    PACK_KEYS_BYTES_MAX,
    ConsumeBegan,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    Recalled,
    TraceRecord,
    TransactionEnded,
    decode_records,
    encode_record,
    keys_of,
    kind_of,
    pack_records,
)

TIME_MS = 1_700_000_000_123
PUBLISHED = Published(
    time_ms=TIME_MS, group="billing", topic="orders", message_id="7F000001", tags="new", keys="k1 k2",
    store_host="10.0.0.1:10911", body_bytes=5, cost_ms=7, kind=MessageKind.DELAYED, offset_message_id="0A000001",
)  # fmt: skip
BEGAN = ConsumeBegan(
    time_ms=TIME_MS, group="billing", request_id="REQ1", message_id="7F000001", delivery_attempt=2, keys="k1 k2"
)
ENDED = ConsumeEnded(
    request_id="REQ1", message_id="7F000001", cost_ms=7, keys="k1 k2", time_ms=TIME_MS, group="billing"
)
TRANSACTION = TransactionEnded(
    time_ms=TIME_MS, group="billing", topic="orders", message_id="7F000001", transaction_id="7F000001",
    state="COMMIT_MESSAGE", tags="new", keys="k1 k2", store_host="10.0.0.1:10911", kind=MessageKind.DELAYED,
    is_from_check=True,
)  # fmt: skip
RECALLED = Recalled(time_ms=TIME_MS, group="billing", topic="orders", message_id="7F000001")

# ^ stands for 0x01, $ for 0x02
GOLDEN: list[tuple[str, TraceRecord]] = [
    (
        "Pub^1700000000123^DefaultRegion^billing^orders^7F000001^new^k1 k2^10.0.0.1:10911^5^7^3^0A000001^true$",
        PUBLISHED,
    ),
    ("SubBefore^1700000000123^DefaultRegion^billing^REQ1^7F000001^2^k1 k2$", BEGAN),
    ("SubAfter^REQ1^7F000001^7^true^k1 k2^0^1700000000123^billing$", ENDED),
    (
        "EndTransaction^1700000000123^DefaultRegion^billing^orders^7F000001^new^k1 k2^10.0.0.1:10911^3^7F000001"
        "^COMMIT_MESSAGE^true$",
        TRANSACTION,
    ),
    ("Recall^1700000000123^DefaultRegion^billing^orders^7F000001^true$", RECALLED),
    (
        "SubBefore^1700000000123^DefaultRegion^billing^REQ1^7F000001^2^null$",
        ConsumeBegan(time_ms=TIME_MS, group="billing", request_id="REQ1", message_id="7F000001", delivery_attempt=2),
    ),
]


def as_bytes(text: str) -> bytes:
    return text.replace("^", "\x01").replace("$", "\x02").encode()


@pytest.mark.parametrize(("text", "record"), GOLDEN, ids=[text.partition("^")[0] for text, _ in GOLDEN])
def test_records_are_those_of_rocketmq(text: str, record: TraceRecord) -> None:
    assert encode_record(record) == as_bytes(text)
    assert decode_records(as_bytes(text)) == [record]


def test_several_records_stand_behind_each_other() -> None:
    assert decode_records(as_bytes("".join(text for text, _ in GOLDEN))) == [record for _, record in GOLDEN]


def test_records_of_other_clients_are_read() -> None:
    with_host = "Pub^1^R^g^t^M^^^h^5^7^0^OFF^false^10.0.0.9$SubBefore^1^R^g^REQ^M^0^k^10.0.0.9$"
    first, second = decode_records(as_bytes(with_host))
    assert isinstance(first, Published) and isinstance(second, ConsumeBegan)
    assert (first.client_host, first.is_success, second.client_host) == ("10.0.0.9", False, "10.0.0.9")
    old = "Pub^1^R^g^t^M^tag^key^h^5^7^0^true$SubAfter^REQ^M^7^false^k$"
    first, second = decode_records(as_bytes(old))
    assert isinstance(first, Published) and isinstance(second, ConsumeEnded)
    assert (first.offset_message_id, first.is_success) == ("", True)
    assert (second.is_success, second.time_ms, second.group) == (False, 0, "")


def test_what_cannot_be_read_hides_nothing_else() -> None:
    body = as_bytes("Pub^not a number^R$Novelty^1^2$$SubAfter^REQ^M^7^true^k^99^1^g$") + b"\xff\xfe\x02"
    assert decode_records(body + as_bytes(GOLDEN[4][0])) == [RECALLED]


def test_a_record_is_found_by_id_and_keys() -> None:
    assert keys_of(PUBLISHED) == ["7F000001", "k1", "k2"]
    assert keys_of(RECALLED) == ["7F000001"]


def test_the_kind_of_a_message() -> None:
    assert kind_of(Message("t", b"1")) is MessageKind.NORMAL
    assert kind_of(Message("t", b"1", delay_ms=5)) is MessageKind.DELAYED
    assert kind_of(Message("t", b"1", sharding_key="a")) is MessageKind.ORDERED
    assert [code.value for code in ConsumeCode] == [0, 1, 2, 3, 4]


# --- packs ---------------------------------------------------------------------------------------------------------


def records(count: int, keys: str = "") -> list[TraceRecord]:
    return [Published(time_ms=n, group="g", topic="t", message_id=f"M{n}", keys=keys) for n in range(count)]


def test_packs_hold_twenty_records_in_order() -> None:
    packs = pack_records(records(45))
    assert [pack.records for pack in packs] == [20, 20, 5]
    assert [record for pack in packs for record in decode_records(pack.body)] == records(45)
    assert packs[2].keys == ("M40", "M41", "M42", "M43", "M44")
    assert pack_records([]) == []


def test_packs_stay_within_their_bytes() -> None:
    packs = pack_records(records(20, keys=" ".join(["k" * 100] * 100)))
    assert sum(pack.records for pack in packs) == 20 and len(packs) > 1
    for pack in packs:
        assert len(pack.body) <= PACK_BYTES_MAX
        assert sum(len(key) + 1 for key in pack.keys) <= PACK_KEYS_BYTES_MAX


def test_a_message_with_too_many_keys_is_found_by_its_id() -> None:
    keys = " ".join(f"{n:0100}" for n in range(300))
    (pack,) = pack_records(records(1, keys))
    assert pack.keys == ("M0",)
