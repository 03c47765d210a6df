"""A broker in a process of its own that starts in a moment, and does to itself what it is told over a pipe.

    role NAME ID    become a master or a replica, as ``Broker.change_role`` does
    clock MS        the wall clock is off by so much from now on
    disk MODE       "good", "slow" (a flush takes a moment), "full" (nothing more can be written) or "failing" (EIO)
    image           write down what is on a disk in memory
    power SEED      its machine loses its power: what was not flushed is gone, or a random part of it

Processes come from multiprocessing's fork server, which has imported everything: starting the command line instead
takes seconds on a busy machine, and rounds start many. They are real processes: killed, paused, alone with their files.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import multiprocessing
import os
import pickle
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import uvloop

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.opening import open_lease_store
from pyromq.failover.running import look_after
from pyromq.failover.sight import Timing
from pyromq.replication.settings import Role
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.store.files.disk import Disk, RealDisk, RealFile
from pyromq.testing import CrashMode, FaultyDisk

SLOW_S = 0.05
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


class SetClock(SystemClock):
    """The machine's, with a wall clock that is off."""

    def __init__(self) -> None:
        self.off_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.off_ms


class MoodyDisk(RealDisk):
    """The file system, in one of its moods."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "good"

    def open(self, path: Path, *, writable: bool = True) -> RealFile:
        return MoodyFile(self, path, writable=writable)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        self.check_space()
        super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders).close()
        return MoodyFile(self, path)

    def write(self, path: Path, data: bytes) -> None:
        self.check_space()
        super().write(path, data)

    def check_space(self) -> None:
        if self.mode == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.check_health()

    def check_health(self) -> None:
        if self.mode == "failing":
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class MoodyFile(RealFile):
    def __init__(self, disk: MoodyDisk, path: Path, *, writable: bool = True) -> None:
        super().__init__(path, writable=writable)
        self._disk = disk

    def write_at(self, at: int, data: bytes) -> None:
        self._disk.check_space()
        super().write_at(at, data)

    def write_parts(self, at: int, parts: Sequence[bytes]) -> None:
        self._disk.check_space()
        super().write_parts(at, parts)

    def sync(self) -> None:
        if self._disk.mode == "slow":
            time.sleep(SLOW_S)
        self._disk.check_health()
        super().sync()


# --- power ---


def disk_after_power(image: Path) -> FaultyDisk:
    """What a machine finds on its disk when its power is back: the files of the image."""
    disk = FaultyDisk()
    for path, data in pickle.loads(image.read_bytes()).items() if image.exists() else ():
        disk.write(path, data)
        for folder in (path.parent, *path.parent.parents):
            disk.sync_folder(folder)
    return disk


def save_image(disk: FaultyDisk, image: Path) -> None:
    aside = image.with_suffix(".new")
    aside.write_bytes(pickle.dumps({path: disk.read(path) for path in disk.files()}))
    aside.rename(image)


def _end_connections() -> None:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as end:
            if end.family == socket.AF_INET:
                end.shutdown(socket.SHUT_RDWR)


def _lose_power(disk: Disk, image: Path, seed: str) -> NoReturn:
    """In one loop iteration: nothing that is answered later is missing on the disk, nothing is answered any more."""
    assert isinstance(disk, FaultyDisk), "started without an image"
    _end_connections()  # at once: writing down what is left takes a moment
    rng = Random(seed)
    save_image(disk.after_crash(rng.choice((CrashMode.FORGET, CrashMode.MIX)), rng), image)
    os._exit(0)


@dataclass(frozen=True, slots=True)
class Plan:
    """``settings`` as ``BrokerSettings`` takes them: the whole, with its secrets, does not travel between processes."""

    settings: Mapping[str, Any]
    folder: Path
    log_file: Path
    image: Path | None = None  # the disk is in memory, and this is what is left of it when power fails


def with_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``access`` came as texts: secrets are made where they are used."""
    given = dict(settings)
    if isinstance(texts := given.get("access"), Mapping):
        user, inner = (Secret(texts[name]) for name in ("initial_user", "inner_credentials"))
        given["access"] = AccessSettings(enabled=True, initial_user=user, inner_credentials=inner)
    return given


async def _serve(plan: Plan, pipe: Pipe) -> None:
    clock = SetClock()
    disk: MoodyDisk | FaultyDisk = disk_after_power(plan.image) if plan.image else MoodyDisk()
    broker = Broker(BrokerSettings(**with_secrets(plan.settings)), plan.folder, clock=clock, disk=disk)
    await broker.start()
    pipe.send("ready")
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), told.set)
    while True:
        await told.wait()
        told.clear()
        while pipe.poll():
            match pipe.recv().split():  # EOFError: the test is gone, and so is this process
                case "role", name, number:
                    await broker.change_role(Role(name), int(number))
                case "clock", off_ms:
                    clock.off_ms = int(off_ms)
                case "disk", mode if isinstance(disk, MoodyDisk):
                    disk.mode = mode
                case ("image",) if plan.image is not None and isinstance(disk, FaultyDisk):
                    save_image(disk.after_crash(CrashMode.KEEP), plan.image)
                case "power", seed if plan.image is not None:
                    _lose_power(disk, plan.image, seed)
                case ("stop",):
                    await broker.stop()
                    pipe.send("done")
                    return
            pipe.send("done")


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Of the agent beside a broker: where the broker and the lease are."""

    broker: str
    store: str
    lease_s: float
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # of the agent: the fork server has that of its start


async def _serve_agent(plan: AgentPlan, pipe: Pipe) -> None:
    async with BrokerBeside(plan.broker) as beside:
        await look_after(
            beside,
            lambda status: open_lease_store(plan.store, status.cluster, status.name),
            Timing.of(plan.lease_s),
            asyncio.Event(),
            hands_over=False,
            on_ready=lambda status: pipe.send("ready"),
        )


def serve_agent(plan: AgentPlan, pipe: Pipe) -> None:
    os.environ.update(plan.environment)
    _log_to(plan.log_file)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_agent(plan, pipe))


def _log_to(file: Path) -> None:
    logging.basicConfig(filename=file, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def serve(plan: Plan, pipe: Pipe) -> None:
    _log_to(plan.log_file)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(plan, pipe))


class WorkerProcess:
    """The process, as its parent sees it."""

    def __init__(self, target: Callable[[Any, Pipe], None], plan: Any) -> None:
        self._pipe, child = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=target, args=(plan, child), daemon=True)
        self._process.start()
        child.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    async def answer(self, timeout_s: float) -> Any:
        """What it says next; raises EOFError when it has died instead."""
        if not await asyncio.to_thread(self._pipe.poll, timeout_s):
            raise TimeoutError(f"no answer within {timeout_s} s")
        return self._pipe.recv()

    async def tell(self, command: str, timeout_s: float) -> None:
        self._pipe.send(command)
        assert await self.answer(timeout_s) == "done"

    async def last_words(self, command: str) -> None:
        """Tells it something that ends it, and waits for that."""
        self._pipe.send(command)
        await asyncio.to_thread(self._process.join)

    async def kill(self) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._pipe.close()
