"""Transactional message: prepared at a broker, not visible before its outcome is COMMIT.

    prepare ──▶ prepared message at the broker ──▶ local work ──▶ END_TRANSACTION (outcome) ──▶ visible, or forgotten
                     └─ no outcome for a while ──▶ CHECK_TRANSACTION_STATE to any producer of the group ──▶ outcome

A broker that asks first appends a copy of the prepared message, and only the newest copy counts from then on: its
``PreparedPlace``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Self

import msgspec

from pyromq.errors import ConfigError, MessageRefusedError, MQError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.headers.producer import EndTransactionHeader
from pyromq.wire.message_id import decode_offset_id

logger = logging.getLogger(__name__)


class TransactionOutcome(Enum):
    """How a transaction ended; the numbers travel."""

    COMMIT = 8
    ROLLBACK = 12
    UNKNOWN = 0  # not known here and now: the broker will ask


class PreparedPlace(msgspec.Struct, frozen=True):
    """Where the broker has the prepared message."""

    topic: str  # of the message itself, as servers know it
    offset: int
    position: int
    message_id: str
    transaction_id: str
    is_from_check: bool = False


def place_of_receipt(topic: str, receipt: SendReceipt) -> PreparedPlace:
    """Where the prepared message of a receipt lies. Raises MalformedMessageIdError for an id that leads nowhere."""
    position = decode_offset_id(receipt.offset_message_id)[1]
    return PreparedPlace(
        topic, receipt.offset, position, receipt.message_id, receipt.transaction_id or receipt.message_id
    )


def place_of_check(topic: str, message_id: str, header: CheckTransactionHeader) -> PreparedPlace:
    offset, position = header.tran_state_table_offset, header.commit_log_offset
    return PreparedPlace(topic, offset, position, message_id, header.transaction_id or message_id, is_from_check=True)


def end_header(group: str, place: PreparedPlace, outcome: TransactionOutcome) -> EndTransactionHeader:
    return EndTransactionHeader(
        topic=place.topic,
        producer_group=group,
        tran_state_table_offset=place.offset,
        commit_log_offset=place.position,
        commit_or_rollback=outcome.value,
        from_transaction_check=place.is_from_check,
        msg_id=place.message_id,
        transaction_id=place.transaction_id,
    )


class Transaction:
    """One that is under way. ``id`` is what its check will be asked about; write it down with your own data.

    ``commit``, ``rollback`` and ``unknown`` decide; the broker is informed when the block or ``execute`` ends.
    """

    def __init__(self, message: Message, prepared: SendReceipt, place: PreparedPlace, argument: Any = None) -> None:
        self.message = message
        self.prepared = prepared
        self.argument = argument
        self.place = place  # the newest that is known
        self.decided: TransactionOutcome | None = None
        self.outcome_if_failed = TransactionOutcome.ROLLBACK  # when the block raises before anything was decided
        self.receipt: TransactionReceipt | None = None  # once it is over

    @property
    def id(self) -> str:
        """What ``check`` will find as ``message.transaction_id``."""
        return self.prepared.message_id

    def commit(self) -> None:
        """Consumers will see the message."""
        self.decided = TransactionOutcome.COMMIT

    def rollback(self) -> None:
        """Roll back: consumers will never see the message."""
        self.decided = TransactionOutcome.ROLLBACK

    def unknown(self) -> None:
        """Leave it to the check."""
        self.decided = TransactionOutcome.UNKNOWN

    def left(self, error: BaseException | None) -> bool:
        """The block ended: normally is COMMIT, with an error ROLLBACK; an interrupt may have come at any point.

        True when there is time to tell the outcome, which there is not after an interruption.
        """
        is_interrupted = error is not None and not isinstance(error, Exception)
        if self.decided is None and error is None:
            self.decided = TransactionOutcome.COMMIT
        elif self.decided is None:
            self.decided = TransactionOutcome.UNKNOWN if is_interrupted else self.outcome_if_failed
        return not is_interrupted

    def executed(self, result: Any) -> None:
        """What ``execute`` returned, or else decided, or else UNKNOWN. Raises TypeError for what is no outcome."""
        if result is not None or self.decided is None:
            self.decided = outcome_of(result)


class Execution:
    """Around the call of ``execute``: what it raises is kept as ``error`` and leaves the outcome to the check.

    An interrupt goes on its way, and ``abandon`` is called with the transaction.
    """

    def __init__(self, transaction: Transaction, abandon: Callable[[Transaction], None]) -> None:
        self._transaction = transaction
        self._abandon = abandon
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, Exception):
            logger.error("execute failed, left to the check: transaction=%s", self._transaction.id, exc_info=error)
            self._transaction.unknown()  # how far it came is not known
            self.error = error
        elif error is not None:
            self._abandon(self._transaction)
        return self.error is not None


class TransactionReceipt(msgspec.Struct, frozen=True):
    """How a transaction ended here.

    ``error`` is what ``execute`` raised; the outcome is UNKNOWN then. ``unreported`` is why the broker has not heard
    the outcome: it will ask. ``confirmed`` says that the broker has acted on it, if that was waited for.
    """

    outcome: TransactionOutcome
    prepared: SendReceipt
    error: Exception | None = None
    unreported: MQError | None = None
    confirmed: bool = False

    @property
    def message_id(self) -> str:
        return self.prepared.message_id

    @property
    def transaction_id(self) -> str:
        return self.prepared.message_id


def outcome_of(result: Any) -> TransactionOutcome:
    """None is UNKNOWN. Raises TypeError for what is no outcome."""
    if result is None:
        return TransactionOutcome.UNKNOWN
    if isinstance(result, TransactionOutcome):
        return result
    raise TypeError(f"a TransactionOutcome was expected, not {type(result).__name__}")


def prepared_properties(group: str, check_after_ms: int) -> list[tuple[str, str]]:
    """What makes a message a prepared one. Raises ConfigError."""
    if check_after_ms < 0:
        raise ConfigError(f"check_after_ms must not be negative: {check_after_ms}")
    properties = [(names.PREPARED, "true"), (names.PRODUCER_GROUP, group)]
    if check_after_ms:
        seconds = -(-check_after_ms // 1000)  # whole ones, not fewer than asked
        properties.append((names.CHECK_IMMUNITY, str(seconds)))
    return properties


def check_preparable(message: Message, topics: frozenset[str]) -> None:
    """Check that a message can be sent in a transaction. Raises MessageRefusedError."""
    if message.topic not in topics:
        text = f"topic {message.topic} is not among topics={sorted(topics)} of this producer"
        raise MessageRefusedError(f"{text}; name it there, so that its brokers know whom to ask after a restart")
    if message.delay_level or message.delay_ms or message.deliver_at_ms:
        text = "a message cannot be both delayed and in a transaction"
        raise MessageRefusedError(f"{text}: its commit makes it visible. Use Outbox.begin, or send it later")
    if not message.wait_stored:
        text = "a message in a transaction must be on disk before the local work begins"
        raise MessageRefusedError(f"{text}: leave wait_stored as it is")
