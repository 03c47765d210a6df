"""What a transaction decides, and which check-back gets an outcome; without a network."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyromq import aio
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import TaskOwner
from pyromq.client.core.transaction import (
    Execution,
    PreparedPlace,
    Transaction,
    TransactionOutcome,
    check_preparable,
    end_header,
    outcome_of,
    place_of_check,
    place_of_receipt,
    prepared_properties,
)
from pyromq.client.transactions.check_backs import CheckBacks, Question
from pyromq.errors import ConfigError, InvalidNameError, MessageRefusedError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.net import Connection
from pyromq.wire.headers.callback import CheckTransactionHeader
from tests.unit.received import received

COMMIT, ROLLBACK, UNKNOWN = TransactionOutcome.COMMIT, TransactionOutcome.ROLLBACK, TransactionOutcome.UNKNOWN
RECEIPT = SendReceipt(SendStatus.SEND_OK, "ID", "7F00000100002A9F0000000000001000", QueueId("T", "broker-a", 1), 7)


def a_transaction() -> Transaction:
    return Transaction(Message("T", b"x"), RECEIPT, place_of_receipt("T", RECEIPT))


# --- decisions ---


def test_the_outcome_goes_to_where_the_receipt_says_the_prepared_message_is() -> None:
    header = end_header("g", place_of_receipt("T", RECEIPT), COMMIT)
    assert (header.tran_state_table_offset, header.commit_log_offset, header.commit_or_rollback) == (7, 0x1000, 8)
    assert (header.msg_id, header.transaction_id, header.from_transaction_check) == ("ID", "ID", False)


def test_the_outcome_of_a_check_goes_to_where_the_check_says() -> None:
    asked = CheckTransactionHeader(tran_state_table_offset=9, commit_log_offset=0x2000, transaction_id="TX")
    header = end_header("g", place_of_check("T", "ID", asked), ROLLBACK)
    assert (header.tran_state_table_offset, header.commit_log_offset, header.commit_or_rollback) == (9, 0x2000, 12)
    assert (header.msg_id, header.transaction_id, header.from_transaction_check) == ("ID", "TX", True)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, COMMIT), (ValueError(), ROLLBACK), (KeyboardInterrupt(), UNKNOWN), (asyncio.CancelledError(), UNKNOWN)],
)
def test_how_a_block_ends_decides(error: BaseException | None, outcome: TransactionOutcome) -> None:
    transaction = a_transaction()
    is_told = transaction.left(error)
    assert transaction.decided is outcome
    assert is_told == (outcome is not UNKNOWN)


@pytest.mark.parametrize("error", [None, ValueError()])
def test_what_was_decided_in_the_block_stands(error: BaseException | None) -> None:
    for decide, outcome in (("commit", COMMIT), ("rollback", ROLLBACK), ("unknown", UNKNOWN)):
        transaction = a_transaction()
        getattr(transaction, decide)()
        transaction.left(error)
        assert transaction.decided is outcome


def test_a_failure_after_its_row_was_recorded_is_unknown() -> None:
    transaction = a_transaction()
    transaction.outcome_if_failed = UNKNOWN
    transaction.left(ValueError())
    assert transaction.decided is UNKNOWN


def test_execute_returns_the_outcome_and_nothing_is_unknown() -> None:
    assert [outcome_of(result) for result in (COMMIT, ROLLBACK, None)] == [COMMIT, ROLLBACK, UNKNOWN]
    with pytest.raises(TypeError, match="not bool"):
        outcome_of(True)
    decided = a_transaction()
    decided.rollback()
    decided.executed(None)
    assert decided.decided is ROLLBACK


@pytest.mark.parametrize("error", [ValueError(), StopIteration()])
def test_an_error_of_execute_is_kept_and_leaves_the_outcome_to_the_check(error: Exception) -> None:
    transaction, abandoned = a_transaction(), list[Transaction]()
    with Execution(transaction, abandoned.append) as execution:
        transaction.commit()
        raise error
    assert execution.error is error and transaction.decided is UNKNOWN and not abandoned


def test_an_interrupt_of_execute_goes_on_and_changes_no_decision() -> None:
    transaction, abandoned = a_transaction(), list[Transaction]()
    with pytest.raises(KeyboardInterrupt), Execution(transaction, abandoned.append):
        transaction.commit()
        raise KeyboardInterrupt
    assert transaction.decided is COMMIT and abandoned == [transaction]


def test_immunity_is_whole_seconds_and_never_less_than_asked() -> None:
    assert dict(prepared_properties("g", 0)) == {"TRAN_MSG": "true", "PGROUP": "g"}
    assert dict(prepared_properties("g", 1_001))["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "2"
    with pytest.raises(ConfigError, match="negative"):
        prepared_properties("g", -1)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("T", b"x", delay_level=3), "both delayed and in a transaction"),
        (Message("T", b"x", delay_ms=5), "both delayed and in a transaction"),
        (Message("T", b"x", deliver_at_ms=5), "both delayed and in a transaction"),
        (Message("T", b"x", wait_stored=False), "must be on disk before"),
        (Message("U", b"x"), r"not among topics=\['T'\]"),
    ],
)
def test_what_cannot_be_in_a_transaction_is_refused_with_its_reason(message: Message, reason: str) -> None:
    with pytest.raises(MessageRefusedError, match=reason):
        check_preparable(message, frozenset(["T"]))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"group": ""}, "it is blank"),
        ({"topics": []}, "topics must name"),
        ({"check": "yes"}, "not 'yes'"),
        ({"check_workers": 0}, "must be positive"),
    ],
)
def test_a_producer_that_could_not_be_asked_is_refused(given: dict[str, Any], reason: str) -> None:
    arguments: dict[str, Any] = {"group": "g", "topics": "T", "check": lambda message: None, **given}
    with pytest.raises((ConfigError, InvalidNameError), match=reason):
        aio.TransactionProducer("127.0.0.1:1", **arguments)


# --- checks ---


class Asked:
    """Checks with their outcomes."""

    def __init__(self, check: Any, *, workers: int = 1, waiting_max: int = 10) -> None:
        self.outcomes: list[tuple[str, int, TransactionOutcome]] = []
        self.checks = CheckBacks(check, self._answer, workers=workers, waiting_max=waiting_max, name="g")
        self.tasks = TaskOwner("test")

    def _answer(self, question: Question, outcome: TransactionOutcome) -> None:
        self.outcomes.append((question.place.transaction_id, question.place.offset, outcome))

    def ask(self, transaction_id: str, offset: int = 0) -> None:
        place = PreparedPlace("T", offset, 0, transaction_id, transaction_id, is_from_check=True)
        self.checks.ask(Question(received(unique_id=transaction_id), place, cast(Connection, None)), self.tasks)


@asynccontextmanager
async def asked(check: Any, *, workers: int = 1, waiting_max: int = 10) -> AsyncIterator[Asked]:
    it = Asked(check, workers=workers, waiting_max=waiting_max)
    yield it
    await it.checks.close(1_000)
    await it.tasks.close()


async def test_a_coroutine_answers_and_so_does_a_function_on_a_thread() -> None:
    threads = []

    async def coroutine(message: ReceivedMessage) -> TransactionOutcome:
        return COMMIT if message.transaction_id == "A" else ROLLBACK

    def function(message: ReceivedMessage) -> TransactionOutcome | None:
        threads.append(threading.current_thread())
        return None

    async with asked(coroutine) as it:
        it.ask("A", 1)
        it.ask("B", 2)
        await it.tasks.drained()
        assert it.outcomes == [("A", 1, COMMIT), ("B", 2, ROLLBACK)]
    async with asked(function) as it:
        it.ask("A", 1)
        await it.tasks.drained()
        assert it.outcomes == [("A", 1, UNKNOWN)]
    assert threads and threading.main_thread() not in threads


@pytest.mark.parametrize("error", [ValueError("broken"), StopIteration(), asyncio.CancelledError()])
async def test_a_check_that_fails_leaves_the_outcome_unknown(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def coroutine(message: ReceivedMessage) -> TransactionOutcome:
        raise error

    def function(message: ReceivedMessage) -> TransactionOutcome:
        raise error

    for check in (coroutine, function) if not isinstance(error, StopIteration) else (function,):
        async with asked(check) as it:
            it.ask("A")
            await it.tasks.drained()
            assert it.outcomes == [("A", 0, UNKNOWN)]
    assert "check failed" in caplog.text


async def test_a_check_that_returns_nonsense_leaves_the_outcome_unknown(caplog: pytest.LogCaptureFixture) -> None:
    async with asked(lambda message: "commit") as it:
        it.ask("A")
        await it.tasks.drained()
        assert it.outcomes == [("A", 0, UNKNOWN)]
    assert "TransactionOutcome was expected, not str" in caplog.text


def held(outcome: TransactionOutcome = COMMIT) -> tuple[Callable[[ReceivedMessage], Any], asyncio.Event, list[str]]:
    gate, called = asyncio.Event(), list[str]()

    async def check(message: ReceivedMessage) -> TransactionOutcome:
        called.append(message.transaction_id)
        await gate.wait()
        return outcome

    return check, gate, called


async def test_one_outcome_of_a_transaction_that_is_asked_about_again_goes_to_the_newest_copy() -> None:
    check, gate, called = held()
    async with asked(check) as it:
        it.ask("A", 1)
        await asyncio.sleep(0)
        it.ask("A", 2)  # while the first is in work
        it.ask("B", 3)
        it.ask("B", 4)  # while the first waits
        gate.set()
        await it.tasks.drained()
        assert it.outcomes == [("A", 2, COMMIT), ("B", 4, COMMIT)]
        assert called == ["A", "B"]
        it.ask("A", 5)  # and later it is asked anew
        await it.tasks.drained()
        assert it.outcomes[-1] == ("A", 5, COMMIT)


async def test_more_than_may_wait_are_left_to_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    check, gate, called = held()
    with caplog.at_level(logging.WARNING):
        async with asked(check, workers=2, waiting_max=3) as it:
            for number in range(5):
                it.ask(f"{number}")
            await asyncio.sleep(0)
            assert called == ["0", "1"]  # as many as there are workers
            gate.set()
            await it.tasks.drained()
            assert {each[0] for each in it.outcomes} == {"0", "1", "2"}
    assert caplog.text.count("left to the broker's next try") == 2


async def test_closing_waits_for_what_has_begun_and_drops_what_waits() -> None:
    check, gate, called = held()
    async with asked(check) as it:
        it.ask("A")
        it.ask("B")
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(gate.set)
        await it.checks.close(5_000)
        assert [each[0] for each in it.outcomes] == called == ["A"]
