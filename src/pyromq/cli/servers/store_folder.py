"""A store folder served to this process alone, and only to be looked at: no broker runs, and nothing in it changes.

    async with StoreFolder(Path("/var/lib/pyromq")) as folder:
        async with Admin(folder.nameserver, credentials=folder.credentials) as admin: ...

A name server and a broker of this process answer on loopback, to a secret that only this process has. The broker has
the folder through ``OverlayDisk``: it recovers it in memory and in a temporary folder. Its time stands still where the
folder's ends, so that nothing becomes due, nothing expires; sends are refused. Opens folders of PyroMQ and of Apache
RocketMQ.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.broker import Broker
from pyromq.client.core.settings import Credentials
from pyromq.clock import SystemClock
from pyromq.errors import StoreNotFoundError
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.security.settings import AccessSettings, with_inner_credentials
from pyromq.store.check.files import find_files, infer_file_bytes
from pyromq.store.derived.index_file import ENTRY as INDEX_ENTRY
from pyromq.store.derived.index_file import HEADER as INDEX_HEADER
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.files.disk import RealDisk
from pyromq.store.files.layout import Layout
from pyromq.store.files.overlay import OverlayDisk
from pyromq.store.sealing.checkpoint import load_checkpoint
from pyromq.store.settings import StoreSettings

_READ: Final = 4  # of RocketMQ's permissions: 4 read, 2 write
_FOR_EVER_MS: Final = 100 * 365 * 86_400_000
_INDEX_SHAPES: Final = ((5_000_000, 20_000_000), (10_000, 50_000))  # slots and entries: RocketMQ's, LoopbackBroker's


class StandingClock(SteadyClock):
    """The time of day stands still; durations pass."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(SystemClock())
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


@contextmanager
def served_folder(folder: Path) -> Iterator[StoreFolder]:
    """Serve a store folder on a thread of its own, for a caller that has no loop, or whose loop belongs to something
    else.
    """
    with asyncio.Runner() as runner:
        opened = runner.run(StoreFolder(folder).__aenter__())
        stop = asyncio.Event()
        thread = threading.Thread(target=runner.run, args=(stop.wait(),), name="store-folder", daemon=True)
        thread.start()
        try:
            yield opened
        finally:
            runner.get_loop().call_soon_threadsafe(stop.set)
            thread.join()
            runner.run(opened.__aexit__())


class StoreFolder:
    """A store folder served read-only. Raises StoreNotFoundError when it has no commit log, and what opening a store
    raises.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nameserver = ""
        self.credentials = Credentials("", "")  # while it is open
        self.is_in_use = False  # a process has it open and goes on writing: what is shown is one moment of it
        self.ended_ms = 0  # the time that the broker has
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        layout = Layout(self.folder)
        if not layout.commit_log.is_dir():
            raise StoreNotFoundError(f"{self.folder} is not a store folder: it contains no commitlog")
        try:
            await self._open(layout)
        except BaseException:  # what has started must not outlive a start that failed; raised again
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def _open(self, layout: Layout) -> None:
        disk, stack = RealDisk(), self._stack
        self.is_in_use = layout.lock.exists() and disk.is_locked(layout.lock)
        self.ended_ms = load_checkpoint(disk, layout.checkpoint).log_ms or SystemClock().now_ms()
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-store-")))
        access = with_inner_credentials(AccessSettings(enabled=True))
        assert access.inner is not None
        self.credentials = Credentials(access.inner.access_key, access.inner.secret_key)
        names = await stack.enter_async_context(
            NameServer(NameServerSettings(port=0, access=replace(access, file=scratch / "nameserver-access.json")))
        )
        self.nameserver = str(names.address)
        broker = Broker(
            settings_for(layout, self.nameserver, access),
            self.folder,
            clock=StandingClock(self.ended_ms),
            disk=OverlayDisk(self.folder, scratch),
        )
        await stack.enter_async_context(broker)


def settings_for(layout: Layout, nameserver: str, access: AccessSettings) -> BrokerSettings:
    """Files as long as they are, nothing expires, nothing may be sent."""
    return BrokerSettings(
        port=0,
        nameservers=(nameserver,),
        permission=_READ,
        access=access,
        store=replace(
            store_shape(layout),
            keep_ms=_FOR_EVER_MS,
            delete_hours=(),
            full_percent=100,
            force_clean_percent=100,
            clean_percent=100,
        ),
    )


def store_shape(layout: Layout) -> StoreSettings:
    """The sizes of a folder's files, which its broker's settings say; defaults where there are none."""
    disk, shape = RealDisk(), StoreSettings()
    if segment_bytes := infer_file_bytes([find_files(disk, layout.commit_log)]):
        shape = replace(shape, segment_bytes=segment_bytes)
    folders = [
        find_files(disk, layout.queues / topic / number)
        for topic in disk.names(layout.queues)
        for number in disk.names(layout.queues / topic)
    ]
    if queue_bytes := infer_file_bytes(folders):
        shape = replace(shape, queue_file_entries=max(1, queue_bytes // ENTRY_BYTES))
    sizes = {disk.size_of(layout.index / name) for name in disk.names(layout.index)}
    for slots, entries in _INDEX_SHAPES:
        if INDEX_HEADER.size + 4 * slots + INDEX_ENTRY.size * entries in sizes:
            shape = replace(shape, index_slots=slots, index_entries=entries)
    return shape
