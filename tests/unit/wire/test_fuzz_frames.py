"""Damaged frames: whatever arrives, only protocol errors come out, and soon."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable

import pytest

from pyromq.errors import ProtocolError
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import decode_command, encode_request, encode_response
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, Header
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader, UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendResponseHeader, SendV2Header
from pyromq.wire.received import decode_received
from tests.running.seeds import seed_of

SEED = seed_of(20_240_611)
MUTATIONS = 120_000

pytestmark = pytest.mark.seeded

SEND = SendV2Header(
    producer_group="group",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1_718_000_000_000,
    flag=0,
    properties="KEYS\x01k1\x02TAGS\x01größe\x02",
    reconsume_times=0,
    unit_mode=False,
    batch=True,
)
PULL = PullHeader(
    consumer_group="group",
    topic="TopicTest",
    queue_id=3,
    queue_offset=7,
    max_msg_nums=32,
    sys_flag=3,
    commit_offset=7,
    suspend_timeout_millis=15_000,
    sub_version=0,
)
COMMIT = UpdateConsumerOffsetHeader(consumer_group="group", topic="TopicTest", queue_id=3, commit_offset=-1)
SENT = SendResponseHeader(msg_id="7F00", queue_id=3, queue_offset=7, trace_on="true")
PULLED = PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=8, min_offset=0, max_offset=9)
RESPONSE_TYPES: list[type[Header]] = [SendResponseHeader, PullResponseHeader]


def valid_frames() -> list[bytes]:
    frames = []
    for form in SerializeType:
        for code, header, body in (
            (RequestCode.SEND_MESSAGE_V2, SEND, b"body" * 5),
            (RequestCode.PULL_MESSAGE, PULL, b""),
            (RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT, b""),
        ):
            frames.append(encode_request(code, 5, header, body=body, serialize_type=form))
        frames.append(encode_request(RequestCode.HEART_BEAT, 6, body=b"{}", remark="hi", serialize_type=form))
        frames.append(encode_response(0, 7, SENT, serialize_type=form))
        frames.append(encode_response(19, 8, PULLED, remark="NO", serialize_type=form))
    return frames


def flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randint(1, 12)]


def insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice([rng.randbytes(3), b'"', b"{", b"[[[[", b"null", b",", b"\\u0000", b"9" * 25, b"-"])


def edit_length(data: bytearray, rng: random.Random) -> None:
    """The total length, the header size, or four bytes anywhere, which hits the lengths inside binary headers."""
    at = rng.choice([0, 4, rng.randrange(len(data) - 3)])
    value = rng.choice([0, 1, 3, 4, len(data) - 4, len(data), 2**24 - 4, 2**31 - 1, 2**32 - 1, rng.getrandbits(32)])
    struct.pack_into(">I", data, at, value)


def repeat(data: bytearray, rng: random.Random) -> None:
    start, at = rng.randrange(len(data)), rng.randrange(len(data))
    data[at:at] = data[start : start + rng.randint(1, 30)]


MUTATORS: list[Callable[[bytearray, random.Random], None]] = [flip_bits, cut, insert, edit_length, repeat]


def mend_lengths(data: bytearray, body_size: int) -> None:
    """Makes a frame of it again, so that the damage reaches the header decoders."""
    header_size = max(0, len(data) - 8 - body_size)
    struct.pack_into(">II", data, 0, len(data) - 4, data[4] % 2 << 24 | header_size)


def digest(data: bytes, counts: Counter[str]) -> None:
    """As a connection would: split, decode, type. Only ProtocolError may come out."""
    try:
        frames = FrameDecoder().feed(data)
    except ProtocolError as error:
        counts[type(error).__name__] += 1
        return
    counts["incomplete"] += not frames
    for frame in frames:
        for decode in (decode_typed, decode_command):
            try:
                decode(frame)
                counts["decoded"] += 1
            except ProtocolError as error:
                counts[type(error).__name__] += 1
                assert str(error)


def decode_typed(frame: Frame) -> None:
    received = decode_received(frame)
    if received.is_response:
        for header_type in RESPONSE_TYPES:
            received.header_as(header_type)
    elif received.header is not None:
        assert type(received.header) is REQUEST_HEADERS[RequestCode(received.code)]
        assert received.correlation_id == decode_command(frame).correlation_id


def test_damaged_frames_raise_protocol_errors_and_nothing_else(
    record_property: Callable[[str, object], None],
) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    originals = valid_frames()
    counts: Counter[str] = Counter()
    for number in range(MUTATIONS):
        original = originals[number % len(originals)]
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if len(data) > 8:
                rng.choice(MUTATORS)(data, rng)
        if rng.random() < 0.7 and len(data) >= 8:
            header_size = int.from_bytes(original[5:8], "big")
            mend_lengths(data, body_size=len(original) - 8 - header_size)
        try:
            digest(bytes(data), counts)
        except Exception as error:
            raise AssertionError(f"mutation {number}, seed {SEED}: {bytes(data)!r}") from error
    print(f"{MUTATIONS} mutations: {dict(counts)}")
    record_property("mutations tried", MUTATIONS)
    for outcome in ("decoded", "incomplete", "FrameError", "UndecodableHeaderError", "HeaderFieldError"):
        assert counts[outcome] > 500, f"{outcome} hardly ever happened: {counts}"


def test_random_bytes_as_headers_of_every_code() -> None:
    """Each typed reader sees garbage values, not only the hot ones."""
    rng = random.Random(SEED)
    junk = ["", "0", "-1", "true", "null", "x" * 300, "9" * 40, "1e999", "nan", "\x00", "é", " 1", "0x1", "1.5"]
    refused = 0
    for code, header_type in {**REQUEST_HEADERS, **RESPONSE_HEADERS}.items():
        names = header_type.__struct_encode_fields__
        for form in SerializeType:
            if form is SerializeType.ROCKETMQ and code > 32_767:
                continue
            for _ in range(20):
                ext = {name: rng.choice(junk) for name in names if rng.random() < 0.9}
                (frame,) = FrameDecoder().feed(encode_request(code, 1, ext, serialize_type=form))
                try:
                    decode_received(frame)
                except ProtocolError:
                    refused += 1
    assert refused > 500
