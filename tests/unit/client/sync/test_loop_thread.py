"""One loop in one thread: there while it is used, and never in the caller's way."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.sync import loop_thread
from pyromq.client.sync.loop_thread import LoopThread, Waiter
from pyromq.errors import ClientClosedError, MQError


async def name_of_thread() -> str:
    return threading.current_thread().name


def test_the_thread_lives_while_it_has_users() -> None:
    loop = LoopThread()
    loop.acquire()
    loop.acquire()
    assert loop.call(name_of_thread()) == "pyromq-client"
    loop.release()
    assert loop.call(name_of_thread()) == "pyromq-client"
    loop.release()
    with pytest.raises(ClientClosedError, match="no client is open"):
        loop.call(name_of_thread())
    loop.acquire()  # and again
    assert loop.call(name_of_thread()) == "pyromq-client"
    loop.release()


def test_what_the_work_raises_is_raised_where_it_was_called() -> None:
    async def fail() -> None:
        raise MQError("no")

    loop = LoopThread()
    loop.acquire()
    with pytest.raises(MQError, match="no"):
        loop.call(fail())
    loop.release()


def test_a_call_from_the_loop_itself_is_refused_rather_than_waiting_forever() -> None:
    loop = LoopThread()

    async def call_again() -> None:
        loop.call(name_of_thread())

    loop.acquire()
    with pytest.raises(ClientClosedError, match="wait for itself"):
        loop.call(call_again())
    loop.release()


def test_whoever_waits_when_the_loop_ends_is_told_so() -> None:
    loop = LoopThread()
    loop.acquire()
    outcome: list[BaseException] = []
    begun = threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            loop.call(forever())
        except ClientClosedError as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    begun.wait(60)
    loop.end()
    waiting.join(60)
    assert len(outcome) == 1


class Leaving:
    """Between the look whether a loop is there and the hand-over to it, the last user leaves."""

    def __init__(self, line: LoopThread) -> None:
        self._line, self.left = line, threading.Thread(target=line.release)

    def __enter__(self) -> None:
        inner = self._line._loop
        assert inner is not None
        hand_over = inner.call_soon_threadsafe

        def slow(*arguments: Any) -> object:
            if not self.left.ident and threading.current_thread() is not self.left:
                self.left.start()
                self.left.join(0.2)  # as far as it comes
            return hand_over(*arguments)

        self._line._loop = cast(Any, SimpleNamespace(call_soon_threadsafe=slow))

    def __exit__(self, *exc_info: object) -> None:
        self.left.join(60)


def test_a_call_that_comes_as_the_last_user_leaves_is_answered() -> None:
    loop = LoopThread()
    loop.acquire()
    outcome: list[BaseException | str] = []

    def call() -> None:
        try:
            outcome.append(loop.call(name_of_thread()))
        except BaseException as error:  # whatever it is, it is an answer
            outcome.append(error)

    with Leaving(loop):
        calling = threading.Thread(target=call, daemon=True)
        calling.start()
        calling.join(60)
    assert not calling.is_alive(), "it hangs"
    assert isinstance(outcome[0], ClientClosedError | str), repr(outcome[0])


def test_calls_that_race_with_leaving_are_all_answered() -> None:
    for _ in range(60):
        loop = LoopThread()
        loop.acquire()
        answers: list[object] = []

        def call_until_it_ends(loop: LoopThread = loop, answers: list[object] = answers) -> None:
            try:
                while True:
                    loop.call(name_of_thread())
            except ClientClosedError as error:
                answers.append(error)

        callers = [threading.Thread(target=call_until_it_ends, daemon=True) for _ in range(3)]
        for caller in callers:
            caller.start()
        loop.release()
        for caller in callers:
            caller.join(60)
        assert len(answers) == 3


def test_a_loop_that_cannot_be_made_is_an_error_and_not_a_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files_left() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    loop = LoopThread()
    monkeypatch.setattr(loop_thread, "new_event_loop", no_files_left)
    with pytest.raises(OSError, match="Too many open files"):
        loop.acquire()
    monkeypatch.undo()
    loop.acquire()
    assert loop.call(name_of_thread()) == "pyromq-client"
    loop.release()
    with pytest.raises(ClientClosedError):
        loop.call(name_of_thread())


def test_ctrl_c_after_the_loop_has_ended_stays_what_it_is() -> None:
    class Interrupted(Waiter[None]):
        def wait(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LoopThread().wait_for(Interrupted(), lambda: None)


def test_clients_live_on_the_thread_that_was_chosen_when_they_were_opened() -> None:
    other = LoopThread()
    before = loop_thread.use_loop_thread(other)
    try:
        assert loop_thread.loop_thread() is other
    finally:
        assert loop_thread.use_loop_thread(before) is other
    assert loop_thread.loop_thread() is before


def test_a_wait_is_over_when_its_result_is_there_also_if_that_is_none() -> None:
    async def result() -> None:
        waiter: Waiter[None] = Waiter()
        assert not waiter.is_over
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        waiter.settle(future)
        assert waiter.is_over and waiter.wait() is None

    asyncio.run(result())
    failed: Waiter[None] = Waiter()
    failed.fail(MQError("no"))
    assert failed.is_over
