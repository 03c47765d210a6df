"""Turns of connections: what one of them is given and gets written in a loop iteration is bounded, in bytes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyromq.net.http2.turns import ByteTurns
from pyromq.wire.http2 import frames
from tests.unit.net.http2.talk import Talk, messages

TURN = 100_000
HEADS = 2_000  # of frames, and header blocks


def greedy(calls: int) -> Talk:
    """A client whose windows are open, with calls that want all of a turn each."""
    talk = Talk(bytes_per_turn=TURN, calls_per_turn=1_000)
    talk.handler.answer = lambda call, message: call.respond(bytes(TURN))
    talk.greet(initial_window_size=frames.WINDOW_MAX)
    read = frames.encode_window_update(0, frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
    for stream in range(1, 2 * calls, 2):
        read += frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream, talk.block())
        read += frames.encode_frame(frames.DATA, frames.END_STREAM, stream, bytes(5))
    talk.feed(read)
    return talk


async def turn() -> None:
    await asyncio.sleep(0)


async def test_the_bytes_that_a_connection_gets_in_a_turn_are_bounded_and_all_leave() -> None:
    talk = Talk(bytes_per_turn=TURN).greet(initial_window_size=1 << 24)
    talk.feed(frames.encode_window_update(0, 1 << 24))
    talk.call(1)
    call, _ = talk.handler.calls[0]
    for _ in range(50):
        call.send(bytes(20_000))
    call.finish()
    written, largest, turns = bytearray(), 0, 0
    while talk.connection.calls:
        await turn()
        found, talk.transport.written = talk.transport.written, bytearray()
        written += found
        largest, turns = max(largest, len(found)), turns + 1
        assert turns < 100
    await turn()
    written += talk.transport.written
    assert largest <= TURN + HEADS
    assert turns >= 50 * 20_000 // TURN
    assert messages(frames.Http2FrameDecoder().feed(bytes(written)), 1) == [bytes(20_000)] * 50


async def test_an_honest_client_beside_a_greedy_one_waits_for_one_turn_of_it() -> None:
    others, honest = greedy(calls=100), Talk(bytes_per_turn=TURN).greet()
    honest.handler.answer = lambda call, message: call.respond(b"answered")
    honest.call(1)
    await turn()
    assert b"answered" in honest.transport.written
    assert len(others.transport.written) <= TURN + HEADS
    assert len(others.handler.calls) <= 2, "the rest of its calls has not begun"


async def test_calls_of_one_read_wait_when_the_turn_is_spent_and_all_are_answered() -> None:
    talk = greedy(calls=10)
    assert len(talk.handler.calls) == 1
    assert not talk.transport.is_reading
    begun = [1]
    for _ in range(60):
        await turn()
        begun.append(len(talk.handler.calls))
    assert max(after - before for before, after in pairwise(begun)) == 1
    found = await talk.read()
    assert [len(messages(found, stream)) for stream in range(1, 20, 2)] == [1] * 10
    assert talk.connection.calls == 0
    assert talk.transport.is_reading


async def test_a_turn_that_a_closed_window_holds_up_is_over_nevertheless() -> None:
    talk = Talk(bytes_per_turn=TURN).greet(initial_window_size=0)
    talk.call(1)
    talk.handler.calls[0][0].send(bytes(TURN))
    assert talk.connection.turns.is_spent
    await turn()
    assert not talk.connection.turns.is_spent
    talk.feed(frames.encode_window_update(1, TURN * 2) + frames.encode_window_update(0, TURN * 2))
    assert messages(await talk.read(), 1) == [bytes(TURN)]


async def test_what_a_turn_held_back_leaves_before_a_connection_closes() -> None:
    talk = greedy(calls=1)
    talk.connection.close("the server stops")
    assert messages(await talk.read(), 1) == [bytes(TURN)]


def new_turns() -> ByteTurns:
    return ByteTurns(asyncio.get_running_loop(), TURN, lambda: None)


async def test_handlers_wait_for_turns_in_their_order_and_one_has_each() -> None:
    turns = new_turns()
    had: list[int] = []

    async def handler(number: int) -> None:
        await turns.have()
        assert turns.given < TURN
        turns.give(TURN)
        had.append(number)

    tasks = [asyncio.ensure_future(handler(number)) for number in range(20)]
    grown = [0]
    for _ in range(100):
        await turn()
        grown.append(len(had))
    await asyncio.gather(*tasks)
    assert sorted(had) == list(range(20)) and had[:2] == [0, 1]
    assert max(after - before for before, after in pairwise(grown)) == 1
    await turn()
    assert not turns.is_spent


async def test_who_gave_up_takes_no_turn() -> None:
    turns = new_turns()
    first, second = asyncio.ensure_future(turns.have()), asyncio.ensure_future(turns.have())
    asyncio.get_running_loop().call_soon(first.cancel)  # while it waits: both have begun before
    turns.give(TURN)
    await second
    assert first.cancelled()
    await turn()
    assert not turns.is_spent


async def test_a_turn_that_is_not_spent_is_had_at_once() -> None:
    turns = new_turns()
    turns.give(TURN - 1)
    waits = turns.have()
    with pytest.raises(StopIteration):
        waits.send(None)
