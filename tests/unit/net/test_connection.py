"""A connection on a transport that is no socket, with a clock that moves when told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from pyromq.errors import ConnectionLostError, LocalProtocolError, RequestTimeoutError
from pyromq.net import Connection, ConnectionSettings, Handler, TooManyRequestsError
from pyromq.net.connection import FRAMES_AT_ONCE
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command, decode_command, encode_command, encode_request, encode_response
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.received import Received
from tests.unit.net.fakes import PEER, Notebook, Rig, turn

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NO_HEADER = RequestCode.GET_BROKER_CLUSTER_INFO


def on_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def ask(number: int) -> bytes:
    return encode_request(ROUTE, number, GetRouteHeader(topic="orders"))


def sent(rig: Rig) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(rig.transport.writes))]


# --- in ------------------------------------------------------------------------------------------------------------


@on_a_loop
async def test_all_requests_of_one_read_come_in_one_call() -> None:
    rig = Rig()
    rig.arrive(ask(1) + ask(2) + ask(3)[:20])
    rig.arrive(ask(3)[20:] + ask(4))
    assert rig.handler.batches == [[1, 2], [3, 4]]
    assert rig.connection.frames_in == 4
    assert rig.connection.bytes_in == 4 * len(ask(1))


@on_a_loop
async def test_answers_and_requests_share_a_read() -> None:
    rig = Rig()
    response = rig.connection.request_nowait(NO_HEADER, timeout_ms=1_000)
    rig.arrive(ask(1) + encode_response(0, 1, remark="yours") + ask(2))
    assert rig.handler.batches == [[1, 2]]
    assert (await response).remark == "yours"
    assert rig.connection.in_flight == 0


@on_a_loop
async def test_an_answer_to_no_request_is_dropped() -> None:
    rig = Rig()
    rig.arrive(encode_response(0, 77))
    assert rig.connection.is_open
    assert rig.handler.batches == []


@on_a_loop
async def test_broken_frames_end_the_connection_after_the_good_ones(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.arrive(ask(1) + b"\xff" * 8)
    assert rig.handler.batches == [[1]]
    assert not rig.connection.is_open
    await turn()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(PEER) in caplog.text
    assert rig.handler.events[-1].startswith("disconnected: protocol error")


@on_a_loop
async def test_an_undecodable_header_ends_the_connection_after_the_good_frames(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.arrive(ask(1) + b"\0\0\0\x06\0\0\0\x02{]" + ask(2) + b"\xff" * 8)
    assert rig.handler.batches == [[1]]
    assert not rig.connection.is_open
    assert len(caplog.records) == 1


@on_a_loop
async def test_a_bad_header_is_answered_and_the_connection_lives() -> None:
    rig = Rig()
    bad = encode_command(Command(code=ROUTE, correlation_id=5))
    oneway = encode_command(Command(code=ROUTE, correlation_id=6, flag=2))
    binary = encode_command(Command(code=ROUTE, correlation_id=7, serialize_type=SerializeType.ROCKETMQ))
    rig.arrive(ask(4) + bad + oneway + binary + ask(8))
    assert rig.handler.batches == [[4, 8]]
    assert rig.handler.events == ["connected", *["bad header topic"] * 3]
    responses = sent(rig)
    assert [(response.code, response.correlation_id) for response in responses] == [(1, 5), (1, 7)]
    assert "topic" in (responses[0].remark or "")
    assert responses[1].serialize_type is SerializeType.ROCKETMQ
    assert rig.connection.is_open


@on_a_loop
async def test_a_handler_that_fails_costs_its_own_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Handler):
        def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
            raise ZeroDivisionError

    rig = Rig(handler=Failing())
    rig.arrive(ask(1))
    assert not rig.connection.is_open
    assert "handler failed" in caplog.text


@on_a_loop
async def test_the_default_handler_says_that_a_request_is_not_supported() -> None:
    class Plain(Handler):
        pass

    rig = Rig(handler=Plain())
    rig.arrive(ask(3) + encode_request(ROUTE, 4, GetRouteHeader(topic="t"), oneway=True))
    (response,) = sent(rig)
    assert (response.code, response.correlation_id) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 3)
    assert response.remark == " request type 105 not supported"


class Busy(Notebook):
    """Has time for one call, until it is told to go on."""

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        super().on_requests(connection, requests)
        connection.hold_reading()


@on_a_loop
async def test_of_a_long_read_no_more_is_decoded_than_the_handler_has_time_for() -> None:
    busy, count = Busy(), 2 * FRAMES_AT_ONCE + 1
    rig = Rig(handler=busy)
    rig.arrive(b"".join(map(ask, range(count))))
    assert list(map(len, busy.batches)) == [FRAMES_AT_ONCE] and rig.transport.is_reading_paused
    rig.arrive(ask(count))  # was on its way
    assert len(busy.batches) == 1, "what comes now is behind the rest"
    for _ in range(2):
        rig.connection.go_on_reading()
        assert rig.transport.is_reading_paused
    assert [number for batch in busy.batches for number in batch] == list(range(count + 1))
    rig.connection.go_on_reading()
    assert not rig.transport.is_reading_paused and rig.connection.frames_in == count + 1


@on_a_loop
async def test_nothing_behind_a_frame_that_cannot_be_decoded_is_handed_over() -> None:
    rig, half = Rig(), FRAMES_AT_ONCE // 2
    broken = encode_request(ROUTE, 1, GetRouteHeader(topic="t")).replace(b'"code"', b'"code')
    rig.arrive(b"".join(map(ask, range(half))) + broken + b"".join(map(ask, range(FRAMES_AT_ONCE))))
    assert list(map(len, rig.handler.batches)) == [half] and not rig.connection.is_open


# --- out -----------------------------------------------------------------------------------------------------------


@on_a_loop
async def test_what_is_sent_in_one_turn_leaves_in_one_write() -> None:
    rig = Rig()
    for data in (b"one", b"two", b"three"):
        rig.connection.send(data)
    assert rig.transport.writes == []
    await turn()
    assert rig.transport.writes == [b"onetwothree"]
    assert (rig.connection.frames_out, rig.connection.bytes_out) == (3, 11)


@on_a_loop
async def test_answers_given_while_reading_leave_when_the_read_ends() -> None:
    class Echo(Handler):
        def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
            for request in requests:
                connection.send(encode_response(0, request.correlation_id))

    rig = Rig(handler=Echo())
    rig.arrive(ask(1) + ask(2))
    assert len(rig.transport.writes) == 1
    assert [response.correlation_id for response in sent(rig)] == [1, 2]


@on_a_loop
async def test_flush_writes_at_once() -> None:
    rig = Rig()
    rig.connection.send(b"one")
    rig.connection.flush()
    assert rig.transport.writes == [b"one"]
    rig.connection.send(b"two")
    await turn()
    assert rig.transport.writes == [b"one", b"two"]


@on_a_loop
async def test_large_parts_are_not_copied_together_and_small_ones_are() -> None:
    rig = Rig()
    body = memoryview(bytes(100_000))
    rig.connection.send_parts(b"head", [body[:50_000], body[50_000:]])
    rig.connection.flush()
    assert [len(data) for data in rig.transport.writes] == [4, 50_000, 50_000]
    rig.connection.send_parts(b"head", [body[:100], body[100:200]])
    rig.connection.flush()
    assert len(rig.transport.writes[-1]) == 204
    assert (rig.connection.frames_out, rig.connection.bytes_out) == (2, 100_208)


@on_a_loop
async def test_sending_after_the_end_does_nothing_and_asking_raises() -> None:
    rig = Rig()
    rig.connection.close("enough")
    await turn()
    rig.connection.send(b"late")
    await turn()
    assert rig.transport.writes == []
    with pytest.raises(ConnectionLostError, match="enough") as caught:
        rig.connection.request_nowait(NO_HEADER, timeout_ms=1)
    assert caught.value.peer == str(PEER)
    with pytest.raises(ConnectionLostError):
        await rig.connection.drained()
    await rig.connection.wait_closed()


@on_a_loop
async def test_close_sends_what_is_queued_first() -> None:
    rig = Rig()
    rig.connection.send(b"bye")
    rig.connection.close()
    assert rig.transport.writes == [b"bye"]
    assert not rig.transport.is_aborted


# --- back-pressure -------------------------------------------------------------------------------------------------

SMALL = ConnectionSettings(idle_ms=0, unsent_bytes_high=1_000, unsent_bytes_max=5_000)


@on_a_loop
async def test_a_server_does_not_read_from_a_peer_that_does_not_read() -> None:
    rig = Rig(reads=False, settings=SMALL)
    rig.connection.send(bytes(1_001))
    rig.connection.flush()
    assert rig.connection.is_congested
    assert rig.transport.is_reading_paused
    waiter = asyncio.ensure_future(rig.connection.drained())
    await turn()
    assert not waiter.done()
    rig.transport.peer_reads_all()
    await waiter
    assert not rig.transport.is_reading_paused
    assert rig.handler.events == ["connected", "congested", "drained"]


@on_a_loop
async def test_a_client_goes_on_reading_when_congested() -> None:
    rig = Rig(reads=False, settings=SMALL, is_server=False)
    rig.connection.send(bytes(1_001))
    rig.connection.flush()
    assert rig.connection.is_congested
    assert not rig.transport.is_reading_paused


@on_a_loop
async def test_a_peer_that_never_reads_is_cut_off_at_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(reads=False, settings=SMALL)
    for _ in range(5):
        rig.connection.send(bytes(1_000))
        rig.connection.flush()
    assert rig.connection.is_open
    rig.connection.send(b"!")
    rig.connection.flush()
    assert rig.transport.is_aborted
    await turn()
    assert "does not read" in rig.connection.close_reason
    assert "does not read" in caplog.text
    assert not rig.connection.is_congested


@on_a_loop
async def test_what_a_handler_sends_when_told_of_congestion_is_not_lost() -> None:
    class Chatty(Handler):
        def on_congested(self, connection: Connection) -> None:
            connection.send(b"wait, please")

    rig = Rig(reads=False, settings=SMALL, handler=Chatty())
    rig.connection.send(bytes(1_001))
    rig.connection.flush()
    await turn()
    assert rig.transport.writes == [bytes(1_001), b"wait, please"]
    assert (rig.connection.frames_out, rig.connection.bytes_out) == (2, 1_013)


@on_a_loop
async def test_a_request_on_a_congested_connection_waits_for_its_turn() -> None:
    rig = Rig(reads=False, settings=SMALL)
    rig.connection.send(bytes(1_001))
    rig.connection.flush()
    asking = asyncio.ensure_future(rig.connection.request(NO_HEADER, timeout_ms=60_000))
    await turn()
    assert rig.connection.in_flight == 0
    rig.transport.peer_reads_all()
    await turn()
    assert rig.connection.in_flight == 1
    rig.arrive(encode_response(0, 1))
    assert (await asking).code == 0


# --- asking --------------------------------------------------------------------------------------------------------


@on_a_loop
async def test_answers_find_their_requests_in_any_order() -> None:
    rig = Rig()
    responses = [rig.connection.request_nowait(NO_HEADER, timeout_ms=1_000) for _ in range(100)]
    rig.connection.flush()
    assert [command.correlation_id for command in sent(rig)] == list(range(1, 101))
    for number in reversed(range(1, 101)):
        rig.arrive(encode_response(0, number, remark=str(number)))
    assert [(await response).remark for response in responses] == [str(number) for number in range(1, 101)]


@on_a_loop
async def test_a_late_request_fails_and_a_later_one_lives() -> None:
    rig = Rig()
    short = rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    long = rig.connection.request_nowait(NO_HEADER, timeout_ms=300)
    rig.clock.advance_ms(99)
    rig.connection.fail_late_requests()
    assert not short.done()
    rig.clock.advance_ms(1)
    rig.connection.fail_late_requests()
    with pytest.raises(RequestTimeoutError, match="within 100 ms") as caught:
        await short
    assert (caught.value.peer, caught.value.code, caught.value.timeout_ms) == (str(PEER), NO_HEADER, 100)
    rig.arrive(encode_response(0, 1) + encode_response(0, 2))
    assert (await long).correlation_id == 2


@on_a_loop
async def test_a_deadline_counts_from_its_own_turn_whatever_else_is_queued() -> None:
    rig = Rig()
    rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    rig.connection.flush()
    rig.clock.advance_ms(10_000)
    rig.connection.send(b"a response of ours")
    fresh = rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    rig.connection.fail_late_requests()
    assert not fresh.done()


@on_a_loop
async def test_an_abandoned_request_holds_its_id_until_answer_or_deadline() -> None:
    rig = Rig()
    response = rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    response.cancel()
    assert rig.connection.in_flight == 1
    rig.arrive(encode_response(0, 1))
    assert rig.connection.in_flight == 0


@on_a_loop
async def test_the_number_of_requests_in_flight_is_bounded() -> None:
    rig = Rig(settings=ConnectionSettings(idle_ms=0, in_flight_max=2))
    first = rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    with pytest.raises(TooManyRequestsError) as caught:
        rig.connection.request_nowait(NO_HEADER, timeout_ms=100)
    assert caught.value.in_flight_max == 2
    rig.connection.request_oneway(NO_HEADER)  # no response is awaited
    rig.arrive(encode_response(0, 1))
    await first
    rig.connection.request_nowait(NO_HEADER, timeout_ms=100)


@on_a_loop
async def test_a_request_that_cannot_be_written_leaves_nothing_behind() -> None:
    rig = Rig()
    with pytest.raises(LocalProtocolError):
        rig.connection.request_nowait(NO_HEADER, body=bytes(1 << 24), timeout_ms=100)
    assert rig.connection.in_flight == 0
    assert rig.connection.is_open


@on_a_loop
async def test_a_oneway_request_waits_for_nothing() -> None:
    rig = Rig()
    rig.connection.request_oneway(NO_HEADER)
    await turn()
    (command,) = sent(rig)
    assert command.is_oneway
    assert command.correlation_id == 1
    assert rig.connection.in_flight == 0


@on_a_loop
async def test_unanswered_requests_fail_when_the_connection_ends() -> None:
    rig = Rig()
    responses = [rig.connection.request_nowait(NO_HEADER, timeout_ms=100) for _ in range(3)]
    rig.connection.connection_lost(ConnectionResetError("reset by peer"))
    for response in responses:
        with pytest.raises(ConnectionLostError, match="reset by peer"):
            await response
    assert rig.handler.events[-1] == "disconnected: reset by peer"


# --- silence -------------------------------------------------------------------------------------------------------


def time_out(rig: Rig, after_ms: int) -> None:
    response = rig.connection.request_nowait(NO_HEADER, timeout_ms=after_ms)
    rig.connection.flush()
    rig.clock.advance_ms(after_ms)
    rig.connection.fail_late_requests()
    assert isinstance(response.exception(), RequestTimeoutError)


@on_a_loop
async def test_a_half_open_connection_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(settings=ConnectionSettings(idle_ms=0, half_open_ms=5_000))
    rig.clock.advance_ms(60_000)  # silence before we ask means nothing
    time_out(rig, 3_000)
    assert rig.connection.is_open
    time_out(rig, 3_000)
    assert not rig.connection.is_open
    await turn()
    assert rig.connection.close_reason == "half open: nothing heard for 6000 ms"
    assert "half open" in caplog.text


@on_a_loop
async def test_a_slow_server_is_not_taken_for_a_dead_one() -> None:
    rig = Rig(settings=ConnectionSettings(idle_ms=0, half_open_ms=5_000))
    for number in range(1, 6):
        time_out(rig, 4_000)
        rig.arrive(encode_response(0, number))  # too late, but it lives
    assert rig.connection.is_open


@on_a_loop
async def test_requests_made_before_the_last_read_count_from_their_timeout() -> None:
    rig = Rig(settings=ConnectionSettings(idle_ms=0, half_open_ms=5_000))
    old = [rig.connection.request_nowait(NO_HEADER, timeout_ms=3_000) for _ in range(3)]
    rig.connection.flush()
    rig.arrive(encode_response(0, 1))
    rig.clock.advance_ms(3_000)
    rig.connection.fail_late_requests()
    assert all(isinstance(response.exception(), RequestTimeoutError) for response in old[1:])
    time_out(rig, 3_000)
    assert rig.connection.is_open
    time_out(rig, 3_000)
    assert not rig.connection.is_open


IDLE = ConnectionSettings(idle_ms=120_000)


@on_a_loop
async def test_a_silent_connection_is_closed() -> None:
    rig = Rig(settings=IDLE)
    rig.clock.advance_ms(119_999)
    rig.watch.sweep()
    assert rig.connection.is_open
    rig.clock.advance_ms(1)
    rig.watch.sweep()
    assert not rig.connection.is_open
    await turn()
    assert rig.watch.connections == set()
    assert rig.handler.events[-1] == "disconnected: silent for 120000 ms"


@pytest.mark.parametrize("direction", ["in", "out"])
@on_a_loop
async def test_bytes_in_either_direction_keep_a_connection_alive(direction: str) -> None:
    rig = Rig(settings=IDLE)
    for _ in range(5):
        rig.clock.advance_ms(100_000)
        if direction == "in":
            rig.arrive(encode_response(0, 99))
        else:
            rig.connection.send(b"news")
            rig.connection.flush()
        rig.watch.sweep()
    assert rig.connection.is_open
    rig.connection.close()
    await turn()


@on_a_loop
async def test_what_a_peer_does_not_read_does_not_keep_it_alive() -> None:
    rig = Rig(settings=IDLE, reads=False)
    for _ in range(2):
        rig.connection.send(b"news")
        rig.connection.flush()
        rig.clock.advance_ms(60_000)
        rig.watch.sweep()
    assert not rig.connection.is_open
    await turn()


@on_a_loop
async def test_a_session_comes_back_as_what_it_is() -> None:
    rig = Rig()
    rig.connection.session = ["mine"]
    assert rig.connection.session_as(list) == ["mine"]
    with pytest.raises(AssertionError):
        rig.connection.session_as(dict)


@pytest.fixture(autouse=True)
def _warnings_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
