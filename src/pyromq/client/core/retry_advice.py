"""Retry advice: whether a failed request may be tried again, and where. One table of response codes, one of rules.

Errors carry advice on their class (``MQError.retry``); of a BrokerError it depends on the response code, and ``ADVICE``
is the table of those. Codes that are not in it are LATER: nothing says that they last, nor that they pass at once.

    advice                 a send, at once             a request to a fixed broker, after a while
                           (producer.attempts)         (pipeline.core.retry_window)
    NEVER                  no                          no
    LATER                  no                          yes
    SAME_BROKER            yes, order does not suffer  yes
    ANY_BROKER             yes                         yes
    OTHER_BROKER           yes                         no
    AFTER_ROUTE_REFRESH    yes                         yes

The codes of the second column are RocketMQ's: 1, 2, 14, 16, 17, 204, 205, 1500. A send that was surely not stored
(``is_surely_not_stored``) is tried again until its time is up, the others as often as ``retries`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyromq.errors import BrokerError, ConnectFailedError, MQError, NoMasterError, RetryAdvice, TooManyRequestsError
from pyromq.wire.codes import CLOSED_TO_SENDS, FLOW_CONTROL_TAG, ResponseCode

ADVICE: Final[Mapping[int, RetryAdvice]] = {
    ResponseCode.SYSTEM_ERROR: RetryAdvice.ANY_BROKER,
    ResponseCode.SYSTEM_BUSY: RetryAdvice.ANY_BROKER,
    ResponseCode.SERVICE_NOT_AVAILABLE: RetryAdvice.ANY_BROKER,
    ResponseCode.NO_BUYER_ID: RetryAdvice.ANY_BROKER,
    ResponseCode.NOT_IN_CURRENT_UNIT: RetryAdvice.ANY_BROKER,
    ResponseCode.GO_AWAY: RetryAdvice.SAME_BROKER,  # it has done nothing, and asks for a new connection
    ResponseCode.NO_PERMISSION: RetryAdvice.OTHER_BROKER,  # rights are each broker's own
    ResponseCode.TOPIC_NOT_EXIST: RetryAdvice.AFTER_ROUTE_REFRESH,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: RetryAdvice.NEVER,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: RetryAdvice.NEVER,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: RetryAdvice.NEVER,
    ResponseCode.INVALID_PARAMETER: RetryAdvice.NEVER,
    ResponseCode.MESSAGE_ILLEGAL: RetryAdvice.NEVER,  # the same message stays illegal
}
_AT_ONCE: Final = frozenset(
    {RetryAdvice.SAME_BROKER, RetryAdvice.ANY_BROKER, RetryAdvice.OTHER_BROKER, RetryAdvice.AFTER_ROUTE_REFRESH}
)
_AFTER_A_WHILE: Final = frozenset(
    {RetryAdvice.LATER, RetryAdvice.SAME_BROKER, RetryAdvice.ANY_BROKER, RetryAdvice.AFTER_ROUTE_REFRESH}
)


def retry_advice(error: MQError) -> RetryAdvice:
    if isinstance(error, BrokerError):
        return ADVICE.get(error.code, RetryAdvice.LATER)
    return error.retry


def is_surely_not_stored(error: MQError) -> bool:
    """Whether it never left this process, or met a broker that stores nothing (14), or nothing of this sender (2)."""
    if isinstance(error, BrokerError) and error.code == ResponseCode.SYSTEM_BUSY:
        return error.remark.startswith(FLOW_CONTROL_TAG)
    return is_broker_away(error) or isinstance(error, TooManyRequestsError)


def is_broker_away(error: MQError) -> bool:
    """Whether it could not be connected, or said that it stores nothing now: so brokers are while they restart.

    Or it is closed to sends until a moment, or has no master: so it is while another one takes over.
    """
    if isinstance(error, BrokerError):
        is_closed = error.code == ResponseCode.SYSTEM_ERROR and error.remark.startswith(CLOSED_TO_SENDS)
        return is_closed or error.code == ResponseCode.SERVICE_NOT_AVAILABLE
    return isinstance(error, ConnectFailedError | NoMasterError)


def may_retry(error: MQError) -> bool:
    """Whether another broker, or the same a moment later, may take what this one did not."""
    return retry_advice(error) in _AT_ONCE


def may_retry_later(error: MQError) -> bool:
    """Whether the same request to the same broker may succeed after a while: brokers restart."""
    return retry_advice(error) in _AFTER_A_WHILE


def may_retry_in_order(error: MQError) -> bool:
    """Whether a message whose queue is fixed may be sent again: it cannot have been stored."""
    return retry_advice(error) is RetryAdvice.SAME_BROKER
