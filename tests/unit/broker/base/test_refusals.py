from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.broker.base.refusals import RefusedError, refusal_of
from pyromq.errors import (
    ConfigError,
    CorruptRecordError,
    DiskFullError,
    InvalidNameError,
    LocalProtocolError,
    MessageTooLargeError,
    MQError,
    PropertiesTooLargeError,
    RemoteProtocolError,
    RequestTimeoutError,
    StoreClosedError,
    UntrustedDiskError,
)
from pyromq.wire.codes import ResponseCode


def kinds(root: type[MQError]) -> Iterator[type[MQError]]:
    yield root
    for kind in root.__subclasses__():
        yield from kinds(kind)


def made(kind: type[MQError]) -> MQError:
    """An error of any kind, whatever its constructor wants to know."""
    return kind.__new__(kind, "what happened")


OTHERS = {kind for kind in kinds(MQError) if not issubclass(kind, RefusedError)}
KINDS = sorted(OTHERS, key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_becomes_a_refusal_with_a_remark(kind: type[MQError]) -> None:
    code, remark = refusal_of(made(kind))
    assert code in ResponseCode and code is not ResponseCode.SUCCESS
    assert "what happened" in remark


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (InvalidNameError, ResponseCode.INVALID_PARAMETER),
        (ConfigError, ResponseCode.INVALID_PARAMETER),
        (MessageTooLargeError, ResponseCode.MESSAGE_ILLEGAL),
        (PropertiesTooLargeError, ResponseCode.MESSAGE_ILLEGAL),
        (LocalProtocolError, ResponseCode.MESSAGE_ILLEGAL),
        (RemoteProtocolError, ResponseCode.SYSTEM_ERROR),
        (DiskFullError, ResponseCode.SERVICE_NOT_AVAILABLE),
        (UntrustedDiskError, ResponseCode.SERVICE_NOT_AVAILABLE),
        (StoreClosedError, ResponseCode.SERVICE_NOT_AVAILABLE),
        (CorruptRecordError, ResponseCode.SYSTEM_ERROR),
        (RequestTimeoutError, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_codes_are_those_that_clients_act_upon(kind: type[MQError], code: ResponseCode) -> None:
    assert refusal_of(made(kind))[0] is code


def test_a_refusal_keeps_its_own_code_and_remark() -> None:
    refused = RefusedError(ResponseCode.NO_PERMISSION, "not now", {"forbiddenType": "1"})
    assert refusal_of(refused) == (ResponseCode.NO_PERMISSION, "not now")
    assert refused.ext == {"forbiddenType": "1"} and str(refused) == "not now"
