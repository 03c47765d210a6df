"""A block in which an app runs: ``with`` on the loop thread of sync clients, ``async with`` on the running loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyromq.app.run import Run
from pyromq.client.sync.loop_thread import LoopThread, loop_thread
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.app.app import App


class Running:
    """``with app.running(broker.nameserver): …``; gives the app."""

    def __init__(self, app: App, nameservers: str | Sequence[str], instance: str) -> None:
        self._app = app
        self._nameservers = nameservers
        self._instance = instance
        self._thread: LoopThread | None = None

    def __enter__(self) -> App:
        if self._thread is not None:
            raise ConfigError("this block is entered already")
        thread = loop_thread()
        thread.acquire()
        try:
            thread.call(self._app.begin(Run(self._app, self._nameservers, self._instance, thread)))
        except BaseException:  # also Ctrl-C must not keep the thread alive; raised again
            thread.release()
            raise
        self._thread = thread
        return self._app

    def __exit__(self, *exc_info: object) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        try:
            thread.call(self._app.end())
        finally:
            thread.release()

    async def __aenter__(self) -> App:
        await self._app.begin(Run(self._app, self._nameservers, self._instance))
        return self._app

    async def __aexit__(self, *exc_info: object) -> None:
        await self._app.end()
