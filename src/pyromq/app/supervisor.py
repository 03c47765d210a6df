"""Workers of an app: processes that are started, watched, restarted when they die, and drained together.

    supervisor ──spawns──▶ worker 1 … n: python -m pyromq run module:app, told its number in the environment
        │ SIGTERM, SIGINT ──SIGTERM to all──▶ they drain; a second signal ends them at once
        │ a worker died ──▶ a line, a pause that doubles, another one with the same number
        └ a source file changed (reload) ──▶ all drain, all begin anew

A worker that never came up because the app is wrong (exit code 1) is not restarted: the supervisor ends with its code,
or waits for the next change when it reloads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.app.health import RunHealth
from pyromq.app.reloading import POLL_S, Sources
from pyromq.app.worker_link import FD_VARIABLE, LINE_BYTES_MAX, read_report
from pyromq.waiting import set_within

WORKERS_MAX: Final = 256
NUMBER_VARIABLE: Final = "PYROMQ_WORKER"
WRONG_APP_CODE: Final = 1
FIRST_PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 30.0
GOOD_LIFE_S: Final = 30.0  # a worker that lived so long is restarted at once, as if it had never died
SILENT_S: Final = 10.0  # without a beat: its loop is stuck


@dataclass(slots=True)
class Worker:
    """One number, and the process that has it at the moment."""

    number: int
    process: asyncio.subprocess.Process | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    heard_s: float = 0.0
    restarts: int = 0

    @property
    def is_ready(self) -> bool:
        return self.process is not None and self.report.get("ready") is True

    def is_silent(self, now_s: float) -> bool:
        """It was running once and has not been heard of since."""
        return self.is_ready and now_s - self.heard_s > SILENT_S

    def facts(self) -> dict[str, Any]:
        pid = None if self.process is None else self.process.pid
        return {"worker": self.number, "pid": pid, "restarts": self.restarts, "state": "down", **self.report}


class Supervisor:
    """``command`` starts a worker; ``tell(line)`` is for people. ``run`` returns the exit code."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        sources: Sources | None = None,
        tell: Callable[[str], None],
        on_ready: Callable[[], None] = lambda: None,
        first_pause_s: float = FIRST_PAUSE_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._sources = sources
        self._report = tell
        self._on_ready = on_ready
        self._first_pause_s = first_pause_s
        self._environment = dict(os.environ if environment is None else environment)
        self.workers = [Worker(number) for number in range(1, count + 1)]
        self._stopping = asyncio.Event()
        self._change = asyncio.Event()  # of a source file
        self._code = 0
        self._has_been_ready = False

    def health(self) -> RunHealth:
        now_s = time.monotonic()
        is_live = not any(worker.is_silent(now_s) for worker in self.workers)
        is_ready = not self._stopping.is_set() and all(worker.is_ready for worker in self.workers)
        return RunHealth(is_live, is_ready, {"workers": [worker.facts() for worker in self.workers]})

    # --- life ---

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(self._keep(worker)) for worker in self.workers]
                watcher = group.create_task(self._watch_sources()) if self._sources is not None else None
                await asyncio.wait(keepers)
                if watcher is not None:
                    watcher.cancel()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return self._code

    def _signalled(self) -> None:
        if self._stopping.is_set():
            self._report("second signal: workers are ended at once, unfinished messages come again")
            self._signal_all(signal.SIGKILL)
            return
        self._report(f"draining {len(self.workers)} workers")
        self.stop()

    def stop(self) -> None:
        """All drain; none is started any more."""
        self._stopping.set()
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for worker in self.workers:
            if worker.process is not None and worker.process.returncode is None:
                with suppress(ProcessLookupError):
                    worker.process.send_signal(number)

    # --- one worker ---

    async def _keep(self, worker: Worker) -> None:
        """Starts it again and again, until everything stops."""
        pause_s = self._first_pause_s
        while not self._stopping.is_set():
            began_s = time.monotonic()
            code = await self._live(worker)
            if self._stopping.is_set():
                self._code = self._code or (0 if code in (0, -signal.SIGTERM, -signal.SIGKILL) else abs(code))
                return
            if code == WRONG_APP_CODE and not self._has_been_ready:
                if self._sources is None:
                    self._code = code
                    self.stop()
                    return
                await self._changed_or_stopping()
                continue
            if code == 0 and self._sources is not None:  # it was drained for a reload
                continue
            if time.monotonic() - began_s > GOOD_LIFE_S:
                pause_s = self._first_pause_s
            worker.restarts += 1
            self._report(f"worker {worker.number} ended {_how(code)}: starting another one in {pause_s:.1f} s")
            await set_within(self._stopping, pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _live(self, worker: Worker) -> int:
        """One process from start to end; its exit code."""
        ours, theirs = socket.socketpair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            own = {NUMBER_VARIABLE: str(worker.number), FD_VARIABLE: str(theirs.fileno())}
            worker.process = await asyncio.create_subprocess_exec(
                *self._command,
                env={**self._environment, **own},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C comes to the supervisor alone, which passes it on once
            )
        if self._stopping.is_set():
            worker.process.send_signal(signal.SIGTERM)
        hearing = asyncio.create_task(self._hear(worker, ours))
        try:
            return await worker.process.wait()
        finally:
            hearing.cancel()
            with suppress(asyncio.CancelledError):
                await hearing
            ours.close()  # of a process that ended before anybody listened
            worker.process, worker.report = None, {}

    async def _hear(self, worker: Worker, link: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=LINE_BYTES_MAX)
        try:
            with suppress(OSError, ValueError):
                while line := await reader.readline():
                    worker.heard_s = time.monotonic()
                    if report := read_report(line):
                        worker.report = report
                        self._look_whether_ready()
        finally:
            writer.close()

    def _look_whether_ready(self) -> None:
        if not self._has_been_ready and all(worker.is_ready for worker in self.workers):
            self._has_been_ready = True
            self._on_ready()

    # --- reload ---

    async def _watch_sources(self) -> None:
        assert self._sources is not None
        while True:
            await asyncio.sleep(POLL_S)
            if changed := await asyncio.to_thread(self._sources.changed):
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                self._report(f"{changed[0].name}{more} changed: workers begin anew")
                self._has_been_ready = False
                self._change.set()
                self._signal_all(signal.SIGTERM)
                await asyncio.sleep(0)
                self._change.clear()

    async def _changed_or_stopping(self) -> None:
        waits: list[Awaitable[Any]] = [self._change.wait(), self._stopping.wait()]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


def worker_command(target: str, *more: str) -> list[str]:
    """``pyromq run`` in another process of this interpreter."""
    return [sys.executable, "-m", "pyromq", "run", target, *more]


def _how(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"with code {code}"
