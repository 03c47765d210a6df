"""Which response of a server becomes which error of ``pyromq.errors``."""

from __future__ import annotations

from typing import Any, Final

from pyromq.errors import (
    BrokerError,
    ExpressionRefusedError,
    GroupNotFoundError,
    GroupOfflineError,
    NoPermissionError,
    NotFoundError,
    ServiceNotAvailableError,
    SystemBusyError,
    TopicNotFoundError,
)
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received

_ERRORS: Final[dict[int, type[BrokerError]]] = {
    ResponseCode.NO_PERMISSION: NoPermissionError,
    ResponseCode.SYSTEM_BUSY: SystemBusyError,
    ResponseCode.FLOW_CONTROL: SystemBusyError,
    ResponseCode.SERVICE_NOT_AVAILABLE: ServiceNotAvailableError,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFoundError,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: ExpressionRefusedError,
    ResponseCode.CONSUMER_NOT_ONLINE: GroupOfflineError,
    ResponseCode.QUERY_NOT_FOUND: NotFoundError,
    ResponseCode.NO_MESSAGE: NotFoundError,
}
_NAMES: Final = {code.value: code.name for code in ResponseCode}


def error_of(response: Received[Any], *, topic: str = "") -> BrokerError:
    """The error that a response stands for; its remark is the server's own text."""
    remark = response.remark or _NAMES.get(response.code, "without a word")
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return TopicNotFoundError(topic, remark)
    return _ERRORS.get(response.code, BrokerError)(code=response.code, remark=remark)
