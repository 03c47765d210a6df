"""Frames and commands: how fast they are read and written, one core, no sockets.

A send request as a Java client writes it (about 400 bytes of header, 1 KiB of body) and the answer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from timeit import repeat

from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_command, encode_request, encode_response, encode_response_head
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader, UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendResponseHeader, SendV2Header
from pyromq.wire.received import decode_received

ROUNDS, CALLS = 5, 20_000

SEND = SendV2Header(
    producer_group="producer_group_bench",
    topic="TopicBenchmark",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1_718_000_000_000,
    flag=0,
    properties="UNIQ_KEY\x017F000001ABCD18B4AAC200000000001A\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01order-1234567",
    reconsume_times=0,
    unit_mode=False,
    max_reconsume_times=16,
    batch=False,
    broker_name="broker-a",
)
SENT = SendResponseHeader(
    msg_id="7F00000100002A9F0000000000000000",
    queue_id=3,
    queue_offset=123_456,
    transaction_id="7F000001ABCD18B4AAC200000000001A",
    region="DefaultRegion",
    trace_on="true",
)
PULL = PullHeader(
    consumer_group="consumer_group_bench",
    topic="TopicBenchmark",
    queue_id=3,
    queue_offset=123_456,
    max_msg_nums=32,
    sys_flag=3,
    commit_offset=123_456,
    suspend_timeout_millis=15_000,
    sub_version=1_718_000_000_000,
    expression_type="TAG",
    broker_name="broker-a",
)
PULLED = PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=123_488, min_offset=0, max_offset=200_000)
COMMIT = UpdateConsumerOffsetHeader(
    consumer_group="consumer_group_bench", topic="TopicBenchmark", queue_id=3, commit_offset=123_456
)
BODY = bytes(1024)


def rows() -> Iterator[tuple[str, float, str]]:
    """One (name, value, unit) per measurement; the best of some rounds."""
    send = encode_request(RequestCode.SEND_MESSAGE_V2, 123_456, SEND, body=BODY)
    yield from _frame_rows(send)
    for name, data in _requests():
        frame = _frame(data)
        yield f"decode {name}, typed", _microseconds(partial(decode_received, frame)), "µs"
    frame = _frame(send)
    yield "decode send V2, map of strings", _microseconds(lambda: decode_command(frame)), "µs"
    command = decode_command(frame)
    yield "encode send V2, map of strings", _microseconds(lambda: encode_command(command)), "µs"
    code = RequestCode.SEND_MESSAGE_V2
    yield "encode send V2, typed", _microseconds(lambda: encode_request(code, 7, SEND, body=BODY)), "µs"
    yield from _answer_rows()


def _frame_rows(send: bytes) -> Iterator[tuple[str, float, str]]:
    chunk = send * 64
    yield "frames of 1.4 KiB, 64 per chunk", 64e6 / _microseconds(lambda: FrameDecoder().feed(chunk), 500), "frames/s"
    big = encode_request(RequestCode.SEND_MESSAGE_V2, 1, SEND, body=bytes(4 << 20))
    pieces = [big[at : at + 1448] for at in range(0, len(big), 1448)]

    def feed_pieces() -> None:
        decoder = FrameDecoder()
        for piece in pieces:
            decoder.feed(piece)

    yield "one frame of 4 MiB in pieces of 1448 bytes", len(big) / _microseconds(feed_pieces, 3), "MB/s"


def _requests() -> Iterator[tuple[str, bytes]]:
    yield "send V2", encode_request(RequestCode.SEND_MESSAGE_V2, 123_456, SEND, body=BODY)
    yield (
        "send V2 binary",
        encode_request(RequestCode.SEND_MESSAGE_V2, 123_456, SEND, body=BODY, serialize_type=SerializeType.ROCKETMQ),
    )
    yield "pull", encode_request(RequestCode.PULL_MESSAGE, 123_456, PULL)
    yield "offset commit", encode_request(RequestCode.UPDATE_CONSUMER_OFFSET, 123_456, COMMIT)


def _answer_rows() -> Iterator[tuple[str, float, str]]:
    code = ResponseCode.SUCCESS
    binary = SerializeType.ROCKETMQ
    yield "encode send answer", _microseconds(lambda: encode_response(code, 123_456, SENT)), "µs"
    yield (
        "encode send answer binary",
        _microseconds(lambda: encode_response(code, 123_456, SENT, serialize_type=binary)),
        "µs",
    )
    yield "encode pull answer", _microseconds(lambda: encode_response_head(code, 7, PULLED, body_size=38_912)), "µs"
    frame = _frame(encode_response(code, 123_456, SENT))
    yield "decode send answer", _microseconds(lambda: decode_received(frame).header_as(SendResponseHeader)), "µs"


def _frame(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def _microseconds(operation: Callable[[], object], calls: int = CALLS) -> float:
    return min(repeat(operation, number=calls, repeat=ROUNDS)) / calls * 1e6


if __name__ == "__main__":
    for row_name, row_value, row_unit in rows():
        print(f"{row_name:44} {row_value:12,.2f} {row_unit}")
