"""HTTP/2 connections: calls, windows, and every kind of attack that the protocol makes possible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any

import pytest

from pyromq.net.http2 import GrpcCall
from pyromq.wire.grpc.framing import GrpcStatus, with_prefix
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code
from tests.unit.net.http2.talk import Talk, goaway, messages, resets

CALM = Http2Code.ENHANCE_YOUR_CALM
LIST_BYTES = 187  # of the header list that ``Talk.open`` sends


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test in a loop of its own."""

    @wraps(test)
    def runner(**arguments: Any) -> None:
        asyncio.run(test(**arguments))

    return runner


@run
async def test_a_call_is_answered_in_one_piece() -> None:
    talk = Talk().greet()
    names: list[str] = []

    def answer(call: GrpcCall, message: bytes) -> None:
        names.append(call.field(b"x-mq-client-id"))
        call.respond(b"re: " + message)

    talk.handler.answer = answer
    await talk.read()
    talk.call(1, x_mq_client_id="me", grpc_timeout="3S")
    found = await talk.read()
    assert [each[:3] for each in found] == [(1, 4, 1), (0, 0, 1), (1, 5, 1)]
    assert talk.fields(found[0][3]) == {":status": "200", "content-type": "application/grpc"}
    assert messages(found, 1) == [b"re: hello"]
    assert talk.fields(found[2][3]) == {"grpc-status": "0"}
    call, _ = talk.handler.calls[0]
    assert names == ["me"]
    assert not call.fields, "nobody needs them any more"
    assert call.deadline_ms == talk.clock.monotonic_ms() + 3000
    assert (talk.connection.calls, call.is_open) == (0, False)


@run
async def test_a_stream_of_messages_both_ways() -> None:
    talk = Talk().greet()
    talk.open(1, "/stream")
    talk.frame(frames.DATA, 0, 1, with_prefix(b"a") + with_prefix(b"b")[:3])
    talk.frame(frames.DATA, 0, 1, with_prefix(b"b")[3:])
    assert [message for _, message in talk.handler.calls] == [b"a", b"b"]
    call = talk.handler.calls[0][0]
    ended: list[bool] = []
    call.on_half_closed = lambda: (ended.append(True), call.finish())[0]  # type: ignore[func-returns-value]
    call.send(b"c")
    call.send(b"d")
    talk.frame(frames.DATA, frames.END_STREAM, 1)
    found = await talk.read()
    assert messages(found, 1) == [b"c", b"d"]
    assert ended == [True]
    assert talk.connection.calls == 0


@run
async def test_a_response_waits_for_the_window_of_its_stream_and_of_the_connection() -> None:
    talk = Talk().greet(initial_window_size=10)
    body = bytes(range(100))
    talk.handler.answer = lambda call, message: call.respond(body)
    await talk.read()
    talk.call(1)
    found = await talk.read()
    assert [len(data) for kind, _, _, data in found if kind == frames.DATA] == [10]
    talk.feed(frames.encode_window_update(1, 20))
    found += await talk.read()
    talk.feed(frames.encode_settings([(frames.Http2Setting.INITIAL_WINDOW_SIZE, 1_000)]))
    found += await talk.read()
    assert messages(found, 1) == [body]
    assert found[-1][:3] == (frames.HEADERS, 5, 1)
    assert talk.connection.calls == 0


@run
async def test_one_mebibyte_leaves_in_frames_as_windows_open() -> None:
    talk = Talk().greet(initial_window_size=1 << 21)
    body = b"x" * (1 << 20)
    talk.handler.answer = lambda call, message: call.respond(body)
    talk.call(1)
    found = await talk.read()
    assert sum(len(data) for kind, _, _, data in found if kind == frames.DATA) == frames.WINDOW_DEFAULT
    while not any(kind == frames.HEADERS and flags & 1 for kind, flags, _, _ in found):
        talk.feed(frames.encode_window_update(0, 100_000))
        found += await talk.read()
    assert messages(found, 1) == [body]
    assert max(len(data) for _, _, _, data in found) <= frames.FRAME_BYTES_MAX


@run
async def test_windows_of_the_server_are_filled_again() -> None:
    talk = Talk(stream_window=1_000, connection_window=70_000).greet()
    talk.open(1, "/stream")
    await talk.read()
    talk.frame(frames.DATA, 0, 1, with_prefix(b"a" * 600))
    found = await talk.read()
    assert [each[:3] for each in found] == [(frames.WINDOW_UPDATE, 0, 1)]
    talk.frame(frames.DATA, 0, 1, b"x" * 1_001)
    assert resets(await talk.read()) == {1: Http2Code.FLOW_CONTROL_ERROR}


