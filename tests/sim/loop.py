"""An event loop of many simulated processes: one thread, virtual time, no sockets, no worker threads.

    ready handles ─▶ run, each as the process that it belongs to ─▶ none left: the clock moves to the next timer

Every handle carries a context, and the context says which process scheduled it; so tasks, callbacks and timers of one
process can be stopped for a while (``paused``) or for good (``dead``) without a word to them. ``time()`` is the clock
of the machine whose process runs: machines may be fast or slow, or suspended for a while. Jobs for executors run
between two turns, when the disk of their machine has had its time for them.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from random import Random
from typing import Any, Final

_id = id  # as it is: while a simulation runs, that of some objects is another one
_CLOSES_MAX: Final = 20
_TASKS_MAX: Final = 1_000
_CANCELLED_MAX: Final = 200  # timers that are kept though nobody wants them


class Machine:
    """A clock, an address, and whether it has power."""

    def __init__(self, name: str, ip: str, *, rate: float = 1.0, wall_ms: int = 0) -> None:
        self.name = name
        self.ip = ip
        self.rate = rate  # of its clocks, against the true time
        self.wall_ms = wall_ms  # its wall clock at the beginning
        self.jumped_ms = 0  # what somebody set it forward since
        self.has_power = True
        self.slept_s = 0.0  # while it was suspended: its monotonic clock stood still, and no other
        self.asleep_since_s: float | None = None
        self.processes: list[Process] = []
        self.disk_ms: tuple[float, float] = (0.2, 2.0)  # that a job for the disk takes


class Process:
    """What one program does: its tasks are those that were begun in its context."""

    def __init__(self, name: str, machine: Machine, number: int) -> None:
        self.name = name
        self.machine = machine
        self.number = number  # stands for a process id
        self.is_dead = False
        self.is_paused = machine.asleep_since_s is not None
        self.backlog: list[SimHandle] = []  # what comes while it is paused
        self.on_death: list[Callable[[], None]] = []
        self.context = contextvars.copy_context()
        self.context.run(OF_HANDLE.set, self)
        machine.processes.append(self)

    def __repr__(self) -> str:
        return self.name


OF_HANDLE: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Numbered:
    """Hashes that do not depend on addresses in memory: sets have the same order in every run."""

    next_hash: Callable[[], int] = count(1).__next__

    @staticmethod
    def begin() -> None:
        Numbered.next_hash = count(1).__next__


class SimHandle:
    """What ``call_soon`` returns: as asyncio's, with less in it, for there are hundreds in a simulated second."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def __repr__(self) -> str:
        return f"<handle of {self.callback!r}>"


class SimTimer(SimHandle):
    """What ``call_at`` returns; its time is the true one."""

    __slots__ = ("is_waiting", "loop", "when_s")

    def __init__(
        self, when_s: float, callback: Any, args: tuple[Any, ...], context: contextvars.Context, loop: SimLoop
    ) -> None:
        self.callback = callback  # as the other handles, without a call: half of all are timers
        self.args = args
        self.context = context
        self.is_cancelled = False
        self.when_s = when_s
        self.loop = loop
        self.is_waiting = True

    def when(self) -> float:
        return self.when_s

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.is_waiting:
                self.loop.timer_cancelled()


