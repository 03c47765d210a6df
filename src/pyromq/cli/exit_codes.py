"""Exit codes of ``pyromq``, and which error gets which.

0  done            2  not found        4  unreachable, or no response in time
1  wrong usage     3  refused          5  done in part, or there is something to report
"""

from __future__ import annotations

from enum import IntEnum

from pyromq.errors import (
    BrokerError,
    ConfigError,
    GroupOfflineError,
    LocalProtocolError,
    MQError,
    NoReplyError,
    NoSuchJobError,
    NotFoundError,
    OffsetOutOfRangeError,
    PositionOutOfRangeError,
    RemoteProtocolError,
    SendFailedError,
    StoreNotFoundError,
    TransportError,
)


class ExitCode(IntEnum):
    OK = 0
    USAGE = 1
    NOT_FOUND = 2
    REFUSED = 3
    UNREACHABLE = 4
    PARTIAL = 5
    INTERRUPTED = 130  # as shells count: 128 and the number of the signal
    BROKEN_PIPE = 141


# The first class that fits counts.
_EXIT_CODES: tuple[tuple[type[MQError], ExitCode], ...] = (
    (StoreNotFoundError, ExitCode.NOT_FOUND),
    (OffsetOutOfRangeError, ExitCode.NOT_FOUND),
    (PositionOutOfRangeError, ExitCode.NOT_FOUND),
    (ConfigError, ExitCode.USAGE),
    (LocalProtocolError, ExitCode.USAGE),
    (RemoteProtocolError, ExitCode.UNREACHABLE),
    (TransportError, ExitCode.UNREACHABLE),
    (NoReplyError, ExitCode.UNREACHABLE),
    (NotFoundError, ExitCode.NOT_FOUND),
    (NoSuchJobError, ExitCode.NOT_FOUND),
    (GroupOfflineError, ExitCode.UNREACHABLE),
    (BrokerError, ExitCode.REFUSED),
    (MQError, ExitCode.REFUSED),
)

_NOT_FOUND_CODES = (17, 22, 26, 208)  # response codes: no such topic; offset or message; group; message
_UNREACHABLE_CODES = (207, 211)  # a client did not answer the broker; name servers know no broker, or no master


def exit_code_of(error: MQError) -> ExitCode:
    if isinstance(error, SendFailedError) and error.attempts:
        return exit_code_of(error.attempts[-1].error)
    if isinstance(error, BrokerError) and error.code in _NOT_FOUND_CODES:
        return ExitCode.NOT_FOUND
    if type(error) is BrokerError and error.code in _UNREACHABLE_CODES:
        return ExitCode.UNREACHABLE
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
