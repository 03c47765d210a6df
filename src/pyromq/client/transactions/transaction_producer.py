"""The transaction producer on asyncio: messages that are seen if and only if something else happened.

    async with TransactionProducer(
        "10.0.0.1:9876", group="orders-service", topics=["orders"], check=is_paid
    ) as producer:
        async with producer.transaction(Message("orders", b"42")) as transaction:
            await write_to_database(transaction.id)     # leaving normally commits, an exception rolls back

Brokers that hear no outcome ask a producer of the group, any of them, also one that was started a moment ago:
``check(message)`` tells the outcome of ``message.transaction_id`` from lasting data. For that a producer makes itself
known to the brokers of its topics when it is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, Self, TypeAlias, Unpack, overload

from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.options import (
    SendOptions,
    TransactionOptions,
    check_callable,
    check_options,
    checked_group,
    with_given,
)
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.retry_advice import is_broker_away
from pyromq.client.core.settings import TransactionProducerSettings
from pyromq.client.core.transaction import (
    Execution,
    Transaction,
    TransactionOutcome,
    TransactionReceipt,
    check_preparable,
    end_header,
    place_of_check,
    place_of_receipt,
    prepared_properties,
)
from pyromq.client.producer.selectors import QueueSelector
from pyromq.client.producer.send_arguments import TransactionArguments, ValueTransactionArguments
from pyromq.client.transactions.check_backs import Check, CheckBacks, Question
from pyromq.client.transactions.given_arguments import LaterMessage, message_and_arguments, send_arguments
from pyromq.client.transactions.prepared_producer import PreparedProducer
from pyromq.errors import BrokerError, ConfigError, MQError, NotPreparedError, TooManyRequestsError, TransportError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendStatus
from pyromq.model.names import validate_topic
from pyromq.model.queue import QueueId
from pyromq.model.times import given_timeout_ms
from pyromq.net import Backoff, Connection
from pyromq.typed.listeners import is_coroutine_function
from pyromq.typed.messages import NO_VALUE
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.property_text import join_items

logger = logging.getLogger(__name__)

Execute: TypeAlias = (
    Callable[[Transaction], TransactionOutcome | None] | Callable[[Transaction], Awaitable[TransactionOutcome | None]]
)

_UNKNOWN: Final = TransactionOutcome.UNKNOWN
_PAUSE: Final = Backoff(first_ms=50, ceiling_ms=500)
_DOUBLINGS_MAX: Final = 10


class TransactionProducer:
    """Sends messages in transactions, in the name of a group that does nothing else.

    ``check(message)`` is a coroutine, or a function that is called on a thread; it returns a TransactionOutcome, None
    for "not yet known". ``topics`` are all that the producer may send to. ``confirm=True`` waits for the broker's
    response to every outcome; see ``TransactionOptions``, and ``TransactionProducerSettings`` for the rest. The other
    arguments are those of ``Producer``.

    Raises ConfigError, InvalidNameError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: str | Sequence[str],
        check: Check,
        settings: TransactionProducerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[TransactionOptions],
    ) -> None:
        check_options("TransactionProducer", options, TransactionOptions, TransactionProducerSettings)
        timeout_ms = given_timeout_ms(options.get("timeout_ms"), options.pop("timeout", None))
        chosen = with_given(TransactionProducerSettings, settings, {**options, "timeout_ms": timeout_ms})
        group = checked_group(group)
        check_callable("check", check, "a message")
        self.topics = frozenset([topics] if isinstance(topics, str) else topics)
        if not self.topics:
            raise ConfigError("topics must name what this producer sends to: their brokers ask it for outcomes")
        for topic in self.topics:
            validate_topic(topic)
        self._prepared = PreparedProducer(
            self.topics,
            self._on_check,
            nameservers,
            group=group,
            settings=chosen,
            client=client,
            **{name: value for name, value in options.items() if name in SendOptions.__optional_keys__},
        )
        self.client = self._prepared.client
        self.values = self._prepared.values
        self.group = self._prepared.group
        self.settings = chosen
        self._confirm = chosen.confirm
        self._checks = CheckBacks(
            check, self._respond, workers=chosen.check_workers, waiting_max=chosen.checks_max, name=group
        )
        self._under_way: dict[str, Transaction] = {}

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Makes itself known to the brokers of its topics, as far as they can be reached. Raises ClientClosedError."""
        await self._prepared.open()
        try:
            await self._prepared.register()
        except BaseException:  # what was never open is not closed later; raised again
            await self._prepared.close()
            raise
        return self

    async def close(self) -> None:
        """Transactions that are still under way are left to other members of the group."""
        if self.client.is_open:
            await self._checks.close(self.client.settings.close_timeout_ms)
        await self._prepared.close()

    # --- sending ---

    @overload
    async def send(
        self, message: Message, execute: Execute, argument: Any = None, **how: Unpack[TransactionArguments]
    ) -> TransactionReceipt: ...

    @overload
    async def send(
        self, topic: str, value: object, execute: Execute, /, **how: Unpack[ValueTransactionArguments]
    ) -> TransactionReceipt: ...

    async def send(
        self, message: Any, execute: Any, argument: Any = None, **how: Unpack[ValueTransactionArguments]
    ) -> TransactionReceipt:
        """Prepares the message, calls ``execute(transaction)`` and tells the broker the outcome that it returns.

        Instead of a message there may be a topic and a value: ``send("orders", order, execute)``. ``execute`` is a
        coroutine, or a function that is called on a thread; ``transaction.argument`` is ``argument``.
        Nothing returned is UNKNOWN, and so is an exception: it is logged and stands in the receipt. ``check_after_ms``
        keeps the broker from asking before. Raises NotPreparedError, and what ``Producer.send`` raises; then
        ``execute`` was not called.
        """
        message, execute, argument, arguments = send_arguments(self.values, message, execute, argument, how)
        transaction = await self.prepare(message, argument, **arguments)
        with Execution(transaction, self.abandon) as execution:
            is_coroutine = is_coroutine_function(execute)
            result: Any = await (execute(transaction) if is_coroutine else asyncio.to_thread(execute, transaction))
            transaction.executed(result)
        return await self.finish(transaction, execution.error)

    @overload
    def transaction(
        self, message: Message, **how: Unpack[TransactionArguments]
    ) -> AbstractAsyncContextManager[Transaction]: ...

    @overload
    def transaction(
        self, topic: str, value: object, /, **how: Unpack[ValueTransactionArguments]
    ) -> AbstractAsyncContextManager[Transaction]: ...

    def transaction(
        self, message: Any, value: object = NO_VALUE, **how: Unpack[ValueTransactionArguments]
    ) -> AbstractAsyncContextManager[Transaction]:
        """A block of local work between prepared message and outcome; raises as ``send`` does before it begins.

        Leaving it normally is COMMIT, an exception ROLLBACK, unless the transaction was decided otherwise. An interrupt
        (cancellation, Ctrl-C) is UNKNOWN. Where your own commit may fail without saying whether it happened, call
        ``transaction.unknown()`` before it and ``transaction.commit()`` after it.
        """
        return self._block(*message_and_arguments(self.values, message, value, how))

    @asynccontextmanager
    async def _block(self, message: Message | LaterMessage, arguments: dict[str, Any]) -> AsyncIterator[Transaction]:
        transaction = await self.prepare(message, **arguments)
        error: BaseException | None = None
        try:
            yield transaction
        except BaseException as caught:  # how the block was left decides the outcome; raised again
            error = caught
            raise
        finally:
            if transaction.left(error):
                await self.finish(transaction)
            else:
                self.abandon(transaction)

    # --- step by step, for faces ---

    async def prepare(
        self,
        message: Message | LaterMessage,
        argument: Any = None,
        *,
        check_after_ms: int = 0,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """The prepared message is stored; ``finish`` must follow. Raises as ``send`` does."""
        if callable(message):
            message = await message()
        check_preparable(message, self.topics)
        system = join_items(prepared_properties(self.group, check_after_ms))
        receipt = await self._prepared.send_prepared(message, system, queue, selector, timeout_ms)
        place = place_of_receipt(self.client.wire_name(message.topic), receipt)
        transaction = Transaction(message, receipt, place, argument)
        if receipt.status is not SendStatus.SEND_OK and self.settings.retry_unless_ok:
            transaction.rollback()
            await self.finish(transaction)
            raise NotPreparedError(receipt)
        self._under_way[place.transaction_id] = transaction
        return transaction

    async def finish(self, transaction: Transaction, error: Exception | None = None) -> TransactionReceipt:
        """Reports to the broker what was decided. Raises nothing: what cannot be reported now will be asked about."""
        outcome = transaction.decided or _UNKNOWN
        unreported: MQError | None = None
        try:
            await self._report(transaction, outcome)
            if self._prepared.tracer is not None:
                self._prepared.tracer.transaction_ended(transaction.place, outcome, transaction.message)
        except MQError as caught:
            unreported = caught
            facts = (transaction.id, outcome.name, caught)
            logger.warning("outcome not told, the broker will ask: transaction=%s outcome=%s error=%s", *facts)
        finally:
            self._under_way.pop(transaction.place.transaction_id, None)
        confirmed = self._confirm and unreported is None and outcome is not _UNKNOWN
        transaction.receipt = TransactionReceipt(outcome, transaction.prepared, error, unreported, confirmed)
        return transaction.receipt

    def abandon(self, transaction: Transaction) -> None:
        """After an interrupt: says what was decided if that takes no waiting, else the broker will ask."""
        self._under_way.pop(transaction.place.transaction_id, None)
        with suppress(MQError):
            connection = self.client.master_link(transaction.prepared.queue.broker).ready
            if connection is not None and transaction.decided is not None:
                header = self.client.signer.signed(end_header(self.group, transaction.place, transaction.decided))
                connection.request_oneway(RequestCode.END_TRANSACTION, header)

    async def _report(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        """With ``confirm``, until a broker has it, as long as a send would wait for one that is away; else once.

        Told twice it is one; Apache's brokers make a second copy of what is committed twice. Raises MQError.
        """
        began_ms, pauses = self.client.clock.monotonic_ms(), 0
        while True:
            try:
                return await self._report_once(transaction, outcome)
            except MQError as error:
                left_ms = began_ms + self.settings.longest_ms - self.client.clock.monotonic_ms()
                if not self._confirm or left_ms <= 0 or not _may_have_moved(error):
                    raise
                pause_ms = _PAUSE.delay_ms(pauses, self.client.rng)
                logger.info("outcome not told, trying again: transaction=%s error=%s", transaction.id, error)
            self.client.routes.refresh_soon(transaction.place.topic)
            pauses = min(pauses + 1, _DOUBLINGS_MAX)
            await asyncio.sleep(min(pause_ms, left_ms) / 1000)

    async def _report_once(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        link = self.client.master_link(transaction.prepared.queue.broker)
        timeout_ms = self.settings.answer_ms
        header = self.client.signer.signed(end_header(self.group, transaction.place, outcome))
        if not self._confirm or outcome is _UNKNOWN:  # brokers do not answer to UNKNOWN
            connection = link.ready or await link.connection(timeout_ms=timeout_ms)
            connection.request_oneway(RequestCode.END_TRANSACTION, header)
            return
        response = await link.request(RequestCode.END_TRANSACTION, header, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response)

    # --- check-backs ---

    def _on_check(self, message: ReceivedMessage, header: CheckTransactionHeader, connection: Connection) -> None:
        message_id = message.get(names.UNIQUE_KEY) or header.msg_id or message.message_id
        place = place_of_check(message.stored_topic, message_id, header)
        transaction = self._under_way.get(place.transaction_id)
        if transaction is not None:  # undecided still, so there is nothing to say but where the outcome has to go now
            transaction.place = place
            return
        self._checks.ask(Question(message, place, connection), self.client.tasks)

    def _respond(self, question: Question, outcome: TransactionOutcome) -> None:
        header = self.client.signer.signed(end_header(self.group, question.place, outcome))
        try:
            question.connection.request_oneway(RequestCode.END_TRANSACTION, header)
            if self._prepared.tracer is not None:
                self._prepared.tracer.transaction_ended(question.place, outcome, question.message)
        except MQError as error:
            facts = (question.place.transaction_id, error)
            logger.warning("check-back not answered, the broker will ask again: transaction=%s error=%s", *facts)


def _may_have_moved(error: MQError) -> bool:
    """Whether another broker may be the master by now, or this one again: it is away, silent, or a replica."""
    if isinstance(error, BrokerError):
        return is_broker_away(error) or error.code == ResponseCode.SLAVE_NOT_AVAILABLE
    return isinstance(error, TransportError) and not isinstance(error, TooManyRequestsError)


def require_function(what: str, given: object) -> None:
    """Check that a function is no coroutine function. Raises ConfigError."""
    if callable(given) and is_coroutine_function(given):
        raise ConfigError(f"{what} of this producer is a function; pyromq.aio.TransactionProducer runs coroutines")
