"""Servers of PyroMQ as processes of their own: free ports, a ready line, a log; killed, paused and restarted by tests.

    with ServerProcess("up") as server:                 # async with AsyncServerProcess("up") as server
        Producer(server.nameserver, group="shop")
        server.kill()                                   # SIGKILL, as a crash
        server.start()                                  # the same ports, the same data

Output goes to files, so a process never waits for a reader of its pipe.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyromq.errors import MQError

_READY_S: Final = 90.0
_STOP_S: Final = 90.0
_LOOK_S: Final = 0.01
_NOTE_CHARS: Final = 6_000
_PORTS: Final = (12_000, 32_000)  # below the range from which systems take ports of outgoing connections
_READY: Final = re.compile(r"^(?:ready\b|console=).*$", re.MULTILINE)
_PORT_TAKEN: Final = "already in use"
_BESIDE_BROKER: Final = (-2, 1)  # its VIP port, and where replicas connect
_PORT_FLAGS: Final[dict[str, dict[str, Sequence[int]]]] = {
    "up": {"--nameserver-port": (), "--broker-port": _BESIDE_BROKER},
    "broker": {"--port": _BESIDE_BROKER},
    "nameserver": {"--port": ()},
    "console": {"--port": ()},
}
_WITH_DATA: Final = ("up", "broker", "console", "follow")
_WITH_METRICS: Final = ("up", "broker", "nameserver")
_DEFAULTS: Final = {"PYROMQ_BROKER_GRPC_PORT": "0"}  # no flag: earlier versions, which tests start too, have none


class ServerProcessError(MQError, RuntimeError):
    """A server process ended by itself or was not ready in time; the text has the end of its output."""


def free_port(*, neighbours: Sequence[int] = ()) -> int:
    """Choose a loopback port that nothing listens on, nor on the ports at these distances from it.

    Systems give such a port to no outgoing connection, so it is still free when its server was killed and comes back.
    """
    while True:
        port = random.randrange(*_PORTS)
        with ExitStack() as held, suppress(OSError):
            for distance in (0, *neighbours):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port + distance))
            return port


class _Process:
    """What both faces share: the command line, starting and looking, signals; nothing here waits."""

    def __init__(
        self,
        command: str,
        *flags: str,
        data: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        under: Sequence[str] = (),
        ready_s: float = _READY_S,
    ) -> None:
        """``command`` and ``flags`` are those of ``pyromq``; ports and ``--data`` are added where they are not given.

        ``data`` is the folder of its data, by default one that is gone at the end. ``env`` is added to the environment,
        ``under`` are words in front of the command (``["nice"]``), ``ready_s`` is how long a start may take.
        """
        self._flags, self._under, self._cwd, self._ready_s = (command, *flags), tuple(under), cwd, ready_s
        self._env = dict(env or {})
        self._folder = Path(tempfile.mkdtemp(prefix="pyromq-server-"))
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._fixed = self._fixed_flags(command, data)
        self._ports: dict[str, int] = {}
        self._started_at = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, str] = {}
        """What the ready line names: ``nameserver``, ``broker``, ``metrics``, ``console``."""

    def _fixed_flags(self, command: str, data: Path | str | None) -> list[str]:
        given, fixed = set(self._flags), list[str]()
        if command == "up" and not given & {"--console", "--no-console"}:
            fixed.append("--no-console")
        if command in _WITH_METRICS and not given & {"--metrics-port", "--no-metrics"}:
            fixed += ["--metrics-port", "0"]
        if "--console" in given and "--console-port" not in given:
            fixed += ["--console-port", "0"]
        if data is not None or (command in _WITH_DATA and "--data" not in given):
            fixed += ["--data", str(data or self._folder / "data")]
        return fixed

    def set_environment(self, **variables: str) -> None:
        """Change environment variables of the next start."""
        self._env.update(variables)

    # --- what is known of it ---

    @property
    def nameserver(self) -> str:
        """Address of its name server, for clients."""
        return self.addresses["nameserver"]

    @property
    def broker(self) -> str:
        """Address of its broker."""
        return self.addresses["broker"]

    @property
    def pid(self) -> int:
        """Number of the process. Raises ServerProcessError before the first start."""
        if self.process is None:
            raise ServerProcessError("the server was not started: call start() or use a with block")
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while the process runs."""
        return self.process.poll() if self.process is not None else None

    @property
    def output(self) -> str:
        """Standard output of all its starts."""
        return self._text(self._out)

    @property
    def log(self) -> str:
        """Standard error of all its starts: the log of a server."""
        return self._text(self._err)

    @property
    def _out(self) -> Path:
        return self._folder / "out.txt"

    @property
    def _err(self) -> Path:
        return self._folder / "err.txt"

    @staticmethod
    def _text(path: Path) -> str:
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    # --- signals ---

    def signal(self, number: signal.Signals) -> None:
        """Send any signal to the process."""
        os.kill(self.pid, number)

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): sockets stay open, nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process (SIGCONT)."""
        self.signal(signal.SIGCONT)

    # --- steps of the faces ---

    def _spawn(self) -> None:
        if self.is_running:
            raise ServerProcessError("the server runs: stop() or kill() it before another start()")
        for flag, neighbours in _PORT_FLAGS.get(self._flags[0], {}).items():
            if flag not in self._flags and flag not in self._ports:
                self._ports[flag] = free_port(neighbours=neighbours)
        chosen = [word for flag, port in self._ports.items() for word in (flag, str(port))]
        self._started_at = len(self.output)
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(
                [*self._under, sys.executable, "-m", "pyromq", *self._flags, *self._fixed, *chosen],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._cwd,
                env={**_DEFAULTS, **os.environ, **self._env},
            )

    def _steps_to_ready(self) -> Iterator[None]:
        """Start the process and end when it is ready; each step is a moment to wait. Raises ServerProcessError."""
        deadline, logged = time.monotonic() + self._ready_s, len(self.log)
        self._spawn()
        while not (found := _READY.search(self.output, self._started_at)):
            if self.exit_code is not None:
                if not self._lost_a_port(self.log[logged:]) or time.monotonic() > deadline:
                    raise self._failed(f"ended with {self.exit_code} before it was ready")
                if not self.addresses:
                    self._ports.clear()  # somebody else was faster
                logged = len(self.log)
                self._spawn()
            elif time.monotonic() > deadline:
                self._end()
                raise self._failed(f"was not ready within {self._ready_s} s")
            yield
        self.addresses = dict(re.findall(r"(\w+)=(\S+)", found[0]))

    def _lost_a_port(self, log: str) -> bool:
        """Whether somebody else has a port that was chosen here: another one, or the same a little later, will do."""
        return _PORT_TAKEN in log and any(str(port) in log for port in self._ports.values())

    def _steps_to(self, pattern: str, timeout_s: float) -> Iterator[None]:
        deadline = time.monotonic() + timeout_s
        while self._found(pattern) is None:
            if time.monotonic() > deadline:
                raise self._failed(f"said nothing like {pattern!r} within {timeout_s} s")
            yield

    def _found(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.output, re.MULTILINE) or re.search(pattern, self.log, re.MULTILINE)

    def _steps_to_end(self, timeout_s: float) -> Iterator[None]:
        deadline = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline:
                self._end()
                raise self._failed(f"did not stop within {timeout_s} s")
            yield

    def _terminate(self) -> None:
        if self.is_running:
            self.signal(signal.SIGTERM)

    def _end(self) -> None:
        """Kill the process and wait until it is gone, which takes no time that matters."""
        if self.process is not None and self.is_running:
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def _failed(self, what: str) -> ServerProcessError:
        return ServerProcessError(f"pyromq {' '.join(self._flags)} {what}{self._note()}")

    def _note(self) -> str:
        return f"\n--- output\n{self.output[-_NOTE_CHARS:]}\n--- log\n{self.log[-_NOTE_CHARS:]}"

    def _close(self, error: BaseException | None) -> None:
        self._end()
        if error is not None:
            error.add_note(f"pyromq {self._flags[0]} said:{self._note()}")
        self._remove_folder()


class ServerProcess(_Process):
    """A ``pyromq`` server as a process: ready when the ``with`` block begins, killed when it ends.

    It keeps its ports and its data when it is started again. An error that leaves the block carries the end of its
    output as a note.
    """

    def start(self) -> None:
        """Start the process and return when it is ready. Raises ServerProcessError."""
        for _ in self._steps_to_ready():
            time.sleep(_LOOK_S)

    def stop(self, timeout_s: float = _STOP_S) -> int:
        """Stop it as an operator does (SIGTERM) and return its exit code. Raises ServerProcessError when it stays."""
        self._terminate()
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = _STOP_S) -> int:
        """Return its exit code when it has ended. Raises ServerProcessError when it stays; then it was killed."""
        for _ in self._steps_to_end(timeout_s):
            time.sleep(_LOOK_S)
        return self.exit_code or 0

    def kill(self) -> None:
        """Kill it (SIGKILL), as a crash of the process does; harmless when it has ended."""
        self._end()

    def restart(self) -> None:
        """Stop it in order and start it again at the same addresses. Raises ServerProcessError."""
        self.stop()
        self.start()

    def wait_for(self, pattern: str, timeout_s: float = _READY_S) -> re.Match[str]:
        """Return the first match of a regular expression in its output or log. Raises ServerProcessError."""
        for _ in self._steps_to(pattern, timeout_s):
            time.sleep(_LOOK_S)
        found = self._found(pattern)
        assert found is not None
        return found

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close(None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)


class AsyncServerProcess(_Process):
    """``ServerProcess`` for coroutines: ``async with``, and ``await`` for what waits; the loop goes on meanwhile."""

    async def start(self) -> None:
        """Start the process and return when it is ready. Raises ServerProcessError."""
        for _ in self._steps_to_ready():
            await asyncio.sleep(_LOOK_S)

    async def stop(self, timeout_s: float = _STOP_S) -> int:
        """Stop it as an operator does (SIGTERM) and return its exit code. Raises ServerProcessError when it stays."""
        self._terminate()
        return await self.wait(timeout_s)

    async def wait(self, timeout_s: float = _STOP_S) -> int:
        """Return its exit code when it has ended. Raises ServerProcessError when it stays; then it was killed."""
        for _ in self._steps_to_end(timeout_s):
            await asyncio.sleep(_LOOK_S)
        return self.exit_code or 0

    async def kill(self) -> None:
        """Kill it (SIGKILL), as a crash of the process does; harmless when it has ended."""
        self._end()

    async def restart(self) -> None:
        """Stop it in order and start it again at the same addresses. Raises ServerProcessError."""
        await self.stop()
        await self.start()

    async def wait_for(self, pattern: str, timeout_s: float = _READY_S) -> re.Match[str]:
        """Return the first match of a regular expression in its output or log. Raises ServerProcessError."""
        for _ in self._steps_to(pattern, timeout_s):
            await asyncio.sleep(_LOOK_S)
        found = self._found(pattern)
        assert found is not None
        return found

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self._close(None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)
