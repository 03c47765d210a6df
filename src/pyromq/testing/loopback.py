"""A name server and a broker in this process, with the real protocol, for tests.

    with LoopbackBroker() as broker:            # or: async with LoopbackBroker() as broker
        with Producer(broker.nameserver, group="shop") as producer: ...

    with LoopbackBroker(virtual_time=True) as broker:   # and time passes when the test says so
        broker.advance(hours=2)

Messages are kept in memory or in a temporary folder, in small files, and are gone at the end. In a ``with`` block the
servers run on a loop of their own in a thread; in an ``async with`` block on the running loop. With virtual time, or
without sockets, the servers of a ``with`` block and the sync clients share one loop (``virtual_time`` says how).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Self, TypeVar

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.broker import Broker
from pyromq.client.core.settings import Credentials
from pyromq.client.sync.loop_thread import LoopThread, use_loop_thread
from pyromq.clock import Clock, SystemClock, default_clock, used_by_default
from pyromq.errors import ConfigError
from pyromq.idempotent.places import marks_kept_in
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings, with_inner_credentials
from pyromq.store.files.disk import Disk
from pyromq.store.settings import StoreSettings
from pyromq.testing.faulty_disk import CrashMode, FaultyDisk
from pyromq.testing.held_port import hold_port
from pyromq.testing.loop_threads import Done, ServerThread, VirtualLoopThread, called
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.observing.journal import Journal, JournalEventKind
from pyromq.testing.observing.listener_watch import ListenerWatch
from pyromq.testing.observing.observed import GroupView, Ledger, Observer, SeenMessages
from pyromq.testing.offsets_folder import offsets_folder_of
from pyromq.testing.server_process import free_port
from pyromq.testing.timed_broker import TimedBroker
from pyromq.testing.traffic.broker_traffic import NameServerTraffic, Traffic
from pyromq.testing.traffic.faults import Faults
from pyromq.testing.traffic.memory_network import MemoryNetwork
from pyromq.testing.traffic.watched_server import WatchedServer
from pyromq.testing.unsynced_disk import UnsyncedDisk
from pyromq.testing.virtual_time import VirtualTime

T = TypeVar("T")

SMALL_FILES = StoreSettings(
    segment_bytes=8 << 20, queue_file_entries=10_000, index_slots=10_000, index_entries=50_000, full_percent=100
)
SMALL_FILES_IN_MEMORY = replace(SMALL_FILES, timer_log_bytes=1 << 20, timer_wheel_slots=3 * 86_400)
_START_S_MAX: Final = 30
_IN_MEMORY: Final = Path("/store")  # on a FaultyDisk
_CANNOT_CRASH: Final = (
    "a crash needs a store that can lose what was not flushed: LoopbackBroker(disk=FaultyDisk()), or virtual time "
    "without a folder"
)


class LoopbackBroker:
    """``nameserver`` and ``address`` say where to connect; ``broker`` is the server itself (on its own loop).

    ``folder`` keeps the messages of a test for the next one. ``delay_levels_ms`` says how long delay levels (and with
    them retries) take: ``(20,) * 18`` is quick.

    With ``virtual_time`` the time of the servers, and of all clients that are made in this process inside the block,
    stands still: ``advance`` lets it pass, and while a test waits for a call, time passes for it. Everything happens in
    its order, and nothing is waited for. ``clock``, a ManualClock, says when that time begins. Without ``virtual_time``
    a ``clock`` is that of the servers alone, and clients have the machine's.

    With ``sockets=False`` clients on the same loop reach the servers through memory; the bytes are the same. ``faults``
    lets things go wrong, and ``seed`` decides which when they do so at random. ``group``, ``sent`` and ``stored`` say
    what happened.

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
        sockets: bool = True,
        disk: Disk | None = None,
        seed: int = 0,
    ) -> None:
        self._disk = disk if disk is not None else _disk_for(folder, virtual_time=virtual_time)
        in_memory = isinstance(self._disk, FaultyDisk)
        settings = settings or BrokerSettings(store=SMALL_FILES_IN_MEMORY if in_memory else SMALL_FILES)
        if delay_levels_ms is not None:
            settings = replace(settings, store=replace(settings.store, delay_ladder_ms=tuple(delay_levels_ms)))
        self._settings = _with_any_port(settings)
        self._folder = folder
        self._clock = clock or (ManualClock() if virtual_time else SystemClock())
        self._time = _time_of(self._clock) if virtual_time else None
        self._network = None if sockets else _network_for(settings)
        self._seed = seed
        self._stack = AsyncExitStack()
        self._thread: LoopThread | None = None  # in a ``with`` block
        self._server: WatchedServer | None = None  # of the broker
        self._names_server: WatchedServer | None = None
        self._names_traffic = NameServerTraffic()
        self._replacing: asyncio.Task[None] | None = None  # a broker that crashed by the one that comes after it
        self.journal = Journal(self.now_ms)
        self.faults = Faults(seed, self.now_ms, self._set_away, "" if in_memory else _CANNOT_CRASH)
        self._observer = Observer(lambda: self.broker, self.journal, self.now_ms)
        self.nameserver = ""
        self.address = ""

    @property
    def clock(self) -> Clock:
        """The servers'; with virtual time a ManualClock, which ``advance`` moves."""
        return self._clock

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
        if self._network is not None:
            self._network.install(asyncio.get_running_loop())
            self._stack.callback(self._network.uninstall)
        self._stack.enter_context(ListenerWatch(self.journal).installed())
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-test-")))
        self._stack.enter_context(offsets_folder_of(scratch / "offsets"))
        kept = scratch if self._folder is None or isinstance(self._disk, FaultyDisk) else self._folder
        self._stack.enter_context(marks_kept_in(kept / "marks"))
        if self._folder is None:
            self._folder = _IN_MEMORY if isinstance(self._disk, FaultyDisk) else scratch / "store"
            self._stack.callback(self._forget_folder)
        settings = NameServerSettings(port=0, access=self._settings.access)
        names = await self._stack.enter_async_context(
            NameServer(settings, clock=self._clock, new_server=self._new_names_server)
        )
        self.nameserver = str(names.address)
        self._settings = replace(self._settings, nameservers=(self.nameserver,), port=self._held_port())
        self._stack.push_async_callback(self._stop_broker)
        await self._start_broker()

    def _held_port(self) -> int:
        """Choose the broker's port, and keep it until the end: no other program gets it during a restart."""
        held = hold_port(self._settings.host) if self._network is None else None
        return self._stack.enter_context(held).getsockname()[1] if held is not None else 0

    def _forget_folder(self) -> None:
        self._folder = None

    async def _start_broker(self) -> None:
        assert self._folder is not None
        clock = SteadyClock(self._clock)
        self.broker = Broker(
            self._settings,
            self._folder,
            clock=clock,
            disk=self._disk,
            rng=Random(self._seed),
            new_server=self._new_server,
        )
        await self.broker.start()
        self.address = str(self.broker.address)
        self._settings = replace(self._settings, port=Address.parse(self.address).port)  # that of the next start
        if self._time is not None:
            self._time.servers = [TimedBroker(self.broker, clock)]

    def _new_server(self, *arguments: Any, **named: Any) -> WatchedServer:
        crash = partial(self._crash_now, CrashMode.FORGET)
        traffic = Traffic(self.faults, self.journal, self._settings.name, self._record_at, crash)
        self._server = WatchedServer(*arguments, watcher=traffic, network=self._network, **named)
        return self._server

    def _new_names_server(self, *arguments: Any, **named: Any) -> WatchedServer:
        self._names_server = WatchedServer(*arguments, watcher=self._names_traffic, network=self._network, **named)
        return self._names_server

    def _record_at(self, position: int) -> bytes:
        return bytes(self.broker.store.reader.bytes_of(position))

    async def _stop_broker(self) -> None:
        if self._replacing is not None:
            await self._replacing
        if self._time is not None:
            self._time.servers = []
        await self.broker.stop()

    async def _restart(self, down_ms: int) -> None:
        self.journal.add(JournalEventKind.LIFE, text="the broker stops and starts again")
        await self._stop_broker()
        if down_ms:
            await asyncio.sleep(down_ms / 1000)
        await self._start_broker()

    # --- a crash ---

    async def _crash(self, mode: CrashMode) -> None:
        self._crash_now(mode)
        assert self._replacing is not None
        await self._replacing

    def _crash_now(self, mode: CrashMode) -> None:
        """What the disk has now is what the next broker finds; nobody hears of this one any more."""
        if not isinstance(self._disk, FaultyDisk):
            raise ConfigError(_CANNOT_CRASH)
        if self._replacing is not None and not self._replacing.done():
            return  # it is down already
        assert self._server is not None
        self.journal.add(JournalEventKind.LIFE, text=f"the broker crashes: unflushed bytes, {mode.value}")
        self._disk = self._disk.after_crash(mode, Random(self._seed))
        self._server.vanish("the broker crashed")
        if self._time is not None:
            self._time.servers = []
        self._replacing = asyncio.get_running_loop().create_task(self._replace(self.broker), name="broker crash")

    async def _replace(self, crashed: Broker) -> None:
        self._names_traffic.keeps_brokers = True
        try:
            await crashed.stop()  # on a disk that nobody reads any more
        finally:
            self._names_traffic.keeps_brokers = False
        await self._start_broker()

    # --- on a loop of its own ---

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> Self:
        """What ``with`` does at its beginning; ``close`` must follow."""
        thread = self._thread = ServerThread() if self._time is None else VirtualLoopThread(self._time)
        thread.acquire()
        try:
            if self._time is not None or self._network is not None:  # sync clients live on the same loop
                self._stack.callback(use_loop_thread, use_loop_thread(thread))
            self._call(self._start())
        except BaseException:  # what has started must not outlive a failed start; raised again
            self.close()
            raise
        return self

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
        self._thread.call(work if self._time is not None else _bounded(work))

    # --- time ---

    def now_ms(self) -> int:
        """The servers' wall clock, for ``deliver_at_ms`` and the like."""
        return self._clock.now_ms()

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: int = 0,
        leap: bool = True,
    ) -> Awaitable[None]:
        """Lets so much time pass, with everything that happens in it, until nothing is left to do.

        ``advance(timedelta(hours=2))`` and ``advance(hours=2)`` are the same. In a long time in which nothing but
        heartbeats and empty pulls happens, most of these are left out, unless ``leap`` is False. In an ``async with``
        block: ``await broker.advance(…)``.

        Raises ConfigError without ``virtual_time``, ValueError for a negative time, NotSettledError when a listener on
        a thread does not return.
        """
        minutes += 60 * (hours + 24 * days)
        seconds += 60 * minutes + (by.total_seconds() if by is not None else 0)
        return self._run(self._virtual_time().advance(round(1000 * seconds) + ms, leap=leap))

    def settle(self) -> Awaitable[None]:
        """Until nothing is left to do at this moment; no time passes. Awaited and raises as ``advance``."""
        return self._run(self._virtual_time().settle())

    def restart(self, *, down_ms: int = 0) -> Awaitable[None]:
        """The broker stops, is away for ``down_ms``, and starts again at the same address; clients stay.

        Awaited as ``advance``.
        """
        return self._run(self._restart(down_ms))

    def crash(self, mode: CrashMode = CrashMode.FORGET) -> Awaitable[None]:
        """The machine of the broker stops at once, loses what was not flushed, and starts again at the same address.

        Raises ConfigError when the store is not on a FaultyDisk. Awaited as ``advance``.
        """
        return self._run(self._crash(mode))

    def cut_connections(self) -> Awaitable[None]:
        """Every connection to the broker ends; clients connect again. Awaited as ``advance``."""
        return self._run(called(self._cut_now))

    def _cut_now(self) -> None:
        assert self._server is not None
        self.journal.add(JournalEventKind.LIFE, text="every connection is cut")
        self._server.cut("cut by the test")

    def _virtual_time(self) -> VirtualTime:
        if self._time is None:
            raise ConfigError("time passes by itself here; LoopbackBroker(virtual_time=True) is moved by the test")
        return self._time

    def _run(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        if self._thread is None:
            return work
        self._thread.call(work)
        return Done()

    def on_loop(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something where the servers live, from inside a ``with`` block, and wait for it."""
        self._call(work())

    def _on_loop(self, function: Callable[[], T]) -> T:
        """Where the servers live; an ``async with`` block is there already."""
        return function() if self._thread is None else self._thread.call(called(function))

    def _set_away(self, away: bool) -> None:
        def change() -> None:
            self._names_traffic.away = away
            self.journal.add(JournalEventKind.LIFE, text=f"the name server {'goes away' if away else 'is back'}")
            if away and self._names_server is not None:
                self._names_server.cut("the name server is away")

        self._on_loop(change)

    # --- what happened ---

    def group(self, name: str) -> GroupView:
        """What a consumer group did; its values are those of the moment at which they are asked for."""
        return GroupView(name, self._observer, self._on_loop)

    def sent(self, topic: str | None = None) -> SeenMessages:
        """What producers sent to a topic, or to all, and the broker took: delayed and prepared messages as well."""
        return self._on_loop(lambda: self._observer.sent(topic))

    def stored(self, topic: str) -> SeenMessages:
        """What consumers of a topic can see."""
        return self._on_loop(lambda: self._observer.stored(topic))

    def ledger(self) -> Ledger:
        """Every acknowledged message, and where it is now."""
        return self._on_loop(self._observer.ledger)

    def assert_nothing_lost(self) -> Ledger:
        """Assert that no acknowledged message is lost; the AssertionError says what happened."""
        ledger = self.ledger()
        if ledger.lost:
            raise AssertionError("\n".join([str(ledger), "what happened:", *self.journal.lines()]))
        return ledger

    def timeline(self, *, group: str = "", topic: str = "") -> str:
        """What happened, line by line, by the broker's clock."""
        return "\n".join(self.journal.lines(group=group, topic=topic))


def guarded_by(credentials: Credentials) -> BrokerSettings:
    """``LoopbackBroker(guarded_by(root))``: access control is on, and that user may do everything."""
    user = {"username": credentials.access_key, "password": credentials.secret_key}
    access = AccessSettings(enabled=True, initial_user=Secret(json.dumps(user)))
    return BrokerSettings(store=SMALL_FILES_IN_MEMORY, access=access)


def _time_of(clock: Clock) -> VirtualTime:
    if not isinstance(clock, ManualClock):
        raise ConfigError(f"virtual time is moved with a ManualClock, not with a {type(clock).__name__}")
    return VirtualTime(clock)


def _network_for(settings: BrokerSettings) -> MemoryNetwork:
    if settings.listener.tls.context() is not None:
        raise ConfigError("TLS needs sockets: LoopbackBroker(sockets=True)")
    return MemoryNetwork()


def _with_any_port(settings: BrokerSettings) -> BrokerSettings:
    """Return settings of a broker whose ports are picked, as its next starts at the same port must have them, too."""
    grpc = replace(settings.grpc, enabled=settings.grpc.enabled and settings.grpc.port is not None)
    replication = settings.replication
    if replication.role.has_port and not replication.port:  # else the port next to the broker's, which others may have
        replication = replace(replication, port=free_port())
    access = with_inner_credentials(settings.access)
    return replace(settings, port=0, vip_port=False, grpc=grpc, replication=replication, access=access)


def _disk_for(folder: Path | None, *, virtual_time: bool) -> Disk | None:
    """With virtual time nothing is synced, else time would wait for the disk; None is the real one."""
    if not virtual_time:
        return None
    return FaultyDisk() if folder is None else UnsyncedDisk()


async def _bounded(work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(_START_S_MAX):
        await work
