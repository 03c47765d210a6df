"""Errors of clients beside those in ``pyromq.errors``, and which response of a server becomes which error.

NoRouteError ─┬─ NameServersUnreachableError   it is not known where the topic is
              ├─ TopicNotFoundError            no broker has it, and none may create it
              └─ NoWritableQueueError          brokers have it, but none takes messages
SendFailedError                                every attempt of a send failed; they are attached
BrokerError ──── NoPermissionError, SystemBusyError, GroupNotFoundError, NotFoundError, …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyromq.errors import BrokerError, ConnectFailedError, MQError, RetryAdvice, TransportError
from pyromq.model.message import SendReceipt
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received


class NoRouteError(MQError):
    """It is not known where messages of a topic shall go."""

    retry = RetryAdvice.AFTER_ROUTE_REFRESH


class NameServersUnreachableError(NoRouteError, TransportError):
    """No name server answered: check their addresses, and whether they run."""

    def __init__(self, failures: Sequence[tuple[str, MQError]]) -> None:
        tried = "; ".join(f"{address}: {error}" for address, error in failures)
        super().__init__(f"no name server answered ({tried}). Is one running? Say where with nameservers=…")
        self.failures = tuple(failures)
        self.peer = ",".join(address for address, _ in failures)


class TopicNotFoundError(NoRouteError, BrokerError):
    """Create the topic, or let brokers create topics on their own."""

    def __init__(self, topic: str, remark: str = "") -> None:
        BrokerError.__init__(self, code=ResponseCode.TOPIC_NOT_EXIST, remark=remark or f"no broker has topic {topic}")
        self.topic = topic


class NoWritableQueueError(NoRouteError):
    """Brokers have the topic but none takes messages of it: give it the right to write, or start a master."""

    retry = RetryAdvice.NEVER  # an operator has to act

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic} has no queue to write to: {reason}")
        self.topic = topic


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
        super().__init__(f"message to topic {topic} not confirmed after {count} ({tried}){doubt}")


class NoReplyError(MQError):
    """The request was stored, but no reply came in time."""


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
    """There is no such message or offset."""


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


def _leaves_doubt(attempt: Attempt) -> bool:
    return isinstance(attempt.error, TransportError) and not isinstance(attempt.error, ConnectFailedError)
