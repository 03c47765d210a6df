from __future__ import annotations

from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.errors import (
    Attempt,
    BrokerError,
    ConfigError,
    ConnectionLostError,
    GroupOfflineError,
    InvalidNameError,
    MQError,
    NoSuchJobError,
    NotFoundError,
    RequestTimeoutError,
    SendFailedError,
    StoreInUseError,
    StoreNotFoundError,
    WrongServerError,
)


def test_errors_have_their_exit_codes() -> None:
    assert exit_code_of(StoreNotFoundError()) is ExitCode.NOT_FOUND
    assert exit_code_of(StoreInUseError()) is ExitCode.REFUSED
    assert exit_code_of(ConfigError()) is ExitCode.USAGE
    assert exit_code_of(InvalidNameError(kind="topic", name="a b", reason="blank")) is ExitCode.USAGE
    assert exit_code_of(RequestTimeoutError()) is ExitCode.UNREACHABLE
    assert exit_code_of(BrokerError(code=1, remark="no")) is ExitCode.REFUSED
    assert exit_code_of(BrokerError(code=17, remark="no topic")) is ExitCode.NOT_FOUND
    assert exit_code_of(NoSuchJobError("there is no job 1")) is ExitCode.NOT_FOUND
    assert exit_code_of(MQError()) is ExitCode.REFUSED


def test_a_failed_send_has_the_code_of_its_last_attempt() -> None:
    refused, lost = BrokerError(code=16, remark="no permission"), ConnectionLostError("gone")
    assert exit_code_of(SendFailedError("t", [Attempt("a", refused), Attempt("a", lost)])) is ExitCode.UNREACHABLE
    assert exit_code_of(SendFailedError("t", [Attempt("a", lost), Attempt("a", refused)])) is ExitCode.REFUSED


def test_what_is_not_there_and_what_does_not_answer_differ() -> None:
    assert exit_code_of(NotFoundError(code=211, remark="no broker x")) is ExitCode.NOT_FOUND
    assert exit_code_of(BrokerError(code=211, remark="no broker at all")) is ExitCode.UNREACHABLE
    assert exit_code_of(BrokerError(code=207, remark="the client did not answer")) is ExitCode.UNREACHABLE
    assert exit_code_of(GroupOfflineError(code=206, remark="no member")) is ExitCode.UNREACHABLE
    assert exit_code_of(WrongServerError("127.0.0.1:10911")) is ExitCode.USAGE
