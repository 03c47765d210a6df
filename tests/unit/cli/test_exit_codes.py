from __future__ import annotations

from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.errors import (
    BrokerError,
    ConfigError,
    InvalidNameError,
    MQError,
    RequestTimeoutError,
    StoreInUseError,
    StoreNotFoundError,
)


def test_errors_have_their_exit_codes() -> None:
    assert exit_code_of(StoreNotFoundError()) is ExitCode.NOT_FOUND
    assert exit_code_of(StoreInUseError()) is ExitCode.REFUSED
    assert exit_code_of(ConfigError()) is ExitCode.USAGE
    assert exit_code_of(InvalidNameError(kind="topic", name="a b", reason="blank")) is ExitCode.USAGE
    assert exit_code_of(RequestTimeoutError()) is ExitCode.UNREACHABLE
    assert exit_code_of(BrokerError(code=1, remark="no")) is ExitCode.REFUSED
    assert exit_code_of(BrokerError(code=17, remark="no topic")) is ExitCode.NOT_FOUND
    assert exit_code_of(MQError()) is ExitCode.REFUSED
