"""A name server and a broker in this process, with the real protocol, for tests.

    with LoopbackBroker() as broker:            # or: async with LoopbackBroker() as broker
        with Producer(broker.nameserver, group="shop") as producer: ...

Messages are kept in a temporary folder, in small files, and are gone at the end. In a ``with`` block the servers run on
a loop of their own in a thread; in an ``async with`` block on the running loop.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.clock import Clock, SystemClock
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.store.settings import StoreSettings

SMALL_FILES = StoreSettings(
    segment_bytes=8 << 20, queue_file_entries=10_000, index_slots=10_000, index_entries=50_000, full_percent=100
)
_START_S_MAX = 30


class LoopbackBroker:
    """``nameserver`` and ``address`` say where to connect; ``broker`` is the server itself (on its own loop).

    ``folder`` keeps the messages of a test for the next one. ``clock`` may be a ManualClock, so that delays need no
    waiting; ``delay_levels_ms`` says how long delay levels (and with them retries) take: ``(20,) * 18`` is quick.
    Raises ConfigError, and what starting a broker raises.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        folder: Path | None = None,
        clock: Clock | None = None,
        delay_levels_ms: Sequence[int] | None = None,
    ) -> None:
        settings = settings or BrokerSettings(store=SMALL_FILES)
        if delay_levels_ms is not None:
            settings = replace(settings, store=replace(settings.store, delay_ladder_ms=tuple(delay_levels_ms)))
        self._settings = replace(settings, port=0)
        self._folder = folder
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.nameserver = ""
        self.address = ""

    # --- on the running loop ---

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:  # what has started must not outlive a failed start; raised again
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        folder = self._folder
        if folder is None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-test-")))
        names = await self._stack.enter_async_context(NameServer(NameServerSettings(port=0), clock=self._clock))
        self.nameserver = str(names.address)
        settings = replace(self._settings, nameservers=(self.nameserver,))
        self.broker = await self._stack.enter_async_context(Broker(settings, folder, clock=self._clock))
        self.address = str(self.broker.address)

    # --- on a loop of its own ---

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> None:
        """What ``with`` does at its beginning; ``close`` must follow."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pyromq-loopback", daemon=True)
        self._thread.start()
        try:
            self._call(self.__aenter__())
        except BaseException:  # nor must the thread; raised again
            self._end_loop()
            raise

    def close(self) -> None:
        """What ``with`` does at its end."""
        try:
            self._call(self._stack.aclose())
        finally:
            self._end_loop()

    def _call(self, coroutine: Any) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_START_S_MAX)

    def _end_loop(self) -> None:
        assert self._loop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_S_MAX)
        self._loop.close()