@run
async def test_a_client_that_gives_up_is_heard() -> None:
    talk = Talk().greet()
    talk.call(1)
    call = talk.handler.calls[0][0]
    closed: list[int] = []
    call.on_closed = lambda: closed.append(1)
    talk.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08")
    assert closed == [1]
    assert not call.is_open
    call.respond(b"too late")
    assert not [each for each in await talk.read() if each[0] == frames.DATA]


@run
async def test_a_lost_connection_ends_its_calls_and_tells_how_much_never_left() -> None:
    talk = Talk().greet(initial_window_size=30)
    talk.call(1)
    call = talk.handler.calls[0][0]
    left: list[int] = []
    call.on_closed = lambda: left.append(call.unsent_messages)
    for _ in range(4):
        call.send(b"y" * 20)
    talk.connection.connection_lost(None)
    assert left == [3], "one has left, one in part"
    assert talk.handler.disconnected == 1
    assert not talk.watch.connections


@run
async def test_what_is_no_grpc_gets_a_text_and_what_is_no_http2_an_answer() -> None:
    talk = Talk().greet()
    talk.open(1, "/nothing", ended=True)
    found = await talk.read()
    fields = talk.fields(next(payload for kind, _, _, payload in found if kind == frames.HEADERS))
    assert fields["grpc-status"] == str(int(GrpcStatus.UNIMPLEMENTED))
    other = Talk()
    other.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert b"HTTP/1.1 400" in other.transport.written
    assert other.transport.closed
    remoting = Talk()
    remoting.feed(b"\0\0\0\x10\0\0\0\x05{}")
    assert remoting.transport.closed


@run
async def test_a_defect_of_the_handler_ends_one_call() -> None:
    talk = Talk().greet()

    def fail(call: GrpcCall, message: bytes) -> None:
        raise ValueError("a defect")

    talk.handler.answer = fail
    talk.call(1)
    found = await talk.read()
    fields = talk.fields(next(payload for kind, _, _, payload in found if kind == frames.HEADERS))
    assert fields["grpc-status"] == str(int(GrpcStatus.INTERNAL))
    talk.handler.answer = lambda call, message: call.respond(b"fine")
    talk.call(3)
    assert messages(await talk.read(), 3) == [b"fine"]


@run
async def test_many_calls_of_one_read_are_taken_in_turns() -> None:
    talk = Talk(calls_per_turn=10).greet()
    talk.handler.answer = lambda call, message: call.respond(message)
    data = b""
    for number in range(1, 101, 2):
        block = talk.block()
        data += frames.encode_frame(frames.HEADERS, frames.END_HEADERS, number, block)
        data += frames.encode_frame(frames.DATA, frames.END_STREAM, number, with_prefix(b"m%d" % number))
    talk.feed(data)
    assert 0 < len(talk.handler.calls) <= 10
    assert not talk.transport.is_reading
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(talk.handler.calls) == 50
    assert talk.transport.is_reading


# --- attacks ---


@run
async def test_rapid_reset() -> None:
    talk = Talk().greet()
    for number in range(1, 3_000, 2):
        talk.open(number)
        talk.frame(frames.RST_STREAM, 0, number, b"\0\0\0\x08")
        if talk.transport.closed:
            break
    assert goaway(await talk.read()) == CALM
    assert number > 1_900, "a thousand are allowed at once"


@run
async def test_an_honest_client_may_cancel_often_over_time() -> None:
    talk = Talk().greet()
    for number in range(1, 10_000, 2):
        talk.open(number)
        talk.frame(frames.RST_STREAM, 0, number, b"\0\0\0\x08")
        talk.clock.advance_ms(20)
    assert not talk.transport.closed


@run
async def test_resets_that_the_server_is_made_to_send() -> None:
    talk = Talk().greet()
    for number in range(1, 3_000, 2):
        talk.open(number)
        talk.feed(frames.encode_window_update(number, 0))
        if talk.transport.closed:
            break
    assert goaway(await talk.read()) == CALM


