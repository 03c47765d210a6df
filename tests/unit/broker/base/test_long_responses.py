"""Long responses: short ones at once, others in steps, not too many of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyromq.broker.base.long_responses import (
    PIECE,
    PIECES_AT_ONCE,
    WAITING_MAX,
    LongResponses,
    Steps,
    elsewhere,
    nothing,
    pieces,
)
from pyromq.broker.base.refusals import RefusedError
from pyromq.wire.codes import ResponseCode
from pyromq.wire.frame import FRAME_BYTES_MAX
from tests.unit.broker.builders import Wire, request


class OpenWire(Wire):
    remote_text = "10.0.0.1:1"

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True
        self.arrived = asyncio.Event()

    def send(self, frame: bytes) -> None:
        super().send(frame)
        self.arrived.set()


@pytest.fixture
def responses() -> Iterator[LongResponses]:
    with ThreadPoolExecutor(1) as worker:
        yield LongResponses(worker)


def steps(count: int, done: list[int] | None = None, error: Exception | None = None) -> Steps:
    for number in range(count):
        if done is not None:
            done.append(number)
        yield
    if error is not None:
        raise error
    return lambda: b"body"


async def answered(wire: OpenWire, count: int = 1) -> list[Any]:
    async with asyncio.timeout(60):
        while len(wire.responses) < count:
            wire.arrived.clear()
            await wire.arrived.wait()
    return wire.responses


async def test_a_short_response_is_sent_at_once(responses: LongResponses) -> None:
    wire = OpenWire()
    responses.begin(wire.as_connection, request(5), steps(PIECES_AT_ONCE - 1))
    (response,) = wire.responses
    assert (response.code, response.correlation_id, response.body) == (0, 5, b"body")


async def test_a_long_response_lets_others_pass(responses: LongResponses) -> None:
    wire, done = OpenWire(), list[int]()
    responses.begin(wire.as_connection, request(5), steps(100, done))
    assert wire.responses == [] and len(done) == PIECES_AT_ONCE
    turns = 0
    while len(done) < 100:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert (await answered(wire))[0].body == b"body"


async def test_a_failure_in_the_middle_is_told_and_the_next_one_is_made(responses: LongResponses) -> None:
    wire = OpenWire()
    refused = RefusedError(ResponseCode.TOPIC_NOT_EXIST, "gone meanwhile")
    for number, error in enumerate((refused, RuntimeError("a defect"), None)):
        responses.begin(wire.as_connection, request(number), steps(20, error=error))
    assert [response.code for response in await answered(wire, 3)] == [17, 1, 0]


async def test_only_so_many_wait_and_nobody_makes_what_nobody_reads(responses: LongResponses) -> None:
    gone, done = OpenWire(), list[int]()
    for number in range(WAITING_MAX):
        responses.begin(gone.as_connection, request(number), steps(1_000, done))
    with pytest.raises(RefusedError, match="ask again") as caught:
        responses.begin(gone.as_connection, request(), steps(1_000))
    assert caught.value.code is ResponseCode.SYSTEM_BUSY
    gone.is_open = False
    wire = OpenWire()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    responses.begin(wire.as_connection, request(7), steps(20))
    assert (await answered(wire))[0].correlation_id == 7 and gone.responses == []
    assert len(done) < WAITING_MAX * 20


async def test_a_one_way_request_for_a_long_response_is_not_answered(responses: LongResponses) -> None:
    wire = OpenWire()
    responses.begin(wire.as_connection, request(1, oneway=True), steps(20))
    responses.begin(wire.as_connection, request(2), steps(20))
    assert [response.correlation_id for response in await answered(wire)] == [2]


def saving(pieces: int, save: Callable[[], object], seen: list[object]) -> Steps:
    """As a table is saved: encoded in pieces, written by a worker."""
    try:
        for _ in range(pieces):
            yield None
        seen.append((yield save))
    except (OSError, GeneratorExit) as error:
        seen.append(type(error))
        if isinstance(error, OSError):
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "not saved") from error
        raise
    return nothing


@pytest.mark.parametrize("pieces", [0, PIECES_AT_ONCE - 1, PIECES_AT_ONCE, 20])
async def test_a_disk_is_waited_for_on_a_worker_and_the_steps_hear_of_it(pieces: int, responses: LongResponses) -> None:
    wire, seen = OpenWire(), list[object]()
    responses.begin(wire.as_connection, request(1), saving(pieces, threading.get_ident, seen))
    assert [response.code for response in await answered(wire)] == [0]
    is_here = seen == [threading.get_ident()]
    assert len(seen) == 1 and is_here == (pieces < PIECES_AT_ONCE - 1)


async def test_steps_decide_what_a_failed_job_means(responses: LongResponses) -> None:
    wire, seen = OpenWire(), list[object]()

    def broken() -> None:
        raise OSError("broken")

    responses.begin(wire.as_connection, request(1), saving(20, broken, seen))
    assert [response.code for response in await answered(wire)] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert seen == [OSError]


async def test_steps_hear_when_they_are_given_up(responses: LongResponses) -> None:
    waiting, refused = list[object](), list[object]()
    wire = OpenWire()
    for number in range(WAITING_MAX):
        responses.begin(wire.as_connection, request(number), saving(1_000, nothing, waiting))
    with pytest.raises(RefusedError):
        responses.begin(wire.as_connection, request(), saving(1_000, nothing, refused))
    assert refused == [GeneratorExit] and not waiting
    await responses.close()
    assert waiting == [GeneratorExit] * WAITING_MAX


async def test_a_response_that_no_frame_holds_is_refused_with_the_reason(responses: LongResponses) -> None:
    def large() -> Steps:
        yield from elsewhere(20 * PIECE)
        return lambda: bytes(FRAME_BYTES_MAX)

    wire = OpenWire()
    responses.begin(wire.as_connection, request(1), large())
    (response,) = await answered(wire)
    assert response.code == ResponseCode.SYSTEM_ERROR and "does not fit" in (response.remark or "")


async def test_the_end_of_the_broker_ends_them(responses: LongResponses) -> None:
    wire = OpenWire()
    responses.begin(wire.as_connection, request(), steps(1 << 40))
    await asyncio.sleep(0)
    await responses.close()
    assert wire.responses == []


def test_pieces_cover_everything_once() -> None:
    found = list(pieces(range(2 * PIECE + 1)))
    assert [len(piece) for piece in found] == [PIECE, PIECE, 1] and found[-1][0] == 2 * PIECE
