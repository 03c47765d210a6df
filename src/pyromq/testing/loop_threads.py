"""Loops of a LoopbackBroker in a ``with`` block: one for the servers alone, or one that sync clients share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from pyromq.client.sync.loop_thread import LoopThread, Waiter
from pyromq.testing.virtual_time import VirtualTime

T = TypeVar("T")


class Done(Awaitable[None]):
    """Awaitable that is over already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class ServerThread(LoopThread):
    """Thread of servers in real time."""

    name = "pyromq-loopback"

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()


class VirtualLoopThread(LoopThread):
    """The thread of sync clients and servers with virtual time: time passes while somebody waits for a call."""

    def __init__(self, virtual_time: VirtualTime) -> None:
        super().__init__()
        self._time = virtual_time
        virtual_time.has_callers = lambda: virtual_time.jobs.has_callers

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop()
        self._time.install(loop)
        return loop

    def wait_for(self, waiter: Waiter[T], cancel: Any) -> T:
        with self._time.jobs.calling(waiter):
            return super().wait_for(waiter, cancel)


async def called(function: Callable[[], T]) -> T:
    """On the loop that awaits it."""
    return function()
