"""The request plan: layers in their order; lanes are open because nothing stands in front of their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.dispatching.layers import BETWEEN_ROLES, STOPPING, Layer, checking, layer, refusing
from pyromq.broker.dispatching.plan import Lanes, RequestPlan, plan_requests
from pyromq.broker.replicating.replica_refusals import leased_layer, replica_layer, shut_layer
from pyromq.broker.sending.closed_sends import closed_layer
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode

BOTH = Lanes(sends=True, pulls=True)
SENDS = (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
CHANGE = Code.UPDATE_AND_CREATE_TOPIC


def answering(name: str) -> Any:
    return lambda connection, request: name


def planned(*layers: Layer, possible: Lanes = BOTH) -> RequestPlan:
    immediate = {int(code): answering(code.name) for code in (CHANGE, Code.GET_BROKER_CONFIG)}
    deferred = {int(code): answering(code.name) for code in (*SENDS, Code.PULL_MESSAGE, Code.CONSUMER_SEND_MSG_BACK)}
    return plan_requests(immediate, deferred, layers, possible)


def ask(plan: RequestPlan, code: Code) -> Any:
    handler = cast(Callable[..., Any], plan.deferred.get(code) or plan.immediate[code])
    return handler(None, None)


def marking(codes: tuple[int, ...] | None, mark: str) -> Layer:
    return layer(codes, lambda code, handler: lambda connection, request: f"{mark}({handler(connection, request)})")


def test_the_first_layer_is_next_to_the_handler() -> None:
    plan = planned(marking(None, "inner"), marking((CHANGE,), "outer"))
    assert ask(plan, CHANGE) == f"outer(inner({CHANGE.name}))"
    assert ask(plan, Code.GET_BROKER_CONFIG) == "inner(GET_BROKER_CONFIG)"


def test_quick_requests_are_those_of_the_deferred_that_share_a_commit() -> None:
    plan = planned()
    assert set(plan.quick) == {*SENDS, Code.CONSUMER_SEND_MSG_BACK}
    assert all(plan.quick[code] is plan.deferred[code] for code in plan.quick)


@pytest.mark.parametrize(
    ("stands", "lanes"),
    [
        ([], BOTH),
        ([marking((CHANGE,), "audit")], BOTH),
        ([leased_layer(lambda: None)], BOTH),  # sends have their gate
        ([replica_layer(reads=True, is_managed=False)], Lanes(sends=False, pulls=True)),
        ([replica_layer(reads=False, is_managed=True)], Lanes()),
        ([leased_layer(lambda: None), shut_layer(ManualClock())], Lanes(sends=True, pulls=False)),
        ([closed_layer(1)], Lanes(sends=False, pulls=True)),
        ([marking((Code.SEND_BATCH_MESSAGE,), "quota")], Lanes(sends=False, pulls=True)),
        ([marking(None, "quota")], Lanes()),
        ([STOPPING], Lanes()),
        ([BETWEEN_ROLES], Lanes()),
    ],
)
def test_a_lane_is_open_where_no_layer_stands_in_front_of_its_requests(stands: list[Layer], lanes: Lanes) -> None:
    assert planned(*stands).lanes == lanes
    assert planned(*stands, possible=Lanes()).lanes == Lanes(), "nor where it is closed for another reason"


def test_a_broker_that_stops_refuses_what_is_answered_later_and_nothing_else() -> None:
    plan = planned().behind(STOPPING)
    with pytest.raises(RefusedError, match="is stopping") as refused:
        ask(plan, Code.SEND_MESSAGE_V2)
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert ask(plan, Code.GET_BROKER_CONFIG) == "GET_BROKER_CONFIG"
    with pytest.raises(RefusedError, match="changes its role"):
        ask(plan.behind(BETWEEN_ROLES), Code.GET_BROKER_CONFIG)


def test_a_check_may_refuse_and_is_asked_each_time() -> None:
    allowed = [True]

    def check() -> None:
        if not allowed[0]:
            raise RefusedError(ResponseCode.NO_PERMISSION, "not now")

    plan = planned(checking((CHANGE,), check))
    assert ask(plan, CHANGE) == CHANGE.name
    allowed[0] = False
    with pytest.raises(RefusedError, match="not now"):
        ask(plan, CHANGE)


def test_a_plan_does_not_change_its_table() -> None:
    before = planned()
    planned_again = before.behind(refusing((CHANGE,), ResponseCode.NO_PERMISSION, "no"))
    assert ask(before, CHANGE) == CHANGE.name
    with pytest.raises(RefusedError):
        ask(planned_again, CHANGE)
