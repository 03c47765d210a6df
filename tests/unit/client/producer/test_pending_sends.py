"""Pending sends: how many there may be, what a cancelled one holds, and that callbacks are called before the end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.pending_sends import PendingSends
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.errors import ClientClosedError, RemoteProtocolError, TooManyRequestsError
from pyromq.model.queue import QueueId
from tests.unit.net.fakes import turn

QUEUE = QueueId("orders", "broker-a", 3)
FACTS = ("7F01", 3, 7, None, "", "", "")


def pending(in_flight_max: int = 2) -> PendingSends:
    sender = RetryingSender.__new__(RetryingSender)  # a receipt of facts reads nothing of it
    return PendingSends(sender, lambda: pytest.fail("nothing takes the slow path"), in_flight_max)


def begun() -> tuple[Any, asyncio.Future[Any]]:
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return (OutgoingMessage(SEND, "orders", b"", "", "ID", 0, 0), QUEUE, None, response), response


async def test_a_response_makes_room_before_anybody_hears_of_it() -> None:
    sends = pending(in_flight_max=1)
    send, response = begun()
    outcome = sends.add_begun(send, None)
    with pytest.raises(TooManyRequestsError):
        sends.require_room("orders")
    room: list[bool] = []
    outcome.add_done_callback(lambda _: room.append(sends.require_room("orders") is None))
    response.set_result(FACTS)
    assert (await outcome).offset == 7
    assert room == [True]


async def test_cancelled_sends_take_no_room_though_their_responses_are_not_there() -> None:
    sends = pending(in_flight_max=2)
    sent = [begun() for _ in range(2)]
    outcomes = [sends.add_begun(send, None) for send, _ in sent]
    outcomes[0].cancel()
    sends.require_room("orders")
    sends.add_begun(begun()[0], None)
    with pytest.raises(TooManyRequestsError):
        sends.require_room("orders")
    for _, response in sent:
        response.set_result(FACTS)
    await turn()
    assert outcomes[0].cancelled() and (await outcomes[1]).message_id == "ID"
    sends.require_room("orders")
    sends.give_up()


@pytest.mark.parametrize("is_over", [True, False])
async def test_the_end_waits_for_callbacks_also_of_sends_that_are_over(is_over: bool) -> None:
    sends = pending()
    told: list[Any] = []
    send, response = begun()
    outcome = sends.add_begun(send, lambda receipt, error: told.append((receipt is not None, error)))
    response.set_result(FACTS)
    if is_over:
        sends._on_response(send, outcome, response)
    await sends.close(60_000)
    assert outcome.done()
    assert told == [(True, None)]


async def test_the_end_does_not_wait_for_what_was_cancelled() -> None:
    sends = pending()
    told: list[Any] = []
    outcome = sends.add_begun(begun()[0], lambda receipt, error: told.append(type(error)))
    outcome.cancel()
    await sends.close(60_000)
    sends.give_up()
    assert told == [asyncio.CancelledError] and outcome.cancelled()


async def test_those_that_are_left_fail_once() -> None:
    sends = pending()
    send, response = begun()
    outcome = sends.add_begun(send, None)
    await sends.close(0)
    sends.give_up()
    with pytest.raises(ClientClosedError):
        await outcome
    response.set_result(FACTS)  # too late, and nobody's
    await turn()
    sends.require_room("orders")


async def test_an_error_of_another_kind_is_told_as_it_is() -> None:
    sends = pending(in_flight_max=1)
    send, response = begun()
    outcome = sends.add_begun(send, None)
    response.set_exception(RemoteProtocolError("a response that is none"))
    with pytest.raises(RemoteProtocolError):
        await outcome
    sends.require_room("orders")


class Counted(set[Any]):
    """How often somebody went through all of it."""

    looks = 0

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()


async def test_who_goes_on_sending_without_room_does_not_look_through_all_sends_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    sends = pending(in_flight_max=1)
    outcome = sends.add_begun(begun()[0], None)
    with pytest.raises(TooManyRequestsError):
        sends.require_room("orders")
    counted = sends._outcomes = Counted(sends._outcomes)
    counted.looks = 0
    for _ in range(100):
        with pytest.raises(TooManyRequestsError):
            sends.require_room("orders")
    assert counted.looks == 0
    outcome.cancel()
    now_s += 1
    sends.require_room("orders")


@pytest.mark.parametrize("response", [FACTS, SimpleNamespace(code=0)])
async def test_a_receipt_that_cannot_be_made_ends_the_send(response: Any) -> None:
    def broken(*_: object) -> Any:
        raise TypeError("a defect")

    sends = pending()
    sends._receipt_of = sends._receipt_of_facts = broken
    send, answered = begun()
    outcome = sends.add_begun(send, None)
    answered.set_result(response)
    with pytest.raises(TypeError, match="a defect"):
        await outcome
