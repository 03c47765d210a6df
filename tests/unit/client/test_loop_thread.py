"""One loop in one thread: there while it is used, and never in the caller's way."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyromq.client.loop_thread import LoopThread
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
    begun.wait(5)
    loop.end()
    waiting.join(5)
    assert len(outcome) == 1
