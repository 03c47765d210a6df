"""Clients of another front door call the same handlers, and get what a remoting client would get, also later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.broker.dispatching.caller import Caller
from pyromq.broker.dispatching.dispatcher import RequestDispatcher, new_session
from pyromq.broker.dispatching.plan import Lanes, plan_requests
from pyromq.errors import ConnectionLostError, TooManyRequestsError
from pyromq.net import Address, Connection
from pyromq.replication.settings import Role
from pyromq.store.settings import Flush
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from pyromq.wire.received import Received
from tests.unit.broker.sending.lane_rig import LaneRig
from tests.unit.broker.test_serving import service
from tests.unit.net.fakes import turn

REMOTE = Address("10.0.0.7", 4711)
CODE = RequestCode.SEND_MESSAGE_V2


def sent(topic: str = "orders") -> SendHeader:
    return SendHeader(
        producer_group="senders",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )


def pull(offset: int, *, hold_ms: int) -> PullHeader:
    return PullHeader(
        consumer_group="readers",
        topic="orders",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6,  # it may wait, and says what it subscribes to
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
    )


def caller_of(rig: LaneRig, **options: Any) -> Caller:
    return rig.broker.dispatcher.new_caller(REMOTE, new_session(REMOTE), **options)


@pytest.mark.parametrize("flush", Flush)
async def test_a_send_is_answered_when_it_is_stored_as_safely_as_any_other(flush: Flush) -> None:
    async with LaneRig(with_core=False, flush=flush) as rig:
        caller = caller_of(rig)
        call = caller.call(CODE, sent(), b"hello")
        assert not call.done(), "it is committed with all else that arrives in this loop iteration"
        response = await asyncio.wait_for(call, 60)
        header = response.header_as(SendResponseHeader)
        assert (response.code, header.queue_id, header.queue_offset, caller.calls) == (ResponseCode.SUCCESS, 0, 0, 0)
        caller.close()


async def test_a_long_poll_is_answered_by_the_message_that_comes_later() -> None:
    async with LaneRig(with_core=False) as rig:
        caller, other = caller_of(rig), caller_of(rig)
        await asyncio.wait_for(other.call(CODE, sent(), b"first"), 60)
        waiting = caller.call(RequestCode.PULL_MESSAGE, pull(1, hold_ms=15_000))
        await turn()
        assert not waiting.done() and len(rig.broker.parts.waiters) == 1
        await asyncio.wait_for(other.call(CODE, sent(), b"second"), 60)
        response = await asyncio.wait_for(waiting, 60)
        assert response.code == ResponseCode.SUCCESS and b"second" in response.body
        for each in (caller, other):
            each.close()
        await turn()


async def test_refusals_and_unknown_requests_are_responses_too() -> None:
    async with LaneRig(with_core=False) as rig:
        caller = caller_of(rig)
        refused = await asyncio.wait_for(caller.call(CODE, sent("SCHEDULE_TOPIC_XXXX"), b"x"), 60)
        unknown = await asyncio.wait_for(caller.call(4711), 60)
        assert refused.code != ResponseCode.SUCCESS and refused.remark
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        caller.close()


async def test_who_goes_is_forgotten_and_its_calls_end() -> None:
    async with LaneRig(with_core=False) as rig:
        caller = caller_of(rig)
        await asyncio.wait_for(caller.call(CODE, sent(), b"first"), 60)
        waiting = caller.call(RequestCode.PULL_MESSAGE, pull(1, hold_ms=15_000))
        await turn()
        caller.close("the stream ended")
        with pytest.raises(ConnectionLostError, match="the stream ended"):
            await asyncio.wait_for(waiting, 60)
        assert len(rig.broker.parts.waiters) == 0 and not caller.is_open
        with pytest.raises(ConnectionLostError):
            caller.call(CODE, sent(), b"x")


async def test_a_change_of_role_ends_callers_who_may_come_again() -> None:
    async with LaneRig(with_core=False) as rig:
        caller = caller_of(rig)
        rig.broker._server.connections = frozenset()  # type: ignore[union-attr, misc]
        await rig.broker.change_role(Role.ALONE, 0)
        assert not caller.is_open
        again = caller_of(rig)
        assert (await asyncio.wait_for(again.call(CODE, sent(), b"x"), 60)).code == ResponseCode.SUCCESS
        again.close()


# --- without a broker ---


def dispatcher_of(handler: Any) -> RequestDispatcher:
    dispatcher = RequestDispatcher(ManualClock())
    dispatcher.serve(service(), plan_requests({}, {int(CODE): handler}, [], Lanes()))
    return dispatcher


async def test_responses_find_their_calls_in_any_order_and_once() -> None:
    asked: list[tuple[Connection, Received[Any]]] = []
    dispatcher = dispatcher_of(lambda connection, request: asked.append((connection, request)))
    caller = dispatcher.new_caller(REMOTE, new_session(REMOTE))
    calls = [caller.call(CODE, None, b"%d" % number) for number in range(3)]
    await turn()
    for connection, request in reversed(asked):
        connection.send_now(encode_response(0, request.correlation_id, body=request.body))
        connection.send_now(encode_response(1, request.correlation_id, body=b"again"))
    assert [(await call).body for call in calls] == [b"0", b"1", b"2"]
    assert caller.calls == 0


async def test_what_the_broker_asks_goes_to_the_front_door_whose_defects_are_its_own() -> None:
    heard: list[int] = []

    def hear(request: Received[Any]) -> None:
        heard.append(request.code)
        raise ZeroDivisionError("a defect")

    caller = dispatcher_of(None).new_caller(REMOTE, new_session(REMOTE), hear)
    caller.request_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "readers"})
    caller.flush()
    assert heard == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] and caller.is_open


async def test_calls_under_way_are_bounded_and_a_cancelled_one_makes_room() -> None:
    caller = dispatcher_of(lambda connection, request: None).new_caller(REMOTE, new_session(REMOTE))
    calls = [caller.call(CODE) for _ in range(caller.settings.in_flight_max)]
    with pytest.raises(TooManyRequestsError):
        caller.call(CODE)
    calls[0].cancel()
    await turn()
    caller.call(CODE)


async def test_who_comes_while_there_is_no_role_waits_for_the_next() -> None:
    dispatcher, answered = RequestDispatcher(ManualClock()), list[bytes]()
    caller = dispatcher.new_caller(REMOTE, new_session(REMOTE))
    caller.call(CODE, None, b"early")
    await turn()
    plan = plan_requests({}, {int(CODE): lambda connection, request: answered.append(request.body)}, [], Lanes())
    dispatcher.serve(service(fast_path=lambda connection: None), plan)
    assert answered == []
    dispatcher.welcome()
    assert answered == [b"early"]