@pytest.mark.parametrize(
    ("kind", "payload", "most"),
    [
        (frames.PING, b"\0" * 8, 1_100),
        (frames.SETTINGS, b"", 200),
        (frames.PRIORITY, b"\0\0\0\x03\x01", 1_100),
        (0x77, b"", 1_100),
    ],
)
@run
async def test_floods_of_control_frames(kind: int, payload: bytes, most: int) -> None:
    talk = Talk().greet()
    stream = 1 if kind == frames.PRIORITY else 0
    for _ in range(most):
        talk.frame(kind, 0, stream, payload)
    assert goaway(await talk.read()) == CALM


@run
async def test_a_flood_of_empty_data() -> None:
    talk = Talk().greet()
    talk.open(1, "/stream")
    for _ in range(1_100):
        talk.frame(frames.DATA, 0, 1, b"")
    assert goaway(await talk.read()) == CALM


@run
async def test_window_updates_of_one_byte() -> None:
    talk = Talk().greet()
    update = frames.encode_window_update(0, 1)
    for _ in range(120):
        talk.feed(update * 1_000)
    assert goaway(await talk.read()) == CALM


@run
async def test_a_continuation_flood() -> None:
    talk = Talk().greet()
    talk.frame(frames.HEADERS, 0, 1, talk.block())
    for _ in range(20):
        talk.frame(frames.CONTINUATION, 0, 1, b"")
    assert goaway(await talk.read()) == CALM
    large = Talk().greet()
    large.frame(frames.HEADERS, 0, 1, large.block())
    for _ in range(3):
        large.frame(frames.CONTINUATION, 0, 1, b"\x88" * 16_000)
    assert goaway(await large.read()) == CALM


@run
async def test_streams_without_end_are_refused_beyond_their_number() -> None:
    talk = Talk(streams_max=3).greet()
    for number in (1, 3, 5, 7):
        talk.open(number)
    assert resets(await talk.read()) == {7: Http2Code.REFUSED_STREAM}
    assert talk.connection.calls == 3


@run
async def test_a_peer_that_never_opens_its_window_is_cut_by_bytes_and_by_time() -> None:
    talk = Talk(unsent_bytes_max=1_000).greet(initial_window_size=0)
    talk.handler.answer = lambda call, message: call.respond(b"z" * 400)
    for number in (1, 3, 5):
        talk.call(number)
    await talk.read()
    assert talk.transport.closed == "aborted"
    slow = Talk().greet(initial_window_size=0)
    slow.handler.answer = lambda call, message: call.respond(b"z" * 400)
    slow.call(1)
    await slow.read()
    slow.watch.sweep()
    for _ in range(13):
        slow.clock.advance_ms(10_000)
        slow.frame(frames.PING, 0, 0, b"\0" * 8)  # it is not silent
        await slow.read()
        slow.watch.sweep()
    assert slow.transport.closed == "aborted"


@run
async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    talk = Talk().greet()
    talk.connection.pause_writing()
    assert not talk.transport.is_reading
    talk.handler.answer = lambda call, message: call.respond(b"later")
    talk.call(1)
    assert not messages(await talk.read(), 1)
    talk.connection.resume_writing()
    assert talk.transport.is_reading
    assert messages(await talk.read(), 1) == [b"later"]


@run
async def test_incomplete_messages_are_bounded_and_counted() -> None:
    talk = Talk(half_read_bytes_max=30_000).greet()
    for number in (1, 3, 5):
        talk.open(number)
        talk.frame(frames.DATA, 0, number, b"\0\0\x01\x00\x00" + b"q" * 11_000)
    found = await talk.read()
    assert 5 in resets(found)
    assert talk.half_read.bytes == 22_010 + 2 * LIST_BYTES
    talk.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08")
    assert talk.half_read.bytes == 11_005 + LIST_BYTES
    talk.connection.connection_lost(None)
    assert talk.half_read.bytes == 0


