"""Threads for code of the application: bounded while they run, and at the interpreter's exit."""

from __future__ import annotations

import threading
import time

import pytest

from pyromq.client.core import callback_threads
from pyromq.client.core.callback_threads import CallbackThreads

PATIENCE_S = 60


def pool(threads_max: int = 2) -> CallbackThreads:
    return CallbackThreads(threads_max, "test", what=lambda: "listener shop.pay")


def test_work_is_done_on_as_many_daemons_as_allowed_and_what_it_raises_is_told() -> None:
    threads, names, gate = pool(), set[str](), threading.Barrier(2)

    def work(number: int) -> int:
        gate.wait(PATIENCE_S)
        names.add(threading.current_thread().name)
        assert threading.current_thread().daemon
        return number

    futures = [threads.submit(work, number) for number in range(6)]
    assert [future.result(PATIENCE_S) for future in futures] == list(range(6))
    assert names == {"test_0", "test_1"}
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(PATIENCE_S)
    threads.shutdown(wait=True)
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(print)


def test_a_pool_that_is_shut_down_begins_nothing_more() -> None:
    threads, begun, release = pool(1), threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return release.wait(PATIENCE_S)

    first, second = threads.submit(hold), threads.submit(hold)
    assert begun.wait(PATIENCE_S)
    threads.shutdown(cancel_futures=True)
    assert second.cancelled() and not first.done()
    release.set()
    assert threads.wait(PATIENCE_S) and first.result(PATIENCE_S)


def test_exit_waits_no_longer_than_it_may_and_says_for_what(caplog: pytest.LogCaptureFixture) -> None:
    threads, begun, release = pool(), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(PATIENCE_S)

    held = threads.submit(hold)
    assert begun.wait(PATIENCE_S)
    threads.at_exit(time.monotonic())
    assert "exit does not wait longer for listener shop.pay" in caplog.text
    release.set()
    held.result(PATIENCE_S)
    caplog.clear()
    threads.at_exit(time.monotonic() + PATIENCE_S)
    assert not caplog.text


def test_what_has_not_begun_at_exit_never_begins() -> None:
    threads, begun, release = pool(1), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(PATIENCE_S)

    first, second = threads.submit(hold), threads.submit(hold)
    assert begun.wait(PATIENCE_S)
    threads.at_exit(time.monotonic())
    assert second.cancelled()
    release.set()
    first.result(PATIENCE_S)


def test_pools_wait_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pools, told = [pool() for _ in range(3)], dict[CallbackThreads, float]()
    now = iter(range(1_000))
    monkeypatch.setattr(callback_threads.time, "monotonic", lambda: float(next(now)))  # each look takes a second
    monkeypatch.setattr(CallbackThreads, "at_exit", lambda self, deadline: told.setdefault(self, deadline))
    monkeypatch.setattr(callback_threads, "_pools", set(pools))
    callback_threads._wait_at_exit()
    assert [told[each] for each in pools] == [callback_threads.EXIT_WAIT_S] * 3
