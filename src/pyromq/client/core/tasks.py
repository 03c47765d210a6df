"""Tasks with an owner: none outlives it, none fails unseen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from pyromq.errors import ClientClosedError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TaskOwner:
    """Starts tasks until it is closed, and ends those that are left then.

    Unlike ``asyncio.TaskGroup`` it does not end all of them when one fails: a failure is logged.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> asyncio.Task[Any]:
        """Start a task that ends with its owner. Raises ClientClosedError."""
        if self._is_closed:
            work.close()
            raise ClientClosedError(f"{self._name} was closed; open a new one")
        task = asyncio.get_running_loop().create_task(work, name=name or None)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def drained(self) -> None:
        """Waits until none is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancels what still runs and waits for its end."""
        self._is_closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task failed: owner=%s task=%s", self._name, task.get_name(), exc_info=error)


def this_task() -> asyncio.Task[Any]:
    """The task that runs the caller."""
    task = asyncio.current_task()
    assert task is not None, "coroutines are run by tasks"
    return task


async def gather(work: list[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all together and return their results; the first failure is raised when all are over."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
