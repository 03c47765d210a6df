"""One tree of exceptions: facts attached as attributes, advice on the class.

    MQError ─┬─ ConfigError ───── WrongServerError (a broker where a name server should be)
             ├─ ClientClosedError
             ├─ ProtocolError ─── LocalProtocolError (we misused it), RemoteProtocolError (the peer did)
             │                    InvalidNameError, InvalidExpressionError,
             │                    MessageRefusedError ── MessageTooLargeError, PropertiesTooLargeError,
             │                    SchemaMismatchError (topic, version, field, reason)
             ├─ BodyError (path, expected, reason, excerpt), DeadLetterError (reason)
             ├─ TransportError ── ConnectFailedError, ConnectionLostError, RequestTimeoutError, TooManyRequestsError
             ├─ NoRouteError ──── NameServersUnreachableError, TopicNotFoundError, NoWritableQueueError, NoMasterError
             ├─ SendFailedError (attempts, maybe_stored, sent), NoReplyError, NotPreparedError, NoSuchJobError
             ├─ BrokerError (code, remark) ── NoPermissionError, SystemBusyError, ServiceNotAvailableError,
             │                    GroupNotFoundError, GroupOfflineError, ExpressionRefusedError, NotFoundError,
             │                    LeaseLostError
             └─ StoreError ────── CorruptRecordError, CorruptFileError, OffsetOutOfRangeError, PositionOutOfRangeError,
                                  StoreReadOnlyError ── DiskFullError, UntrustedDiskError; StoreInUseError,
                                  StoreNotFoundError, StoreClosedError, LogGapError, ForeignLogError

``retry`` says whether trying again can help, and where; of a BrokerError that depends on its code
(``client.core.retry_advice``, which is what producers and the pipeline ask). ``pyromq.outbox`` and
``pyromq.idempotent`` have errors of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

if TYPE_CHECKING:
    from pyromq.model.message import SendReceipt

_MESSAGE_ILLEGAL: Final = 13  # wire.codes.ResponseCode
_TOPIC_NOT_EXIST: Final = 17
NO_BROKER: Final = "no broker is registered with the name servers: start one, and tell it where they are"


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


class WrongServerError(ConfigError):
    """The address of a name server is that of another server."""

    def __init__(self, address: str) -> None:
        text = f"{address} is a broker, not a name server; its name server usually listens on port 9876"
        super().__init__(f"{text}: give that address as nameservers")
        self.address = address


class ClientClosedError(MQError):
    """The producer, consumer or client is not open: use it inside its ``with`` block."""


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


class InvalidExpressionError(LocalProtocolError):
    """A tag or SQL expression that asks for nothing at all."""


class MessageRefusedError(LocalProtocolError):
    """A message that no broker would store."""


class SchemaMismatchError(MessageRefusedError):
    """A value does not fit the schema of its topic.

    ``field`` leads to what is wrong (``lines[0].sku``; empty: the value as a whole), ``version`` is that of the schema:
    the number under which the cluster keeps it, or the id in a registry; ``schema`` says which of the two.
    """

    def __init__(self, *, topic: str, version: int, field: str, reason: str, schema: str) -> None:
        self.topic, self.version, self.field, self.reason, self.schema = topic, version, field, reason, schema
        where = f"field {field}: " if field else ""
        super().__init__(f"the value does not fit the schema of topic {topic}, {schema}: {where}{reason}")


class MessageTooLargeError(MessageRefusedError):
    """Send less per message, or raise the limit on the broker."""

    def __init__(self, *, what: str, size_bytes: int, bytes_max: int) -> None:
        super().__init__(f"{what} has {size_bytes} bytes, at most {bytes_max} are allowed")
        self.what = what
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max


class PropertiesTooLargeError(MessageTooLargeError):
    """Move data from properties to the body."""


# --- bodies --------------------------------------------------------------------------------------------------------


class BodyError(MQError):
    """A body is not what was expected of it; the message itself arrived whole.

    ``path`` leads to the field (``$.items[0].price``; empty: the body as a whole), ``expected`` is the type that was
    asked for, ``content_type`` what the message says of itself, ``excerpt`` how the body begins: short, on one line,
    without control characters. ``reason`` and ``summary`` hold no excerpt, for logs and properties.
    """

    def __init__(
        self, *, expected: str, reason: str, path: str = "", content_type: str = "", excerpt: str = ""
    ) -> None:
        self.expected = expected
        self.reason = reason
        self.path = path
        self.content_type = content_type
        self.excerpt = excerpt
        super().__init__(f"{self.summary}; the body begins with {excerpt}" if excerpt else self.summary)

    @property
    def summary(self) -> str:
        """What is wrong, without the excerpt."""
        return f"body is no {self.expected}: {self.reason}{f' at {self.path}' if self.path else ''}"

    def __reduce__(self) -> tuple[object, ...]:
        """It may travel between processes."""
        return _body_error, (self.expected, self.reason, self.path, self.content_type, self.excerpt)


def _body_error(expected: str, reason: str, path: str, content_type: str, excerpt: str) -> BodyError:
    return BodyError(expected=expected, reason=reason, path=path, content_type=content_type, excerpt=excerpt)


class DeadLetterError(MQError):
    """Raised by a listener: no retry can help, the message is a dead letter at once; ``reason`` goes with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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


