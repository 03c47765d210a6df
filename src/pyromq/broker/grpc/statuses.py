"""Statuses of the gRPC API: one table from the broker's response codes, and the error that carries a status."""

from __future__ import annotations

from typing import Any, Final

from pyromq.broker.base.refusals import refusal_of
from pyromq.errors import ConnectionLostError, InvalidNameError, MQError, TooManyRequestsError
from pyromq.security.errors import AccessDeniedError
from pyromq.security.guard import is_about_a_user
from pyromq.wire.codes import ResponseCode
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Status, status_of
from pyromq.wire.received import Received

STATUS_BY_RESPONSE: Final[dict[int, StatusCode]] = {
    ResponseCode.SUCCESS: StatusCode.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: StatusCode.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: StatusCode.HA_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: StatusCode.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SYSTEM_BUSY: StatusCode.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: StatusCode.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: StatusCode.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: StatusCode.NOT_IMPLEMENTED,
    ResponseCode.MESSAGE_ILLEGAL: StatusCode.MESSAGE_CORRUPTED,
    ResponseCode.NO_PERMISSION: StatusCode.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: StatusCode.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: StatusCode.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: StatusCode.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.INVALID_PARAMETER: StatusCode.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: StatusCode.BAD_REQUEST,
    ResponseCode.NO_MESSAGE: StatusCode.INVALID_RECEIPT_HANDLE,
    ResponseCode.POLLING_TIMEOUT: StatusCode.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: StatusCode.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY: StatusCode.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_OFFSET_MOVED: StatusCode.ILLEGAL_OFFSET,
    ResponseCode.QUERY_NOT_FOUND: StatusCode.OFFSET_NOT_FOUND,
}
"""All others are INTERNAL_SERVER_ERROR, with the text of the response."""

_NAMES: Final = {"topic": StatusCode.ILLEGAL_TOPIC, "group": StatusCode.ILLEGAL_CONSUMER_GROUP}


class StatusError(MQError):
    """A request that is answered with this status; the text says what to do."""

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def status_of_response(response: Received[Any]) -> Status:
    """What the broker answered to a caller."""
    return _status(response.code, response.remark or "")


def status_of_error(error: MQError) -> Status:
    """Any error of ours."""
    match error:
        case StatusError():
            return status_of(error.code, str(error))
        case InvalidNameError():
            return status_of(_NAMES.get(error.kind, StatusCode.BAD_REQUEST), str(error))
        case AccessDeniedError():
            return status_of(StatusCode.UNAUTHORIZED, str(error))
        case TooManyRequestsError():
            return status_of(StatusCode.TOO_MANY_REQUESTS, str(error))
        case ConnectionLostError():  # the broker stops, or changes its role
            return status_of(StatusCode.HA_NOT_AVAILABLE, f"{error}; try again")
    return _status(*refusal_of(error))


def _status(response: int, remark: str) -> Status:
    if response == ResponseCode.NO_PERMISSION and is_about_a_user(remark):
        return status_of(StatusCode.UNAUTHORIZED, remark)
    return status_of(STATUS_BY_RESPONSE.get(response, StatusCode.INTERNAL_SERVER_ERROR), remark)
