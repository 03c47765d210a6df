"""A process that serves a forgetful volume at a folder, and its parent's side.

    with ForgetfulMount(folder) as mount:
        …                                          brokers run on files below ``folder``
        mount.lose_power(PowerLoss.TORN, seed)     what was not flushed is gone; mounted again with the rest

It needs /dev/fuse and the right to mount. Who uses the files has to be dead by then, as after a power loss: their
mappings lead to the old mount, which is gone.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import tempfile
from functools import cache
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from tests.faults.forgetful.protocol import BUFFER
from tests.faults.forgetful.session import FuseSession
from tests.faults.forgetful.volume import PowerLoss, Volume

_DEVICE: Final = "/dev/fuse"
_NOSUID_NODEV: Final = 2 | 4
_DETACH: Final = 2
_NEW_MOUNTS: Final = 0x20000  # CLONE_NEWNS
_PRIVATE: Final = 0x4000 | 1 << 18  # MS_REC and MS_PRIVATE
_PATIENCE_S: Final = 60
_DIES_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_KILL: Final = 9
_CONTEXT = multiprocessing.get_context("forkserver")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount_fuse(folder: Path, device: int) -> None:
    """Raises OSError."""
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    source, kind = b"forgetful", b"fuse"
    if _libc().mount(source, os.fsencode(folder), kind, _NOSUID_NODEV, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount at {folder}: {os.strerror(number)}")


def unmount(folder: Path) -> None:
    _libc().umount2(os.fsencode(folder), _DETACH)


def keep_mounts_private() -> None:
    """Give this process, and those that it starts, mounts of their own: they end with it, however it ends."""
    libc = _libc()
    if libc.unshare(_NEW_MOUNTS) == 0:
        libc.mount(b"none", b"/", None, _PRIVATE, None)


@cache
def why_not() -> str:
    """Why this machine cannot mount such a volume; empty when it can."""
    if not Path(_DEVICE).exists():
        return f"{_DEVICE} is not there"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            device = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
            try:
                mount_fuse(Path(scratch), device)
                unmount(Path(scratch))
            finally:
                os.close(device)
        except OSError as error:
            return str(error)
    return ""


class _Server:
    """In the process: one mount after the other, of what is left of the volume."""

    def __init__(self, folder: Path, pipe: Pipe) -> None:
        self._folder, self._pipe = folder, pipe
        self._volume = Volume()

    def serve(self) -> None:
        while True:
            device = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
            session = FuseSession(self._volume)
            try:
                mount_fuse(self._folder, device)
                if not self._serve(device, session):
                    return
            finally:
                unmount(self._folder)
                os.close(device)  # requests that are still on their way fail now

    def _serve(self, device: int, session: FuseSession) -> bool:
        """Until the power is lost; False when the parent wants no more."""
        self._answer(device, session)  # INIT
        self._pipe.send("ready")
        while True:
            readable, _, _ = select.select([device, self._pipe.fileno()], [], [])
            if device in readable:
                self._answer(device, session)
            elif not self._obey(session):
                return not self._is_over

    _is_over = False

    def _obey(self, session: FuseSession) -> bool:
        """Whether this mount goes on."""
        try:
            words = self._pipe.recv()
        except EOFError:
            words = ["stop"]
        match words:
            case ["power", mode, seed]:
                session.is_dead = True
                self._volume = session.volume.after_power_loss(PowerLoss(mode), Random(seed))
                return False
            case ["facts"]:
                self._pipe.send({"requests": session.requests, "bytes": session.volume.used_bytes()})
                return True
        self._is_over = True
        return False

    def _answer(self, device: int, session: FuseSession) -> None:
        try:
            request = os.read(device, BUFFER)
        except (FileNotFoundError, InterruptedError):  # the request was withdrawn
            return
        if (response := session.answer(request)) is not None:
            try:
                os.write(device, response)
            except FileNotFoundError:
                return


def _serve(folder: Path, pipe: Pipe) -> None:
    _libc().prctl(_DIES_WITH_PARENT, _KILL)
    _Server(folder, pipe).serve()


class ForgetfulMount:
    """A folder on a volume of its own, while the block lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pipe, child = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(folder, child), daemon=True)
        self._child = child

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process.start()
        self._child.close()
        self._await("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send(["stop"])
        self._process.join(_PATIENCE_S)
        unmount(self.folder)

    def _await(self, word: str) -> None:
        found = self._hear()
        assert found == word, f"{found!r} instead of {word!r}"

    def _hear(self) -> Any:
        if not self._pipe.poll(_PATIENCE_S):
            raise TimeoutError("the file system does not answer")
        return self._pipe.recv()

    def lose_power(self, mode: PowerLoss, seed: int) -> None:
        """Returns when what is left is mounted again."""
        self._pipe.send(["power", mode.value, seed])
        self._await("ready")

    def facts(self) -> dict[str, int]:
        self._pipe.send(["facts"])
        found: dict[str, int] = self._hear()
        return found
