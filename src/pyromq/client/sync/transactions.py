"""Transactions for code without asyncio.

    with producer.transaction(Message("orders", b"42")) as transaction:
        write_to_database(transaction.id)

``execute`` and the block run on the calling thread, where its database connection is at home; ``check`` runs on a
thread for checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeAlias, Unpack, overload

from pyromq.client.core.options import TransactionOptions
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.settings import TransactionProducerSettings
from pyromq.client.core.transaction import Execution, Transaction, TransactionOutcome, TransactionReceipt
from pyromq.client.producer.send_arguments import TransactionArguments, ValueTransactionArguments
from pyromq.client.sync.faces import Client, Face, inner_client
from pyromq.client.transactions import transaction_producer as aio_transactions
from pyromq.client.transactions.given_arguments import LaterMessage, message_and_arguments, send_arguments
from pyromq.client.transactions.transaction_producer import require_function
from pyromq.errors import ClientClosedError
from pyromq.model.message import Message
from pyromq.typed.messages import NO_VALUE

SyncExecute: TypeAlias = Callable[[Transaction], TransactionOutcome | None]


class TransactionProducer(Face[aio_transactions.TransactionProducer]):
    """Sends messages in transactions: they are seen if and only if something else happened.

    ``check(message)`` is called on a thread when a broker has heard no outcome: it returns a TransactionOutcome, None
    for "not yet known". ``topics`` are all that the producer may send to. ``confirm=True`` waits for the broker's
    response to every outcome; see ``TransactionOptions``, and ``TransactionProducerSettings`` for the rest. The group
    does nothing else. The other arguments are those of ``Producer``.

    Raises ConfigError, InvalidNameError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: str | Sequence[str],
        check: Callable[[ReceivedMessage], TransactionOutcome | None],
        settings: TransactionProducerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[TransactionOptions],
    ) -> None:
        require_function("check", check)
        inner = aio_transactions.TransactionProducer(
            nameservers,
            group=group,
            topics=topics,
            check=check,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)

    @overload
    def send(
        self, message: Message, execute: SyncExecute, argument: Any = None, **how: Unpack[TransactionArguments]
    ) -> TransactionReceipt: ...

    @overload
    def send(
        self, topic: str, value: object, execute: SyncExecute, /, **how: Unpack[ValueTransactionArguments]
    ) -> TransactionReceipt: ...

    def send(
        self, message: Any, execute: Any, argument: Any = None, **how: Unpack[ValueTransactionArguments]
    ) -> TransactionReceipt:
        """Prepares the message, calls ``execute(transaction)`` here and tells the broker the outcome that it returns.

        Instead of a message there may be a topic and a value: ``send("orders", order, execute)``.
        ``transaction.argument`` is ``argument``. Nothing returned is UNKNOWN, and so is an exception: it is logged and
        stands in the receipt. ``check_after_ms`` keeps the broker from asking before. Raises NotPreparedError, and what
        ``Producer.send`` raises; then ``execute`` was not called.
        """
        message, execute, argument, arguments = send_arguments(self.inner.values, message, execute, argument, how)
        require_function("execute", execute)
        transaction = self._run(self.inner.prepare(message, argument, **arguments))
        with Execution(transaction, self._abandon) as execution:
            transaction.executed(execute(transaction))
        return self._finish(transaction, execution.error)

    @overload
    def transaction(
        self, message: Message, **how: Unpack[TransactionArguments]
    ) -> AbstractContextManager[Transaction]: ...

    @overload
    def transaction(
        self, topic: str, value: object, /, **how: Unpack[ValueTransactionArguments]
    ) -> AbstractContextManager[Transaction]: ...

    def transaction(
        self, message: Any, value: object = NO_VALUE, **how: Unpack[ValueTransactionArguments]
    ) -> AbstractContextManager[Transaction]:
        """A block of local work between prepared message and outcome; raises as ``send`` does before it begins.

        Leaving it normally is COMMIT, an exception ROLLBACK, unless the transaction was decided otherwise. An interrupt
        (Ctrl-C) is UNKNOWN. Where your own commit may fail without saying whether it happened, call
        ``transaction.unknown()`` before it and ``transaction.commit()`` after it.
        """
        return self._block(*message_and_arguments(self.inner.values, message, value, how))

    @contextmanager
    def _block(self, message: Message | LaterMessage, arguments: dict[str, Any]) -> Iterator[Transaction]:
        transaction = self._run(self.inner.prepare(message, **arguments))
        error: BaseException | None = None
        try:
            yield transaction
        except BaseException as caught:  # how the block was left decides the outcome; raised again
            error = caught
            raise
        finally:
            if transaction.left(error):
                self._finish(transaction)
            else:
                self._abandon(transaction)

    def _finish(self, transaction: Transaction, error: Exception | None = None) -> TransactionReceipt:
        try:
            return self._run(self.inner.finish(transaction, error))
        except ClientClosedError as closed:  # meanwhile: the broker will ask another member of the group
            outcome = transaction.decided or TransactionOutcome.UNKNOWN
            transaction.receipt = TransactionReceipt(outcome, transaction.prepared, error, closed)
            return transaction.receipt

    def _abandon(self, transaction: Transaction) -> None:
        with suppress(ClientClosedError):
            self._open_thread().soon(self.inner.abandon, transaction)
