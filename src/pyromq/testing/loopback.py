"""A name server and a broker in this process, with the real protocol, for tests.

    with LoopbackBroker() as broker:            # or: async with LoopbackBroker() as broker
        with Producer(broker.nameserver, group="shop") as producer: ...

    with LoopbackBroker(virtual_time=True) as broker:   # and time passes when the test says so
        broker.advance(hours=2)

Messages are kept in a temporary folder, in small files, and are gone at the end. In a ``with`` block the servers run on
a loop of their own in a thread; in an ``async with`` block on the running loop. With virtual time, the servers of a
``with`` block and the sync clients share one loop, whose time is the test's (``virtual_time`` tells how).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.broker import Broker
from pyromq.client.core.settings import Credentials
from pyromq.client.sync.loop_thread import LoopThread, Waiter, use_loop_thread
from pyromq.clock import Clock, SystemClock, default_clock, used_by_default
from pyromq.errors import ConfigError
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings, with_inner_credentials
from pyromq.store.settings import StoreSettings
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.unsynced_disk import UnsyncedDisk
from pyromq.testing.virtual_time import VirtualTime

T = TypeVar("T")

SMALL_FILES = StoreSettings(
    segment_bytes=8 << 20, queue_file_entries=10_000, index_slots=10_000, index_entries=50_000, full_percent=100
)
_START_S_MAX = 30


class LoopbackBroker:
    """``nameserver`` and ``address`` say where to connect; ``broker`` is the server itself (on its own loop).

    ``folder`` keeps the messages of a test for the next one. ``delay_levels_ms`` says how long delay levels (and with
    them retries) take: ``(20,) * 18`` is quick.

    With ``virtual_time`` the time of the servers, and of all clients that are made in this process inside the block,
    stands still: ``advance`` lets it pass, and while a test waits for a call, time passes for it. Everything happens in
    its order, and nothing is waited for. ``clock``, a ManualClock, says when that time begins. Without ``virtual_time``
    a ``clock`` is that of the servers alone, and clients have the machine's.

    With ``credentials`` the servers have access control, and that user, who may do everything.

    Raises ConfigError, and what starting a broker raises.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        folder: Path | None = None,
        clock: Clock | None = None,
        delay_levels_ms: Sequence[int] | None = None,
        virtual_time: bool = False,
        credentials: Credentials | None = None,
    ) -> None:
        settings = settings or BrokerSettings(store=SMALL_FILES)
        if delay_levels_ms is not None:
            settings = replace(settings, store=replace(settings.store, delay_ladder_ms=tuple(delay_levels_ms)))
        if credentials is not None:
            settings = replace(settings, access=_access_of(credentials))
        self._settings = replace(settings, port=0, access=with_inner_credentials(settings.access))
        self._folder = folder
        self._clock = clock or (ManualClock() if virtual_time else SystemClock())
        self._time = _time_of(self._clock) if virtual_time else None
        self._stack = AsyncExitStack()
        self._thread: LoopThread | None = None  # in a ``with`` block
        self.nameserver = ""
        self.address = ""

    # --- on the running loop ---

    async def __aenter__(self) -> Self:
        try:
            if self._time is not None:
                self._time.install(asyncio.get_running_loop())
                self._stack.callback(self._time.uninstall)
            await self._start()
        except BaseException:  # what has started must not outlive a failed start; raised again
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        if self._time is not None:
            if not isinstance(default_clock(), SystemClock):
                raise ConfigError("another LoopbackBroker of this process has virtual time; one at a time can have it")
            self._stack.enter_context(self._time.jobs.counted())
            self._stack.enter_context(used_by_default(self._clock))
        if self._folder is None:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-test-")))
            self._stack.callback(self._forget_folder)
        name_settings = NameServerSettings(port=0, access=self._settings.access)
        names = await self._stack.enter_async_context(NameServer(name_settings, clock=self._clock))
        self.nameserver = str(names.address)
        self._settings = replace(self._settings, nameservers=(self.nameserver,))
        self._stack.push_async_callback(self._stop_broker)
        await self._start_broker()

    def _forget_folder(self) -> None:
        self._folder = None

    async def _start_broker(self) -> None:
        assert self._folder is not None
        clock = SteadyClock(self._clock)
        disk = UnsyncedDisk() if self._time is not None else None  # else time would wait for the disk
        self.broker = Broker(self._settings, self._folder, clock=clock, disk=disk)
        await self.broker.start()
        self.address = str(self.broker.address)
        if self._time is not None:
            self._time.servers = [_TimedBroker(self.broker, clock)]

    async def _stop_broker(self) -> None:
        if self._time is not None:
            self._time.servers = []
        await self.broker.stop()

    async def _restart(self) -> None:
        await self._stop_broker()
        self._settings = replace(self._settings, port=Address.parse(self.address).port)
        await self._start_broker()

    # --- on a loop of its own ---

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> None:
        """What ``with`` does at its beginning; ``close`` must follow."""
        thread = self._thread = _ServerThread() if self._time is None else _VirtualLoopThread(self._time)
        thread.acquire()
        try:
            if self._time is not None:
                self._stack.callback(use_loop_thread, use_loop_thread(thread))
            self._call(self._start())
        except BaseException:  # what has started must not outlive a failed start; raised again
            self.close()
            raise

    def close(self) -> None:
        """What ``with`` does at its end."""
        assert self._thread is not None, "the broker is not open"
        try:
            self._call(self._stack.aclose())
        finally:
            thread, self._thread = self._thread, None
            thread.release()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._thread is not None
        bounded = work if self._time is not None else asyncio.wait_for(work, _START_S_MAX)
        self._thread.call(bounded)

    # --- time ---

    def now_ms(self) -> int:
        """The servers' wall clock, for ``deliver_at_ms`` and the like."""
        return self._clock.now_ms()

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: int = 0,
        leap: bool = True,
    ) -> Awaitable[None]:
        """Lets so much time pass, with everything that happens in it, until nothing is left to do.

        In a long time in which nothing but heartbeats and empty pulls happens, most of these are left out, unless
        ``leap`` is False. In an ``async with`` block: ``await broker.advance(…)``.

        Raises ConfigError without ``virtual_time``, ValueError for a negative time, NotSettledError when a listener on
        a thread does not return.
        """
        minutes += 60 * (hours + 24 * days)
        duration_ms = round(1000 * (60 * minutes + seconds)) + ms
        return self._run(self._virtual_time().advance(duration_ms, leap=leap))

    def settle(self) -> Awaitable[None]:
        """Until nothing is left to do at this moment; no time passes. Awaited and raises as ``advance``."""
        return self._run(self._virtual_time().settle())

    def restart(self) -> Awaitable[None]:
        """The broker stops and starts again, at the same address; clients stay. Awaited as ``advance``."""
        return self._run(self._restart())

    def _virtual_time(self) -> VirtualTime:
        if self._time is None:
            raise ConfigError("time passes by itself here; LoopbackBroker(virtual_time=True) is moved by the test")
        return self._time

    def _run(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        if self._thread is None:
            return work
        self._thread.call(work)
        return _Done()


class _Done(Awaitable[None]):
    """Over already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class _ServerThread(LoopThread):
    """Of the servers alone."""

    name = "pyromq-loopback"

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()


class _VirtualLoopThread(LoopThread):
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


class _TimedBroker:
    """What virtual time must know of a broker."""

    def __init__(self, broker: Broker, clock: SteadyClock) -> None:
        self._broker = broker
        self._clock = clock

    def next_due_ms(self, until_ms: int) -> int:
        runner, now_ms = self._broker.parts.services.delay_runner, self._clock.now_ms()
        found = [min(runner.schedule.run(), runner.timers.run())]
        if runner.timers.pending and until_ms - now_ms > 60_000:  # the runner knows the near ones only
            found += [1000 * second for second in runner.files.occupied(now_ms // 1000, until_ms // 1000 + 1)[:1]]
        return min((due_ms for due_ms in found if now_ms < due_ms < until_ms), default=until_ms)

    def look(self) -> None:
        self._broker.parts.services.delay_runner.run()

    def log_end(self) -> int:
        return self._broker.store.end_position

    def is_undecided(self) -> bool:
        return self._broker.parts.services.transaction_log.table.waiting > 0

    def leapt(self) -> None:
        self._clock.follow_at_once()


def _access_of(credentials: Credentials) -> AccessSettings:
    user = {"username": credentials.access_key, "password": credentials.secret_key}
    return AccessSettings(enabled=True, initial_user=Secret(json.dumps(user)))


def _time_of(clock: Clock) -> VirtualTime:
    if not isinstance(clock, ManualClock):
        raise ConfigError(f"virtual time is moved with a ManualClock, not with a {type(clock).__name__}")
    return VirtualTime(clock)
