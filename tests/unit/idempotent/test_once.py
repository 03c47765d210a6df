"""Listeners that do nothing the second time: functions, coroutines, batches, transactions."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from pyromq import ConsumeStatus, OrderlyStatus, ReceivedMessage
from pyromq.databases import execute
from pyromq.errors import ConfigError
from pyromq.idempotent import InProgressError, Marks, keys, once, once_for_batch, once_in_transaction
from pyromq.idempotent.once import done_count, succeeded
from pyromq.results import BatchResult, OrderlyResult
from tests.unit.received import received

SUCCESS, RETRY = ConsumeStatus.SUCCESS, ConsumeStatus.RETRY


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Marks]:
    marks = Marks(tmp_path / "marks.db", scope="billing")
    yield marks
    marks.close()


def m(number: int) -> ReceivedMessage:
    return received(b"%d" % number, unique_id=f"ID-{number}")


# --- one message ---


def test_a_listener_is_called_once(marks: Marks) -> None:
    seen: list[bytes] = []

    def bill(message: ReceivedMessage) -> None:
        seen.append(message.body)

    listener = once(bill, marks)
    assert [listener(m(1)), listener(m(1)), listener(m(2))] == [None] * 3
    assert seen == [b"1", b"2"]
    assert listener.__name__ == "bill" and not inspect.iscoroutinefunction(listener)


async def test_a_coroutine_is_called_once_and_stays_one(marks: Marks) -> None:
    seen: list[bytes] = []

    async def bill(message: ReceivedMessage) -> ConsumeStatus:
        seen.append(message.body)
        return SUCCESS

    listener = once(bill, marks)
    assert inspect.iscoroutinefunction(listener)
    assert [await listener(m(1)), await listener(m(1))] == [SUCCESS, None]
    assert seen == [b"1"]


@pytest.mark.parametrize("verdict", [RETRY, OrderlyStatus.SUSPEND, OrderlyStatus.ROLLBACK, BatchResult(RETRY), 0, "no"])
def test_what_failed_is_called_again(marks: Marks, verdict: Any) -> None:
    results = [verdict, SUCCESS, SUCCESS]
    listener = once(lambda message: results.pop(0), marks)
    assert [listener(m(1)), listener(m(1)), listener(m(1))] == [verdict, SUCCESS, None]
    assert results == [SUCCESS]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
async def test_what_raised_is_called_again(marks: Marks, error: type[BaseException]) -> None:
    calls: list[int] = []

    def bill(message: ReceivedMessage) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error

    async def bill_soon(message: ReceivedMessage) -> None:
        bill(message)

    listener = once(bill, marks)
    with pytest.raises(error):
        listener(m(1))
    listener(m(1))
    assert len(calls) == 2
    if error is ValueError:
        calls.clear()
        with pytest.raises(error):
            await once(bill_soon, marks)(m(2))
        await once(bill_soon, marks)(m(2))
        assert len(calls) == 2


async def test_a_cancelled_coroutine_gives_its_claim_back(marks: Marks) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def bill(message: ReceivedMessage) -> None:
        begun.set()
        await never.wait()

    task = asyncio.create_task(once(bill, marks)(m(1)))  # type: ignore[arg-type]
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marks.claim("ID-1") is not None


async def test_a_duplicate_while_the_first_is_in_progress_is_no_success(marks: Marks) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def bill(message: ReceivedMessage) -> None:
        begun.set()
        await gate.wait()

    listener = once(bill, marks)
    first = asyncio.create_task(listener(m(1)))  # type: ignore[arg-type]
    await begun.wait()
    with pytest.raises(InProgressError):
        await listener(m(1))
    gate.set()
    await first
    assert await listener(m(1)) is None


def test_the_key_may_be_a_function(marks: Marks) -> None:
    seen: list[bytes] = []
    listener = once(lambda message: seen.append(message.body), marks, key=lambda message: message.body[:1].decode())
    for body in (b"a1", b"a2", b"b1"):
        listener(received(body, unique_id=body.decode()))
    assert seen == [b"a1", b"b1"]


def test_which_verdicts_are_success() -> None:
    good = (None, SUCCESS, OrderlyStatus.SUCCESS, OrderlyStatus.COMMIT, BatchResult(), OrderlyResult())
    bad = (RETRY, OrderlyStatus.SUSPEND, OrderlyStatus.ROLLBACK, BatchResult(RETRY), True, 0, "")
    assert [succeeded(verdict) for verdict in (*good, *bad)] == [True] * len(good) + [False] * len(bad)
    assert [done_count(BatchResult(ack_index=index), 3) for index in (-1, 0, 2, 9)] == [0, 1, 3, 3]
    assert done_count(BatchResult(RETRY, ack_index=1), 3) == 0


# --- batches ---


def test_a_batch_listener_gets_what_was_not_consumed_before(marks: Marks) -> None:
    calls: list[list[bytes]] = []

    def bill(messages: list[ReceivedMessage]) -> None:
        calls.append([message.body for message in messages])

    listener = once_for_batch(bill, marks)
    listener([m(1), m(2)])
    listener([m(2), m(3), m(3), m(1)])
    assert listener([m(3), m(1)]) is None
    assert calls == [[b"1", b"2"], [b"3"]]


def test_places_of_a_result_are_those_of_the_whole_batch(marks: Marks) -> None:
    results = [SUCCESS, BatchResult(SUCCESS, ack_index=0, delay_levels={1: 5, 2: 7}), SUCCESS]
    calls: list[list[bytes]] = []

    def bill(messages: list[ReceivedMessage]) -> Any:
        calls.append([message.body for message in messages])
        return results.pop(0)

    listener = once_for_batch(bill, marks)
    listener([m(2)])
    # 2 is consumed; of 1, 3, 4 only 1 succeeds: in the whole batch everything before 3 is done
    answer = listener([m(1), m(2), m(3), m(4)])
    assert answer == BatchResult(SUCCESS, ack_index=1, delay_levels={2: 5, 3: 7})
    assert listener([m(1), m(3), m(4)]) is SUCCESS
    assert calls == [[b"2"], [b"1", b"3", b"4"], [b"3", b"4"]]


def test_a_result_for_all_says_so_in_the_whole_batch(marks: Marks) -> None:
    listener = once_for_batch(lambda messages: BatchResult(SUCCESS, ack_index=len(messages) - 1), marks)
    listener([m(2)])
    assert listener([m(1), m(2)]) == BatchResult(SUCCESS)


def test_a_batch_with_something_in_progress_comes_again_whole(marks: Marks) -> None:
    calls: list[list[bytes]] = []
    listener = once_for_batch(lambda messages: calls.append([message.body for message in messages]), marks)
    elsewhere = marks.claim("ID-2")
    assert elsewhere is not None
    with pytest.raises(InProgressError):
        listener([m(1), m(2)])
    assert calls == []
    marks.finish(elsewhere)
    listener([m(1), m(2)])
    assert calls == [[b"1"]]


async def test_a_batch_coroutine_that_fails_gets_all_again(marks: Marks) -> None:
    calls: list[list[bytes]] = []

    async def bill(messages: list[ReceivedMessage]) -> None:
        calls.append([message.body for message in messages])
        if len(calls) == 1:
            raise ValueError

    listener = once_for_batch(bill, marks)
    with pytest.raises(ValueError):
        await listener([m(1), m(2)])
    await listener([m(1), m(2)])
    assert calls == [[b"1", b"2"]] * 2


# --- in a transaction ---


@pytest.fixture(params=["sqlite3", "sqlalchemy"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Marks]:
    path = tmp_path / "app.db"
    marks = Marks(path if request.param == "sqlite3" else sqlalchemy.create_engine(f"sqlite:///{path}"), scope="b")
    with marks.database.begin() as connection:
        execute(connection, "CREATE TABLE bills (id INTEGER)", {})
    yield marks
    marks.close()


def bills(marks: Marks) -> list[int]:
    with marks.database.begin() as connection:
        return [row[0] for row in execute(connection, "SELECT id FROM bills ORDER BY id", {}).rows]


def test_effect_and_mark_are_committed_together(shared: Marks) -> None:
    verdicts: list[Any] = [ValueError("mine"), RETRY, None, None]

    def bill(message: ReceivedMessage, connection: Any) -> Any:
        execute(connection, "INSERT INTO bills VALUES (:id)", {"id": int(message.body)})
        verdict = verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    listener = once_in_transaction(bill, shared)
    with pytest.raises(ValueError, match="mine"):
        listener(m(1))
    assert listener(m(1)) is RETRY
    assert bills(shared) == []
    assert [listener(m(1)), listener(m(1)), listener(m(2))] == [None] * 3
    assert bills(shared) == [1, 2]


def test_of_two_transactions_at_once_the_second_sees_the_first_and_does_nothing(
    shared: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a database where the second looks before the first has committed, and is refused when it writes."""
    find = shared._find

    def bill(message: ReceivedMessage, connection: Any) -> None:
        execute(connection, "INSERT INTO bills VALUES (1)", {})

    listener = once_in_transaction(bill, shared)
    listener(m(1))
    monkeypatch.setattr(shared, "_find", lambda connection, hash_: None)
    assert listener(m(1)) is None
    monkeypatch.setattr(shared, "_find", find)
    assert bills(shared) == [1]