class SimTask(asyncio.Task):  # type: ignore[type-arg]
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.number = Numbered.next_hash()
        super().__init__(*arguments, **named)
        self._log_destroy_pending = False
        loop: Any = self.get_loop()
        loop.keep(self)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future):  # type: ignore[type-arg]
    __slots__ = ("number",)  # whoever makes it gives it one: a hundred are made in a simulated second

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """``true_s`` is the time that nobody inside can see."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.true_s = 0.0
        self.current: Process | None = None
        self.turns = 0
        self.rng = rng  # of how long jobs take
        self.network: Any = None
        self.errors: list[str] = []
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimTimer]] = []
        self._tasks_max = _TASKS_MAX
        self._set = 0
        self._cancelled = 0
        self._free_s: dict[int, float] = {}  # executors, and when each has done its last job
        self._tasks: list[SimTask] = []  # none is freed while it waits, for its process may be dead
        self._waiting: dict[
            int, dict[Callable[[], None], SimTimer]
        ] = {}  # executors, and the jobs that they have not done
        self._kept: list[Any] = []  # executors stay, so that no other gets their number
        self.set_task_factory(lambda loop, coro, **named: SimTask(coro, loop=loop, **named))
        self.set_exception_handler(self._note_error)

    def create_future(self) -> asyncio.Future[Any]:
        future = SimFuture(loop=self)
        future.number = Numbered.next_hash()
        return future

    def keep(self, task: SimTask) -> None:
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tasks_max = max(_TASKS_MAX, 2 * len(self._tasks))

    # --- time ---

    def time(self) -> float:
        process = self.current
        if process is None:
            return self.true_s
        machine = process.machine
        return (self.true_s - machine.slept_s) * machine.rate

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        process = self.current
        true_when = when / process.machine.rate + process.machine.slept_s if process is not None else when
        return self.call_at_true(true_when, callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """As ``call_at`` of ``time() + delay``, without the calls."""
        process = self.current
        when_s = self.true_s + (delay if process is None else delay / process.machine.rate)
        timer = SimTimer(when_s, callback, args, context or contextvars.copy_context(), self)
        self._set += 1
        heapq.heappush(self._timers, (when_s, self._set, timer))
        return timer

    def call_at_true(self, when_s: float, callback: Any, *args: Any, context: Any = None) -> SimTimer:
        timer = SimTimer(when_s, callback, args, context or contextvars.copy_context(), self)
        self._set += 1
        heapq.heappush(self._timers, (when_s, self._set, timer))
        return timer

    def call_for(self, process: Process | None, when_s: float, callback: Any, *args: Any) -> SimTimer:
        """At a true time, as that process (None: as the simulator)."""
        timer = SimTimer(when_s, callback, args, process.context if process is not None else OUTSIDE, self)
        self._set += 1
        heapq.heappush(self._timers, (when_s, self._set, timer))
        return timer

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = SimHandle(callback, args, context or contextvars.copy_context())
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _CANCELLED_MAX and self._cancelled * 2 > len(self._timers):
            self._timers = [each for each in self._timers if not each[2].is_cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_once(self) -> None:
        """Everything until the loop is stopped: iterations mean nothing where no socket is waited for."""
        ready = self._ready
        while not self._stopping:  # type: ignore[attr-defined]
            if not ready:
                self._move_clock()
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            process = handle.context.get(OF_HANDLE)
            if process is not None:
                if process.is_dead:
                    continue
                if process.is_paused:
                    process.backlog.append(handle)
                    continue
            self.current = process
            self.turns += 1
            try:  # as ``Handle._run`` does it, without a call in between
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._failed(error, handle)
        self.current = None

    def _failed(self, error: BaseException, what: object) -> None:
        self.call_exception_handler({"message": f"Exception in callback {what!r}", "exception": error})

    def run_as(self, process: Process, callback: Callable[[], None]) -> None:
        """In the middle of a turn of the simulator, as that process, which is neither dead nor paused."""
        before, self.current = self.current, process
        try:
            process.context.run(callback)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._failed(error, callback)
        finally:
            self.current = before

    def _move_clock(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)[2].is_waiting = False
            self._cancelled = max(0, self._cancelled - 1)
        if not timers:
            raise RuntimeError("nothing will ever happen again in this simulation")
        if timers[0][0] > self.true_s:
            self.true_s = timers[0][0]
        until = self.true_s + 1e-9
        while timers and timers[0][0] <= until:
            timer = heapq.heappop(timers)[2]
            timer.is_waiting = False
            ready.append(timer)

    def forget_all(self) -> None:
        """Nothing happens any more.

        Last blocks of tasks that never ended run now, without a loop: what they make for one is never awaited.
        """
        self.set_exception_handler(lambda *_: None)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* was never awaited", RuntimeWarning)
            for task in self._tasks:
                _close(task.get_coro())
        self._tasks.clear()
        self._timers.clear()
        self._ready.clear()
        self._kept.clear()
        self.network = None

    # --- processes ---

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        before, self.current = self.current, process
        try:
            task: asyncio.Task[Any] = process.context.run(self.create_task, work, name=name)
        finally:
            self.current = before
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(f"{task.get_name()} ended: {error!r}")

    def suspend(self, machine: Machine) -> None:
        """As a virtual machine, or a laptop: its processes stand still, and so does their monotonic clock."""
        machine.asleep_since_s = self.true_s
        for process in machine.processes:
            process.is_paused = True

    def wake(self, machine: Machine) -> None:
        """Timers of its processes come as much later as it has slept."""
        assert machine.asleep_since_s is not None
        slept_s, machine.asleep_since_s = self.true_s - machine.asleep_since_s, None
        machine.slept_s += slept_s
        timers = [self._later_by(slept_s, each) if _is_of(machine, each[2]) else each for each in self._timers]
        for process in machine.processes:
            due = [each for each in process.backlog if isinstance(each, SimTimer)]
            process.backlog = [each for each in process.backlog if not isinstance(each, SimTimer)]
            timers += [self._later_by(slept_s, (each.when_s, 0, each)) for each in due]
            self.resume(process)
        self._timers = timers
        heapq.heapify(self._timers)

    def _later_by(self, slept_s: float, entry: tuple[float, int, SimTimer]) -> tuple[float, int, SimTimer]:
        timer = entry[2]
        timer.when_s += slept_s
        timer.is_waiting = True
        self._set += 1
        return timer.when_s, self._set, timer

    def resume(self, process: Process) -> None:
        """It goes on, unless its machine is suspended."""
        if process.machine.asleep_since_s is not None:
            return
        process.is_paused = False
        self._ready.extend(process.backlog)
        process.backlog = []

    # --- what sockets and threads would do ---

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """The job runs between turns, alone; those of one executor in their order."""
        future = self.create_future()

        def ended(error: BaseException | None, result: Any) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.do_job(executor, lambda: func(*args), ended)
        return future

    def do_job(self, worker: Any, job: Callable[[], Any], ended: Callable[[BaseException | None, Any], None]) -> None:
        process = self.current
        low_ms, high_ms = process.machine.disk_ms if process is not None else (0.0, 0.0)
        begins_s = self.true_s
        if worker is not None:
            key = _id(worker)
            free_s = self._free_s.get(key)
            if free_s is None:
                self._kept.append(worker)
            elif free_s > begins_s:
                begins_s = free_s
        runs_s = begins_s + self.rng.uniform(low_ms, high_ms) / 2000
        ends_s = runs_s + self.rng.uniform(low_ms, high_ms) / 2000
        if worker is not None:
            self._free_s[key] = ends_s

        def run() -> None:
            if waiting is not None:
                del waiting[run]
            error: BaseException | None = None
            result = None
            try:
                result = job()
            except BaseException as caught:  # told to who waits
                error = caught
            self.call_at_true(ends_s, ended, error, result)

        timer = self.call_at_true(runs_s, run)
        waiting = self._waiting.setdefault(key, {}) if worker is not None else None
        if waiting is not None:
            waiting[run] = timer

    def finish(self, worker: Any) -> None:
        """What was handed to it is done now, as a thread that is waited for does it."""
        waiting = self._waiting.get(_id(worker), {})
        for run, timer in list(waiting.items()):
            timer.cancel()
            run()

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.network.connect(self.current, protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.serve(self.current, protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(2, 1, 6, "", (host, port))]

    def _write_to_self(self) -> None:
        """Nobody waits for a socket."""

    def _note_error(self, _: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        who = self.current.name if self.current else "simulator"
        self.errors.append(f"{who}: {context.get('message')}: {error!r}")


def _is_of(machine: Machine, timer: SimTimer) -> bool:
    process = timer.context.get(OF_HANDLE)
    return process is not None and process.machine is machine


def _close(coroutine: Any) -> None:
    for _ in range(_CLOSES_MAX):  # blocks that await something at their end are closed there, too
        try:
            coroutine.close()
            return
        except BaseException:  # whatever it says: nobody is there to hear it
            continue


OUTSIDE: Final = contextvars.copy_context()
