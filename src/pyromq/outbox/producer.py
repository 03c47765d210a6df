"""A transaction producer and an outbox, put together for the usual case.

prepared message ──▶ BEGIN ──▶ outbox row, your rows ──▶ COMMIT ──▶ outcome to the broker
crash here:   no row       no row                 row       row       → what every later check reads
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Self, Unpack, cast, overload

from pyromq.client.core.options import TransactionOptions
from pyromq.client.core.settings import TransactionProducerSettings
from pyromq.client.core.transaction import Transaction, TransactionOutcome
from pyromq.client.sync.faces import Client
from pyromq.client.sync.transactions import TransactionProducer
from pyromq.clock import Clock, default_clock
from pyromq.model.message import Message
from pyromq.outbox.outbox import Outbox
from pyromq.typed.messages import NO_VALUE, MessageOptions, as_message

logger = logging.getLogger(__name__)

_PRUNE_MS: Final = 3_600_000


class OutboxProducer:
    """``with OutboxProducer(…) as producer``; arguments as those of ``TransactionProducer``, with an outbox as check.

    Creates the table when it is opened, and prunes it then and every hour that it is used. Raises ConfigError,
    InvalidNameError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: str | Sequence[str],
        outbox: Outbox,
        settings: TransactionProducerSettings | None = None,
        client: Client | None = None,
        clock: Clock | None = None,
        **options: Unpack[TransactionOptions],
    ) -> None:
        self.outbox = outbox
        self.producer = TransactionProducer(
            nameservers,
            group=group,
            topics=topics,
            check=outbox.check,
            settings=settings,
            client=client,
            **options,
        )
        self._clock = clock or default_clock()
        self._pruned_ms = 0

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> Self:
        """Open database and producer. Raises what the database and ``TransactionProducer.open`` raise."""
        self.outbox.create()
        self._prune()
        self.producer.open()
        return self

    def close(self) -> None:
        """Transactions that are still under way are left to other members of the group."""
        self.producer.close()

    @overload
    def transaction(
        self, message: Message, connection: Any = None, *, check_after_ms: int = 0
    ) -> AbstractContextManager[Any]: ...

    @overload
    def transaction(
        self,
        topic: str,
        value: object,
        connection: Any = None,
        /,
        *,
        check_after_ms: int = 0,
        **options: Unpack[MessageOptions],
    ) -> AbstractContextManager[Any]: ...

    def transaction(
        self,
        message: Any,
        *given: Any,
        check_after_ms: int = 0,
        **options: Any,
    ) -> AbstractContextManager[Any]:
        """A database transaction whose end is also the message's: yields the connection to use.

        Without ``connection`` it is one of the outbox's own. Yours is committed at the end of the block and rolled back
        if that raises; it must be fresh, for all that it has not committed yet belongs to the transaction. Raises
        OverdueError, and before the block begins what ``TransactionProducer.send`` raises. Instead of a message there
        may be a topic and a value: ``transaction("orders", order, connection, keys="42")``.
        """
        others = [*given, *([options.pop("connection")] if "connection" in options else [])]
        value = others.pop(0) if isinstance(message, str) and given else NO_VALUE
        if len(others) > 1:
            raise TypeError("it is transaction(message, connection), or transaction(topic, value, connection)")
        made = as_message(message, value, cast(MessageOptions, options))
        return self._block(made, others[0] if others else None, check_after_ms)

    @contextmanager
    def _block(self, message: Message, connection: Any, check_after_ms: int) -> Iterator[Any]:
        if self._clock.monotonic_ms() - self._pruned_ms > _PRUNE_MS:
            self._prune()
        with self.producer.transaction(message, check_after_ms=check_after_ms) as transaction:
            try:
                with self.outbox.database.begin() if connection is None else _ended(connection) as used:
                    self.outbox.record(used, transaction)
                    yield used
            except Exception:  # the application's or any driver's: only the table knows; raised again
                transaction.decided = self._settled(transaction)
                raise

    def _settled(self, transaction: Transaction) -> TransactionOutcome:
        """After a failure the table is asked: a commit that raised may have happened all the same."""
        try:
            return self.outbox.settle(transaction.id, transaction.message.topic)
        except Exception:  # any driver's error must not hide the first one, nor decide anything
            logger.exception("outbox not readable, left to the check: transaction=%s", transaction.id)
            return TransactionOutcome.UNKNOWN

    def _prune(self) -> None:
        self._pruned_ms = self._clock.monotonic_ms()
        self.outbox.prune()


def _ended(connection: Any) -> AbstractContextManager[Any]:
    """Commits the application's own connection at the end, or rolls it back."""

    @contextmanager
    def block() -> Iterator[Any]:
        try:
            yield connection
            connection.commit()
        except BaseException:  # an interrupt must not leave a transaction open; raised again
            connection.rollback()
            raise

    return block()