class TooManyRequestsError(TransportError):
    """Too many requests of this connection wait for a response: wait for some of them, or raise the bound."""

    retry = RetryAdvice.SAME_BROKER

    def __init__(self, *, peer: str, in_flight_max: int) -> None:
        super().__init__(
            f"{in_flight_max} requests to {peer} wait for a response already: await some of them first", peer=peer
        )
        self.in_flight_max = in_flight_max


# --- responses of a server -----------------------------------------------------------------------------------------


class BrokerError(MQError):
    """A server responded with an error code; ``remark`` is its text, as it came."""

    retry = RetryAdvice.LATER  # unless the code says more

    def __init__(self, *, code: int, remark: str) -> None:
        super().__init__(f"code {code}: {printable(remark)}")
        self.code = code
        self.remark = remark


class NoPermissionError(BrokerError):
    """Check credentials, the rights of topic and group, and whether the broker takes messages at all."""


class SystemBusyError(BrokerError):
    """Send more slowly, or add brokers."""


class ServiceNotAvailableError(BrokerError):
    """The broker is full, read-only or going down."""


class GroupNotFoundError(BrokerError):
    """Create the group, or let brokers create groups on their own."""


class ExpressionRefusedError(BrokerError):
    """The broker cannot use an SQL92 expression; its remark says what is wrong with it."""


class GroupOfflineError(BrokerError):
    """No consumer of the group is connected."""


class NotFoundError(BrokerError):
    """There is no such message, offset or broker."""


class LeaseLostError(BrokerError):
    """A received message is not this consumer's any more: it was acknowledged or released before, or its invisible time
    was over and another consumer got it. Whoever has it now settles it."""


# --- routes and sends ----------------------------------------------------------------------------------------------


class NoRouteError(MQError):
    """It is not known where messages of a topic go."""

    retry = RetryAdvice.AFTER_ROUTE_REFRESH


class NameServersUnreachableError(NoRouteError, TransportError):
    """No name server responded: check their addresses, and whether they run."""

    def __init__(self, failures: Sequence[tuple[str, MQError]]) -> None:
        tried = "; ".join(f"{address}: {error}" for address, error in failures)
        super().__init__(f"no name server answered ({tried}). Is one running? Say where with nameservers=…")
        self.failures = tuple(failures)
        self.peer = ",".join(address for address, _ in failures)


class TopicNotFoundError(NoRouteError, BrokerError):
    """Create the topic, or let brokers create topics on their own."""

    def __init__(self, topic: str, remark: str = "") -> None:
        BrokerError.__init__(self, code=_TOPIC_NOT_EXIST, remark=remark or f"no broker has topic {topic}")
        self.topic = topic


