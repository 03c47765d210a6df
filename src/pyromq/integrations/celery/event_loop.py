"""Kombu's event loop, woken from other threads."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

_TICK_S: Final = 0.1  # how long an acknowledgement of another thread may wait for the event loop


class EventLoopWaker:
    """Wakes Kombu's event loop from other threads: a byte through a pair of sockets."""

    def __init__(self, loop: Any, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        loop.add_reader(self._here, self._woken)
        self._tick = loop.call_repeatedly(_TICK_S, _nothing)

    def wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; or closed a moment ago
            self._there.send(b"\0")

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            while self._here.recv(4096):
                pass
        self._callback()

    def close(self) -> None:
        self._tick.cancel()
        self._loop.remove(self._here)
        self._here.close()
        self._there.close()


def _nothing() -> None:
    """Pools of threads leave acknowledgements to the event loop without waking it."""