def test_coroutines_use_a_transaction_of_their_own(shared: Marks) -> None:
    async def bill(message: ReceivedMessage, connection: Any) -> None: ...

    with pytest.raises(ConfigError, match="run_sync"):
        once_in_transaction(bill, shared)  # type: ignore[arg-type]


# --- interrupted ---


async def test_who_is_cancelled_while_claiming_holds_nothing_afterwards(
    marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    claim_all = marks.claim_all

    def slow(keys: Any) -> Any:
        began.set()
        go_on.wait(60)
        claims = claim_all(keys)
        ended.set()
        return claims

    async def bill(message: ReceivedMessage) -> None: ...

    listener = once(bill, marks)
    monkeypatch.setattr(marks, "claim_all", slow)
    task = asyncio.ensure_future(listener(m(1)))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)
    monkeypatch.undo()
    assert marks.claim(keys.message_key(m(1))) is not None, "it is free again"


def test_when_what_succeeded_cannot_be_marked_the_others_are_free_all_the_same(
    marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no database")

    monkeypatch.setattr(marks, "finish", refuse)
    listener = once_for_batch(lambda messages: BatchResult(ack_index=0), marks)
    with pytest.raises(OSError, match="no database"):
        listener([m(1), m(2)])
    assert marks.claim(keys.message_key(m(2))) is not None
