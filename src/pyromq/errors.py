"""One tree of exceptions: facts attached as attributes, advice on the class.

    MQError ─┬─ ProtocolError ─── LocalProtocolError (we misused it), RemoteProtocolError (the peer did)
             │                    InvalidNameError, MessageRefusedError ── MessageTooLargeError, PropertiesTooLargeError
             ├─ TransportError ── ConnectFailedError, ConnectionLostError, RequestTimeoutError
             ├─ BrokerError (code, remark)
             ├─ StoreError ────── CorruptRecordError, CorruptFileError, OffsetOutOfRangeError, PositionOutOfRangeError,
             │                    StoreReadOnlyError ── DiskFullError, UntrustedDiskError; StoreInUseError,
             │                    StoreNotFoundError, StoreClosedError, LogGapError
             └─ ClientClosedError, ConfigError

``retry`` tells whether trying again can help, and where; of a BrokerError that depends on its code
(``client.core.retry_advice``, which is what producers and the pipeline ask).
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class RetryAdvice(Enum):
    """Where a failed request may be tried again."""

    NEVER = "never"
    LATER = "after a while"
    SAME_BROKER = "same broker"  # nothing was done, and nothing speaks against this one
    ANY_BROKER = "any broker"  # another one at once, or this one a moment later
    OTHER_BROKER = "other broker"  # this one refuses for good
    AFTER_ROUTE_REFRESH = "after route refresh"


class MQError(Exception):
    """Root of everything PyroMQ raises on purpose."""

    retry: ClassVar[RetryAdvice] = RetryAdvice.NEVER


class ConfigError(MQError):
    """A setting or a configuration file cannot be used as it is."""


class ClientClosedError(MQError):
    """The client was closed; open a new one."""


# --- protocol ------------------------------------------------------------------------------------------------------


class ProtocolError(MQError):
    """Bytes or values that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """This side tried to send something that the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent, or a file holds, bytes that cannot be decoded; a connection that raises it has to be closed."""


class InvalidNameError(LocalProtocolError):
    """A topic or group name that RocketMQ would refuse."""

    def __init__(self, *, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{kind} name {quoted(name)} is not allowed: {reason}")
        self.kind = kind
        self.name = name
        self.reason = reason


class MessageRefusedError(LocalProtocolError):
    """A message that no broker would store."""


class MessageTooLargeError(MessageRefusedError):
    """Send less per message, or raise the limit on the broker."""

    def __init__(self, *, what: str, size_bytes: int, bytes_max: int) -> None:
        super().__init__(f"{what} has {size_bytes} bytes, at most {bytes_max} are allowed")
        self.what = what
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max


class PropertiesTooLargeError(MessageTooLargeError):
    """Move data from properties to the body."""


# --- transport -----------------------------------------------------------------------------------------------------


class TransportError(MQError):
    """The network, not the protocol, failed; ``peer`` is ``host:port``."""

    retry = RetryAdvice.ANY_BROKER

    def __init__(self, message: str = "", *, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer


class ConnectFailedError(TransportError):
    """No connection could be opened."""


class ConnectionLostError(TransportError):
    """The connection ended while a response was awaited."""


class RequestTimeoutError(TransportError):
    """No response within the time allowed; the request may have been carried out."""

    def __init__(self, message: str = "", *, peer: str = "", code: int = 0, timeout_ms: int = 0) -> None:
        super().__init__(message, peer=peer)
        self.code = code
        self.timeout_ms = timeout_ms


# --- error responses -----------------------------------------------------------------------------------------------


class BrokerError(MQError):
    """A server answered with an error code."""

    retry = RetryAdvice.LATER  # unless the code says more

    def __init__(self, *, code: int, remark: str) -> None:
        super().__init__(f"code {code}: {remark}")
        self.code = code
        self.remark = remark


# --- store ---------------------------------------------------------------------------------------------------------


class StoreError(MQError):
    """The message store could not do what was asked."""


class StoreNotFoundError(StoreError):
    """There is no store in that folder."""


class StoreInUseError(StoreError):
    """Another process has the store open."""


class StoreClosedError(StoreError):
    """The store was closed."""


class StoreReadOnlyError(StoreError):
    """The store accepts no messages at the moment; it can still be read."""


class DiskFullError(StoreReadOnlyError):
    """Free space or add a disk; the store becomes writable again by itself."""


class UntrustedDiskError(StoreReadOnlyError):
    """A flush failed, so the kernel may have dropped data: check the disk, then reopen the store."""


class LogGapError(StoreError):
    """A commit log file between two others is missing or has the wrong size: restore it from a replica or a backup."""


class CorruptFileError(StoreError):
    """A file that cannot be rebuilt from the log is damaged, and so is its backup copy."""


class CorruptRecordError(StoreError):
    """The bytes at a log position are not the record that was written there."""

    def __init__(self, *, position: int, reason: str) -> None:
        super().__init__(f"record at position {position} is damaged: {reason}")
        self.position = position
        self.reason = reason


class PositionOutOfRangeError(StoreError):
    """No record starts at that place of the log."""

    def __init__(self, *, requested: int, first: int, end: int) -> None:
        super().__init__(f"position {requested} is outside [{first}, {end})")
        self.requested = requested
        self.first = first
        self.end = end


class OffsetOutOfRangeError(StoreError):
    """No message of the queue has that offset."""

    def __init__(self, *, requested: int, first: int, end: int) -> None:
        super().__init__(f"offset {requested} is outside [{first}, {end})")
        self.requested = requested
        self.first = first
        self.end = end


def quoted(text: str, characters_max: int = 80) -> str:
    """Foreign text for an error or the log: quoted, control characters escaped, cut when absurdly long."""
    return repr(text) if len(text) <= characters_max else f"{text[:characters_max]!r}… ({len(text)} characters)"
