"""Threads beside the loop that work when a test tells them to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from pyromq.broker.base.workers import Job, Then
from tests.unit.net.fakes import turn


class HeldThread:
    """In place of ``OneThread``: keeps its jobs until ``work`` or ``work_unheard``."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Job, Then]] = []
        self.done = 0

    def run(self, job: Job, then: Then) -> None:
        self.waiting.append((job, then))

    def work_unheard(self) -> None:
        """Do the next job; its owner hears of it in the next loop iteration."""
        job, then = self.waiting.pop(0)
        self.done += 1
        asyncio.get_running_loop().call_soon(then, failure_of(job))

    async def work(self) -> None:
        """Do the next job, and let its owner hear of it."""
        self.work_unheard()
        await turn()


class PromptThread:
    """In place of ``OneThread``: has always just finished."""

    def run(self, job: Job, then: Then) -> None:
        asyncio.get_running_loop().call_soon(then, failure_of(job))


def failure_of(job: Job) -> BaseException | None:
    try:
        job()
    except BaseException as error:
        return error
    return None


class HeldExecutor(Executor):
    """Keeps its work until ``work``."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        return future

    async def work(self) -> None:
        """Do the next piece of work, and let its owner hear of it."""
        future, fn, args = self.waiting.pop(0)
        self.done += 1
        try:
            future.set_result(fn(*args))
        except OSError as error:
            future.set_exception(error)
        await turn()
