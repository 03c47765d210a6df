"""Which failure may be tried again, and where: for sends and for what is tried for a while."""

from __future__ import annotations

import pytest

from pyromq.client.core.errors import error_of
from pyromq.client.core.retry_advice import may_retry, may_retry_in_order, may_retry_later, retry_advice
from pyromq.errors import (
    BrokerError,
    ConnectFailedError,
    ConnectionLostError,
    MQError,
    NameServersUnreachableError,
    NoWritableQueueError,
    RequestTimeoutError,
    RetryAdvice,
    TopicNotFoundError,
)
from pyromq.net import TooManyRequestsError
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received

AT_ONCE = {1, 2, 14, 16, 17, 204, 205, 1500}  # RocketMQ's
HOPELESS = {3, 13, 16, 23, 26, 29}


@pytest.mark.parametrize("code", [*map(int, ResponseCode), 9_999])
def test_every_code_has_its_advice(code: int) -> None:
    error = error_of(Received(code, {}), topic="t")
    assert (may_retry(error), may_retry_later(error)) == (code in AT_ONCE, code not in HOPELESS)
    assert may_retry_in_order(error) is (code == 1500)


@pytest.mark.parametrize("error", [ConnectFailedError("x"), ConnectionLostError("x"), RequestTimeoutError("x")])
def test_what_the_network_did_may_pass_but_not_in_order(error: MQError) -> None:
    assert (may_retry(error), may_retry_later(error), may_retry_in_order(error)) == (True, True, False)


def test_errors_that_are_not_of_a_broker_carry_their_advice() -> None:
    assert retry_advice(TooManyRequestsError(peer="a", in_flight_max=1)) is RetryAdvice.SAME_BROKER
    assert retry_advice(NameServersUnreachableError([])) is RetryAdvice.AFTER_ROUTE_REFRESH
    assert retry_advice(NoWritableQueueError("t", "read-only")) is RetryAdvice.NEVER
    assert retry_advice(MQError("ours")) is RetryAdvice.NEVER
    assert not may_retry(MQError("ours")) and not may_retry_later(MQError("ours"))


def test_a_code_counts_more_than_the_class() -> None:
    assert retry_advice(TopicNotFoundError("t")) is RetryAdvice.AFTER_ROUTE_REFRESH
    assert retry_advice(BrokerError(code=16, remark="")) is RetryAdvice.OTHER_BROKER
