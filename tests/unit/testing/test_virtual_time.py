from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.testing import ManualClock
from pyromq.testing.virtual_time import CALM_MS, NotSettledError, VirtualTime

DAY_MS = 86_400_000


class Server:
    """Has one message that is due at a time, and notes when it was let go."""

    def __init__(self, clock: ManualClock, due_ms: int = 1 << 62) -> None:
        self._clock = clock
        self._due_ms = due_ms
        self.released_ms: list[int] = []
        self.undecided = False
        self.leaps = 0

    def next_due_ms(self, until_ms: int) -> int:
        return until_ms if self.released_ms else min(self._due_ms, until_ms)

    def look(self) -> None:
        if not self.released_ms and self._clock.now_ms() >= self._due_ms:
            self.released_ms.append(self._clock.now_ms())

    def log_end(self) -> int:
        return len(self.released_ms)

    def is_undecided(self) -> bool:
        return self.undecided

    def leapt(self) -> None:
        self.leaps += 1


def run(test: Callable[[VirtualTime], Coroutine[Any, Any, None]], *, settle_s_max: float = 30) -> VirtualTime:
    virtual = VirtualTime(ManualClock(0), settle_s_max=settle_s_max)

    async def inside() -> None:
        virtual.install(asyncio.get_running_loop())
        try:
            with virtual.jobs.counted():
                await test(virtual)
        finally:
            virtual.uninstall()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(inside())
    return virtual


async def ticking() -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def test_sleeps_and_timeouts_end_in_the_order_of_their_times() -> None:
    async def test(virtual: VirtualTime) -> None:
        ended: list[tuple[str, int]] = []

        async def sleep(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            ended.append((name, virtual.clock.now_ms()))

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("c", 7_200), ("a", 0.25), ("b", 30)):
                group.create_task(sleep(name, seconds))
        assert ended == [("a", 250), ("b", 30_000), ("c", 7_200_000)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        assert virtual.clock.now_ms() == 7_260_000

    run(test)


def test_no_time_passes_when_the_loop_settles() -> None:
    async def test(virtual: VirtualTime) -> None:
        task = asyncio.create_task(ticking())
        done = asyncio.create_task(asyncio.to_thread(lambda: "saved"))
        await virtual.settle()
        assert done.done() and virtual.clock.now_ms() == 0
        task.cancel()

    run(test)


def test_time_waits_for_jobs_on_threads() -> None:
    async def test(virtual: VirtualTime) -> None:
        go, seen = threading.Event(), []
        loop = asyncio.get_running_loop()

        def listen() -> None:
            go.wait()
            loop.call_soon_threadsafe(lambda: seen.append(virtual.clock.now_ms()))

        with ThreadPoolExecutor(1) as pool:
            pool.submit(listen)
            advanced = asyncio.create_task(virtual.advance(1_000))
            loop.call_soon(go.set)
            await advanced
        assert seen == [0] and virtual.clock.now_ms() == 1_000

    run(test)


def test_a_job_that_does_not_end_is_told_of() -> None:
    async def test(virtual: VirtualTime) -> None:
        go = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(go.wait)
            with pytest.raises(NotSettledError, match="listener"):
                await virtual.advance(1_000)
            go.set()

    run(test, settle_s_max=0)


def test_a_step_ends_where_a_message_is_due() -> None:
    async def test(virtual: VirtualTime) -> None:
        server = Server(virtual.clock, 12_345)
        virtual.servers = [server]
        task = asyncio.create_task(ticking())
        await virtual.advance(12_344)
        assert server.released_ms == []
        await virtual.advance(1)
        assert server.released_ms == [12_345]
        task.cancel()

    run(test)


def test_calm_time_is_leapt_over_up_to_what_is_due() -> None:
    async def test(virtual: VirtualTime) -> None:
        clock, server = virtual.clock, Server(virtual.clock, 20 * DAY_MS + 7)
        virtual.servers = [server]
        task = asyncio.create_task(ticking())
        await virtual.advance(30 * DAY_MS)
        assert server.released_ms == [20 * DAY_MS + 7]
        assert clock.now_ms() == 30 * DAY_MS
        assert server.leaps and CALM_MS <= clock.monotonic_ms() < 2 * CALM_MS
        await virtual.advance(CALM_MS, leap=False)
        assert clock.monotonic_ms() >= 2 * CALM_MS
        task.cancel()

    run(test)


@pytest.mark.parametrize("reason", ["undecided", "sleep", "listener", "not wanted"])
def test_time_is_not_leapt_over_while(reason: str) -> None:
    async def test(virtual: VirtualTime) -> None:
        server = Server(virtual.clock)
        virtual.servers = [server]
        server.undecided = reason == "undecided"
        name = "listener" if reason == "listener" else "other"
        task = asyncio.create_task(asyncio.sleep(3_600 if reason == "sleep" else 30), name=name)
        if reason == "listener":
            task.cancel()
            task = asyncio.create_task(ticking(), name=name)
        await virtual.advance(3_600_000, leap=reason != "not wanted")
        assert not server.leaps and virtual.clock.monotonic_ms() == 3_600_000
        task.cancel()

    run(test)


def test_the_same_sequence_takes_the_same_steps() -> None:
    def steps() -> list[int]:
        found: list[int] = []

        async def note(clock: ManualClock) -> None:
            while True:
                await asyncio.sleep(7.5)
                found.append(clock.now_ms())

        async def test(virtual: VirtualTime) -> None:
            tasks = [asyncio.create_task(each) for each in (note(virtual.clock), ticking())]
            await virtual.advance(60_000)
            for task in tasks:
                task.cancel()

        run(test)
        return found

    assert steps() == steps() == [7_500 * number for number in range(1, 9)]


def test_the_real_time_comes_back() -> None:
    async def test(virtual: VirtualTime) -> None:
        await virtual.advance(DAY_MS)

    async def outside() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        timer = loop.call_later(DAY_MS, lambda: None)
        virtual = VirtualTime(ManualClock())
        virtual.install(loop)
        later = loop.call_later(5, lambda: None)
        await virtual.advance(3_000)
        virtual.uninstall()
        assert loop.time() - before < DAY_MS / 2_000
        assert later.when() - loop.time() < 3 and timer.when() > loop.time() + DAY_MS / 2

    run(test)
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(outside())


async def test_only_a_selector_loop_can_have_it() -> None:
    with pytest.raises(ConfigError, match="uvloop"):
        VirtualTime(ManualClock()).install(asyncio.get_running_loop())


def test_jobs_of_others_do_not_count() -> None:
    virtual = VirtualTime(ManualClock())
    go = threading.Event()
    with virtual.jobs.counted(), ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait)
        assert not virtual.jobs.is_running
        go.set()
    assert ThreadPoolExecutor.submit.__qualname__ == "ThreadPoolExecutor.submit"
