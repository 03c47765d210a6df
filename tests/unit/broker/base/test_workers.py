"""The thread that flushes: jobs in order, failures told, nothing left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from pyromq.broker.base.workers import OneThread


@pytest.fixture
def thread() -> OneThread:
    return OneThread("a-thread")


async def test_jobs_run_one_after_the_other_and_the_loop_hears_of_each(thread: OneThread) -> None:
    ran: list[tuple[int, str]] = []
    heard: list[tuple[int, str]] = []
    ended = asyncio.Event()

    def hear(number: int) -> None:
        heard.append((number, threading.current_thread().name))
        if number == 99:
            ended.set()

    for number in range(100):
        thread.run(
            lambda number=number: ran.append((number, threading.current_thread().name)),  # type: ignore[misc]
            lambda error, number=number: hear(number),  # type: ignore[misc]
        )
    assert not heard, "never before run returns"
    await ended.wait()
    thread.shutdown()
    assert ran == [(number, "a-thread") for number in range(100)]
    assert heard == [(number, threading.current_thread().name) for number in range(100)]


@pytest.mark.parametrize("error", [OSError("the disk"), SystemExit(3), KeyboardInterrupt()])
async def test_what_a_job_raises_is_told_and_the_next_one_runs(thread: OneThread, error: BaseException) -> None:
    heard: asyncio.Queue[BaseException | None] = asyncio.Queue()

    def fail() -> None:
        raise error

    thread.run(fail, heard.put_nowait)
    thread.run(lambda: None, heard.put_nowait)
    assert await heard.get() is error
    assert await heard.get() is None
    thread.shutdown()


async def test_a_shutdown_waits_for_the_last_job_and_takes_no_more(thread: OneThread) -> None:
    go, ran = threading.Event(), []
    thread.run(go.wait, lambda error: None)
    thread.run(lambda: ran.append("last"), lambda error: None)
    stopping = asyncio.get_running_loop().run_in_executor(None, thread.shutdown)
    go.set()
    await stopping
    assert ran == ["last"]
    with pytest.raises(RuntimeError, match="a-thread was shut down"):
        thread.run(lambda: None, lambda error: None)
    thread.shutdown()  # again, for nothing


def test_a_job_may_end_behind_its_loop(thread: OneThread) -> None:
    go, ran = threading.Event(), threading.Event()

    async def main() -> None:
        thread.run(go.wait, lambda error: None)
        thread.run(ran.set, lambda error: None)

    asyncio.run(main())
    go.set()
    thread.shutdown()
    assert ran.is_set()


def test_a_process_whose_broker_was_never_stopped_ends_after_the_job_that_runs() -> None:
    code = """
import asyncio, os
from pyromq.broker.base.workers import OneThread
thread = OneThread("a-thread")
def job():
    while not thread._is_down:  # until the interpreter ends, and asks for it
        os.sched_yield()
    print("finished", flush=True)
async def main():
    thread.run(job, lambda error: None)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "finished\n", "")


async def test_a_thread_that_could_not_start_is_started_with_the_next_job(
    thread: OneThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            thread.run(lambda: None, lambda error: None)
    thread.shutdown()
    other, ended = OneThread("another"), asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            other.run(lambda: None, lambda error: None)
    other.run(lambda: None, lambda error: ended.set())
    await ended.wait()
    other.shutdown()
