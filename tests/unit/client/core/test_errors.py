"""Which response becomes which error."""

from __future__ import annotations

from pyromq.client.core.errors import error_of
from pyromq.errors import SystemBusyError, TopicNotFoundError
from pyromq.wire.received import Received


def test_errors_follow_from_response_codes() -> None:
    assert isinstance(error_of(Received(2, {}, remark="slow down")), SystemBusyError)
    missing = error_of(Received(17, {}), topic="t")
    assert isinstance(missing, TopicNotFoundError) and missing.topic == "t"
    assert str(error_of(Received(604, {}))) == "code 604: ILLEGAL_OPERATION"
