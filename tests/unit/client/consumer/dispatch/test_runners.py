"""Workers that come and go: what arrives while the last of them is leaving is not forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.consumer.dispatch import runners
from pyromq.client.consumer.dispatch.runners import CoroutineRunner, ServiceParts, ThreadRunner
from pyromq.client.consumer.dispatch.send_back_queue import SendBackQueue
from pyromq.client.consumer.rules.outcome import SendBack
from pyromq.client.core.tasks import TaskOwner
from pyromq.testing import ManualClock
from tests.unit.client.messages import FakeMessage

OWNED: Any = SimpleNamespace(is_released=False)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_batch_that_comes_as_the_only_worker_leaves_finds_another() -> None:
    waiting: list[Any] = []
    seen: list[str] = []

    async def listen(message: str) -> None:
        seen.append(message)

    listener: Any = SimpleNamespace(function=listen, takes_one=True, runs={})
    settings: Any = SimpleNamespace(concurrency_max=1)
    parts = ServiceParts(listener, settings, TaskOwner("test"), cast(Any, None), cast(Any, None), ManualClock())
    runner = CoroutineRunner[Any](parts, lambda: waiting.pop(0) if waiting else None, lambda *_: None)

    async def arrive(message: str) -> None:
        waiting.append((OWNED, [message]))
        runner.wake()

    await arrive("first")
    await asyncio.create_task(arrive("second"))  # runs right behind the worker, in the same loop iteration
    await settled()
    assert seen == ["first", "second"]


async def test_a_failed_message_that_comes_as_the_only_worker_leaves_finds_another() -> None:
    sent: list[int] = []

    class SendBacks:
        def begin(self, message: FakeMessage, delay_level: int) -> None: ...

        async def send_back(self, message: FakeMessage, delay_level: int, begun: object = None) -> bool:
            sent.append(message.offset)
            return True

    line = SendBackQueue(cast(Any, SendBacks()), TaskOwner("test"), lambda *_: None, at_once_max=1)

    async def fail(offset: int) -> None:
        line.add(OWNED, [SendBack(cast(Any, FakeMessage(offset)), 0)])

    await fail(1)
    await asyncio.create_task(fail(2))
    await settled()
    assert sent == [1, 2] and await line.drain(1_000)


class NoThreads:
    """A pool for which the system has no thread at first."""

    is_closed = False

    def __init__(self) -> None:
        self.refusals, self.submitted = 2, 0

    def submit(self, work: Callable[[], None]) -> None:
        self.submitted += 1
        if self.submitted <= self.refusals:
            raise RuntimeError("can't start new thread")
        work()


async def test_when_the_system_has_no_thread_it_is_said_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runners, "_NO_THREAD_S", 0.0)
    waiting: list[Any] = [(OWNED, ["first"]), (OWNED, ["second"])]
    seen: list[str] = []
    listener: Any = SimpleNamespace(function=seen.append, takes_one=True, runs={}, pool=NoThreads())
    settings: Any = SimpleNamespace(threads=4)
    parts = ServiceParts(listener, settings, TaskOwner("test"), cast(Any, None), cast(Any, None), ManualClock())
    runner = ThreadRunner[Any](parts, lambda: waiting.pop(0) if waiting else None, lambda *_: None)
    runner.wake()
    async with asyncio.timeout(60):
        while len(seen) < 2:  # noqa: ASYNC110 - timers of the loop are what is waited for
            await asyncio.sleep(0)
    assert sorted(seen) == ["first", "second"] and caplog.text.count("no thread for a listener") == 2
    await settled()
    assert await runner.close(5_000)
    listener.pool.refusals = 99
    waiting.append((OWNED, ["too late"]))
    runner.wake()
    assert caplog.text.count("no thread for a listener") == 2, "a closed pool is no news"