class NoWritableQueueError(NoRouteError):
    """Brokers have the topic but none takes messages of it: give it the right to write, or start a master."""

    retry = RetryAdvice.NEVER  # an operator has to act

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic} has no queue to write to: {reason}")
        self.topic = topic


class NoMasterError(NoWritableQueueError):
    """The brokers that would take messages of the topic have replicas, and no master at the moment: one may come."""

    retry = RetryAdvice.AFTER_ROUTE_REFRESH

    def __init__(self, topic: str, reason: str, *, broker: str) -> None:
        super().__init__(topic, reason)
        self.broker = broker


class Attempt(NamedTuple):
    """One try of a send."""

    broker: str
    error: MQError


class SendFailedError(MQError):
    """No broker confirmed the message.

    ``maybe_stored``: a response was lost, so it may be stored all the same; sending again may make two of it.
    ``sent`` are receipts of the parts of a batch that were stored before.
    """

    def __init__(self, topic: str, attempts: Sequence[Attempt], *, sent: Sequence[SendReceipt] = ()) -> None:
        tried = "; ".join(f"{broker}: {error}" for broker, error in attempts)
        self.topic = topic
        self.attempts = tuple(attempts)
        self.sent = tuple(sent)
        self.maybe_stored = any(map(_leaves_doubt, attempts))
        doubt = ". It may be stored all the same: a response was lost" if self.maybe_stored else ""
        count = f"{len(attempts)} attempt{'' if len(attempts) == 1 else 's'}"
        text = f"{_what(topic)} not confirmed after {count} ({tried}){doubt}"
        super().__init__(_refused_text(topic, attempts) or text)


def _what(topic: str) -> str:
    return f"message to topic {topic}"


def _refused_text(topic: str, attempts: Sequence[Attempt]) -> str:
    """What is said of a message that a broker refused as it is, which no other attempt would change."""
    if len(attempts) != 1 or not isinstance(error := attempts[0].error, BrokerError) or error.code != _MESSAGE_ILLEGAL:
        return ""
    return f"{_what(topic)} refused by {attempts[0].broker}: {printable(error.remark)} (code {error.code})"


class NoReplyError(MQError):
    """The request was stored, but no reply came in time."""


class NoSuchJobError(MQError):
    """There is no job with that id: it has expired or never existed."""


class NotPreparedError(MQError):
    """The broker has the message, but not as safely as ``retry_unless_ok`` asks: rolled back, nothing was executed."""

    def __init__(self, receipt: SendReceipt) -> None:
        super().__init__(
            f"prepared message rolled back, nothing was executed: its broker answered {receipt.status.value}"
        )
        self.receipt = receipt


def _leaves_doubt(attempt: Attempt) -> bool:
    return isinstance(attempt.error, TransportError) and not isinstance(attempt.error, ConnectFailedError)


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


class ForeignLogError(StoreError):
    """The log of another broker cannot be continued here: it is cut into other files, or is not the same log."""


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


def require(holds: bool, text: str) -> None:
    """Raise ConfigError with the text unless it holds."""
    if not holds:
        raise ConfigError(text)


def quoted(text: str, characters_max: int = 80) -> str:
    """Foreign text for an error or the log: quoted, control characters escaped, cut when absurdly long."""
    return repr(text) if len(text) <= characters_max else f"{text[:characters_max]!r}… ({len(text)} characters)"


def shortened(text: str, characters_max: int) -> str:
    """Foreign text for a response or a file: as it is, but for the middle of one that is absurdly long."""
    if len(text) <= characters_max:
        return text
    return f"{text[: characters_max * 3 // 4]}… ({len(text)} characters) …{text[-(characters_max // 4) :]}"


def printable(text: str) -> str:
    """Foreign text that a terminal only prints: control characters are escaped, but for line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)
