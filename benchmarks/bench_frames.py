"""Frames and commands: how fast they are read and written, one core, no sockets.

A send request as a Java client writes it (about 400 bytes of header, 1 KiB of body) and the response to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.measure import Row, measure
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_command, encode_request, encode_response, encode_response_head
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader, UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendResponseHeader, SendV2Header
from pyromq.wire.received import decode_received

CALLS = 20_000

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


def rows() -> list[Row]:
    send = encode_request(RequestCode.SEND_MESSAGE_V2, 123_456, SEND, body=BODY)
    chunk, frame = send * 64, _frame(send)
    command = decode_command(frame)
    found = [
        _row(
            "frame of 1.4 KiB cut out, 64 in a chunk", lambda: FrameDecoder().feed(chunk), 500, each=64, size=len(send)
        ),
        _big_frame(),
    ]
    found += [_row(f"decode {name}, typed", partial(decode_received, _frame(data))) for name, data in _requests()]
    found += [
        _row("decode send V2, map of strings", lambda: decode_command(frame)),
        _row("encode send V2, map of strings", lambda: encode_command(command)),
        _row("encode send V2, typed", lambda: encode_request(RequestCode.SEND_MESSAGE_V2, 7, SEND, body=BODY)),
    ]
    return found + _answer_rows()


def _big_frame() -> Row:
    big = encode_request(RequestCode.SEND_MESSAGE_V2, 1, SEND, body=bytes(4 << 20))
    pieces = [big[at : at + 1448] for at in range(0, len(big), 1448)]

    def feed_pieces() -> None:
        decoder = FrameDecoder()
        for piece in pieces:
            decoder.feed(piece)

    return _row("frame of 4 MiB in pieces of 1448 bytes", feed_pieces, 3, size=len(big))


def _requests() -> list[tuple[str, bytes]]:
    code, binary = RequestCode.SEND_MESSAGE_V2, SerializeType.ROCKETMQ
    return [
        ("send V2", encode_request(code, 123_456, SEND, body=BODY)),
        ("send V2 binary", encode_request(code, 123_456, SEND, body=BODY, serialize_type=binary)),
        ("pull", encode_request(RequestCode.PULL_MESSAGE, 123_456, PULL)),
        ("offset commit", encode_request(RequestCode.UPDATE_CONSUMER_OFFSET, 123_456, COMMIT)),
    ]


def _answer_rows() -> list[Row]:
    code, binary = ResponseCode.SUCCESS, SerializeType.ROCKETMQ
    frame = _frame(encode_response(code, 123_456, SENT))
    return [
        _row("encode send answer", lambda: encode_response(code, 123_456, SENT)),
        _row("encode send answer binary", lambda: encode_response(code, 123_456, SENT, serialize_type=binary)),
        _row("encode pull answer head", lambda: encode_response_head(code, 7, PULLED, body_size=38_912)),
        _row("decode send answer, typed", lambda: decode_received(frame).header_as(SendResponseHeader)),
    ]


def _frame(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def _row(name: str, operation: Callable[[], object], calls: int = CALLS, *, each: int = 1, size: int = 0) -> Row:
    def run() -> int:
        for _ in range(calls):
            operation()
        return calls * each

    return measure(name, run, bytes_per_operation=size)
