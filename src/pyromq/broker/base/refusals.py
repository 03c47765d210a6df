"""Refusals, how the broker says no: an exception with a response code, and a table for all other errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyromq.errors import (
    ConfigError,
    CorruptRecordError,
    DiskFullError,
    InvalidNameError,
    LocalProtocolError,
    MessageRefusedError,
    MQError,
    PositionOutOfRangeError,
    ProtocolError,
    StoreClosedError,
    StoreError,
    StoreReadOnlyError,
    shortened,
)
from pyromq.model.limits import REMARK_CHARACTERS_MAX
from pyromq.security.errors import AccessChangeError, AccessDeniedError
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received


class RefusedError(MQError):
    """A request that is answered with an error code; ``remark`` says what to do, ``ext`` are fields beside it."""

    def __init__(self, code: ResponseCode, remark: str, ext: Mapping[str, str] | None = None) -> None:
        remark = shortened(remark, REMARK_CHARACTERS_MAX)
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext = ext


def inner_batch() -> RefusedError:
    """A message whose sysFlag says that others are inside: those are for queues of a format that is not written."""
    text = "inner batches (sysFlag 128) are for topics of queue type BatchCQ, which this broker does not have"
    return RefusedError(ResponseCode.MESSAGE_ILLEGAL, text)


def too_large(request: Received[Any]) -> RefusedError:
    text = f"the body of request {request.code} has {len(request.body)} bytes, at most 1 MiB is allowed: ask in parts"
    return RefusedError(ResponseCode.INVALID_PARAMETER, text)


def not_accepting(broker_name: str, code: ResponseCode = ResponseCode.NO_PERMISSION) -> RefusedError:
    """The broker may not be written at the moment."""
    return RefusedError(code, f"broker {broker_name} does not accept messages at the moment")


def queue_out_of_range(queue_id: int, topic: str, count: int) -> RefusedError:
    text = f"queue id {queue_id} is out of range: topic {topic} has {count} queues"
    return RefusedError(ResponseCode.INVALID_PARAMETER, text)


_CODES: tuple[tuple[type[MQError], ResponseCode], ...] = (  # the first that fits counts
    (AccessDeniedError, ResponseCode.NO_PERMISSION),
    (AccessChangeError, ResponseCode.INVALID_PARAMETER),
    (InvalidNameError, ResponseCode.INVALID_PARAMETER),
    (ConfigError, ResponseCode.INVALID_PARAMETER),
    (MessageRefusedError, ResponseCode.MESSAGE_ILLEGAL),
    (LocalProtocolError, ResponseCode.MESSAGE_ILLEGAL),
    (ProtocolError, ResponseCode.SYSTEM_ERROR),
    (DiskFullError, ResponseCode.SERVICE_NOT_AVAILABLE),
    (StoreReadOnlyError, ResponseCode.SERVICE_NOT_AVAILABLE),
    (StoreClosedError, ResponseCode.SERVICE_NOT_AVAILABLE),
    (PositionOutOfRangeError, ResponseCode.SYSTEM_ERROR),
    (CorruptRecordError, ResponseCode.SYSTEM_ERROR),
    (StoreError, ResponseCode.SYSTEM_ERROR),
)


def refusal_of(error: MQError) -> tuple[ResponseCode, str]:
    """Response code and remark for any error of ours."""
    if isinstance(error, RefusedError):
        return error.code, error.remark
    code = next((code for kind, code in _CODES if isinstance(error, kind)), ResponseCode.SYSTEM_ERROR)
    return code, shortened(str(error), REMARK_CHARACTERS_MAX)