@run
async def test_a_message_beyond_the_limit_is_refused_at_its_prefix() -> None:
    talk = Talk(message_bytes_max=1_000).greet()
    talk.open(1)
    talk.frame(frames.DATA, 0, 1, b"\0\0\0\x10\0")
    found = await talk.read()
    fields = talk.fields(next(payload for kind, _, _, payload in found if kind == frames.HEADERS))
    assert fields["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))


@pytest.mark.parametrize(
    ("kind", "flags", "stream", "payload", "code"),
    [
        (frames.DATA, 0, 0, b"", Http2Code.PROTOCOL_ERROR),
        (frames.DATA, 0, 9, b"", Http2Code.PROTOCOL_ERROR),
        (frames.HEADERS, 4, 2, b"", Http2Code.PROTOCOL_ERROR),
        (frames.PUSH_PROMISE, 4, 1, b"", Http2Code.PROTOCOL_ERROR),
        (frames.CONTINUATION, 4, 1, b"", Http2Code.PROTOCOL_ERROR),
        (frames.PING, 0, 0, b"1234567", Http2Code.FRAME_SIZE_ERROR),
        (frames.PING, 0, 1, b"12345678", Http2Code.PROTOCOL_ERROR),
        (frames.SETTINGS, 0, 1, b"", Http2Code.PROTOCOL_ERROR),
        (frames.SETTINGS, 1, 0, b"123456", Http2Code.FRAME_SIZE_ERROR),
        (frames.GOAWAY, 0, 1, b"12345678", Http2Code.PROTOCOL_ERROR),
        (frames.RST_STREAM, 0, 9, b"1234", Http2Code.PROTOCOL_ERROR),
        (frames.RST_STREAM, 0, 0, b"123", Http2Code.FRAME_SIZE_ERROR),
        (frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\0", Http2Code.PROTOCOL_ERROR),
        (frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff", Http2Code.FLOW_CONTROL_ERROR),
        (frames.PRIORITY, 0, 0, b"12345", Http2Code.PROTOCOL_ERROR),
    ],
)
@run
async def test_frames_that_break_the_protocol_end_the_connection(
    kind: int, flags: int, stream: int, payload: bytes, code: Http2Code
) -> None:
    talk = Talk().greet()
    talk.frame(kind, flags, stream, payload)
    assert goaway(await talk.read()) == code
    assert talk.transport.closed


@run
async def test_random_frames_are_answered_or_end_the_connection() -> None:
    rng = Random(11)
    for _ in range(400):
        talk = Talk().greet()
        talk.handler.answer = lambda call, message: call.respond(b"ok")
        for _ in range(60):
            kind, flags = rng.randrange(12), rng.choice((0, 1, 4, 5, 8, 0x20, 0x2D))
            payload = rng.choice((b"", rng.randbytes(rng.randrange(40)), talk.block(), with_prefix(b"hello")))
            talk.frame(kind, flags, rng.choice((0, 1, 3, 5, 7, 2, 99)), payload)
        await talk.read()
        talk.connection.connection_lost(None)
        assert talk.half_read.bytes == 0


@run
async def test_whole_messages_of_calls_that_are_not_complete_are_bounded() -> None:
    talk = Talk(half_read_bytes_max=10 * (10_000 + LIST_BYTES)).greet()
    for stream in range(1, 41, 2):
        talk.open(stream)
        talk.frame(frames.DATA, 0, stream, with_prefix(bytes(10_000)))
    assert talk.connection.calls == 10, "the others were refused"
    assert talk.half_read.bytes == 10 * (10_000 + LIST_BYTES)
    for stream in range(1, 21, 2):
        talk.frame(frames.DATA, frames.END_STREAM, stream)
    assert [len(message) for _, message in talk.handler.calls] == [10_000] * 10
    assert talk.half_read.bytes == 0


@run
async def test_refused_messages_give_no_credit_for_incomplete_ones() -> None:
    talk = Talk().greet()
    for stream in range(1, 21, 2):
        talk.open(stream)
        talk.frame(frames.DATA, 0, stream, b"\x07" + bytes(10_000))
    await talk.read()
    assert (talk.connection.calls, talk.half_read.bytes) == (0, 0)
    talk.open(21)
    talk.frame(frames.DATA, 0, 21, with_prefix(bytes(10_000))[:5_000])
    assert talk.half_read.bytes == 5_000 + LIST_BYTES


@run
async def test_a_connection_that_is_closed_ends_what_handlers_still_work_on() -> None:
    talk = Talk().greet()
    ended: list[str] = []
    talk.call(1)
    talk.handler.calls[0][0].on_closed = lambda: ended.append("closed")
    talk.connection.close("the server stops")
    talk.connection.connection_lost(None)
    assert ended == ["closed"]


@run
async def test_messages_of_a_stream_take_turns_with_others() -> None:
    talk = Talk(calls_per_turn=10).greet()
    talk.open(1, "/stream")
    many = b"".join(with_prefix(b"") for _ in range(20))
    talk.feed(frames.encode_frame(frames.DATA, 0, 1, many) * 5)
    assert len(talk.handler.calls) == 20, "the rest waits for the next turn"
    await talk.read()
    assert len(talk.handler.calls) == 100


@run
async def test_header_lists_of_open_calls_are_bounded_and_counted() -> None:
    talk = Talk(half_read_bytes_max=50_000).greet()
    for stream in range(1, 41, 2):
        talk.open(stream, x_long="x" * 10_000)
    found = await talk.read()
    assert talk.connection.calls == 4
    assert resets(found) == dict.fromkeys(range(9, 41, 2), Http2Code.REFUSED_STREAM)
    assert 40_000 < talk.half_read.bytes < 50_000
    talk.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08")
    talk.frame(frames.DATA, frames.END_STREAM, 3, with_prefix(b"hello"))
    assert 20_000 < talk.half_read.bytes < 30_000, "neither counts any more"
    talk.connection.connection_lost(None)
    assert talk.half_read.bytes == 0


@run
async def test_header_lists_of_streams_count_until_they_end() -> None:
    talk = Talk().greet()
    talk.handler.answer = lambda call, message: call.send(b"re: " + message)
    talk.open(1, "/stream", x_long="x" * 5_000)
    talk.frame(frames.DATA, 0, 1, with_prefix(b"a"))
    assert talk.half_read.bytes > 5_000
    talk.frame(frames.DATA, frames.END_STREAM, 1)
    await talk.read()
    talk.frame(frames.PING, 0, 0, bytes(8))
    assert (talk.connection.calls, talk.half_read.bytes) == (0, 0)


@run
async def test_what_was_answered_in_this_turn_counts_as_unsent() -> None:
    talk = Talk(unsent_bytes_max=8 << 20).greet(initial_window_size=frames.WINDOW_MAX)
    talk.feed(frames.encode_window_update(0, 1 << 30))
    rooms: list[int] = []

    def answer(call: GrpcCall, message: bytes) -> None:
        rooms.append(call.connection.room_bytes)
        call.respond(bytes(1 << 20))

    talk.handler.answer = answer
    for stream in range(1, 9, 2):
        talk.call(stream)
    assert rooms[1] < 3 << 20 and rooms[3] < 1 << 20, "windows are wide, and the peer has read nothing of it"
    await talk.read()
    assert talk.connection.unsent_bytes == 0
    talk.transport.unsent = 2 << 20
    assert talk.connection.room_bytes == 2 << 20


@run
async def test_messages_are_sent_together_or_as_windows_allow() -> None:
    talk = Talk().greet()
    sent, at_once = [bytes([number]) * 100 for number in range(5)], list[bool]()

    def answer(call: GrpcCall, message: bytes) -> None:
        at_once.append(call.respond_with(b"".join(map(with_prefix, sent))))
        if not at_once[-1]:
            for each in sent:
                call.send(each)
            call.finish()

    talk.handler.answer = answer
    await talk.read()
    talk.call(1)
    found = await talk.read()
    assert [each[:3] for each in found] == [(1, 4, 1), (0, 0, 1), (1, 5, 1)]
    assert messages(found, 1) == sent
    talk.feed(frames.encode_settings([(4, 250)]))  # room for two of them, and a part of the third
    await talk.read()
    talk.call(3)
    found = await talk.read()
    assert sum(len(each[3]) for each in found if each[0] == frames.DATA) == 250
    assert talk.handler.calls[-1][0].unsent_messages == 3
    talk.feed(frames.encode_window_update(3, 1_000))
    found += await talk.read()
    assert messages(found, 3) == sent
    assert found[-1][:3] == (1, 5, 3)
    assert at_once == [True, False]


@run
async def test_messages_that_fit_no_frame_are_cut() -> None:
    talk = Talk().greet()
    sent = [b"x" * (frames.FRAME_BYTES_MAX - 4), b"y", b"z" * frames.FRAME_BYTES_MAX]
    talk.handler.answer = lambda call, message: call.respond_with(b"".join(map(with_prefix, sent)))
    await talk.read()
    talk.call(1)
    found = await talk.read()
    sizes = [len(each[3]) for each in found if each[0] == frames.DATA]
    assert sizes == [frames.FRAME_BYTES_MAX] * 2 + [12]
    assert messages(found, 1) == sent
