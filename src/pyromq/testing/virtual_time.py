"""Virtual time: an event loop whose clock a test moves, so that everything that waits for time follows.

    the loop has nothing to do ─▶ are bytes under way, do threads work? ─▶ wait for them, really
                                  else the loop is settled:
                                      ``settle`` returns
                                      ``advance`` moves the clock to the next timer, and the loop goes on
                                      a caller waits (a sync call, an awaiting test): the clock moves for it, too
                                      nobody waits: time stands still

Sleeps, timeouts and ``call_later`` are the loop's, so heartbeats, long polls, rebalances, retries and ticks happen in
the order of their times, each when all before it is over. Timers that were set for less than a second (ticks) need no
step of their own while ``advance`` moves in steps of up to a second.

In a long advance most of the time nothing happens but heartbeats, empty pulls and the like. After ``CALM_MS`` of that,
the clock leaps to shortly before the next delayed message, or the end: the wall clock moves and the monotonic one does
not, as on a machine that was suspended, so nothing expires. It never leaps while a listener runs, a prepared message
waits, or something of the application sleeps for long.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from pyromq.errors import ConfigError, MQError
from pyromq.testing.bytes_under_way import BytesUnderWay
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.thread_jobs import ThreadJobs

CALM_MS: Final = 150_000  # longer than any silence that servers tolerate
_CALM_AGAIN_MS: Final = 5_000  # after a message, within one advance
_STEP_MS_MAX: Final = 1_000
_EXACT_MS: Final = 2_000  # of a wait in which nothing happens: every timer has a step of its own
_SHORT_S: Final = 1.0  # timers that were set for less wait for the next step
_LONG_S: Final = 60.0  # more than anything that repeats by itself
_LEAP_MS_MAX: Final = 86_400_000
_STOP_SHORT_MS: Final = 1_000  # of what a leap leads to
_DELIVERY_S: Final = 0.05  # for bytes between our own sockets
_LOOK_S: Final = 0.5
_ROUTINE_TASKS: Final = frozenset(("consume timeouts",))  # waits for long, and only looks around then
_LISTENER_TASKS: Final = frozenset(("listener", "orderly run", "consume-directly", "check"))


class NotSettledError(MQError, TimeoutError):
    """Something on a thread goes on for too long: virtual time cannot pass."""


class Timed(Protocol):
    """A server that keeps messages until a time of the wall clock."""

    def next_due_ms(self, until_ms: int) -> int:
        """When the next message is due, or ``until_ms`` if none is before."""

    def look(self) -> None:
        """Lets go what is due, as it does by itself now and then."""

    def log_end(self) -> int:
        """End of the log, which grows with every message."""

    def is_undecided(self) -> bool:
        """A prepared message waits for its outcome."""

    def leapt(self) -> None:
        """The wall clock has moved, and that is right."""


class _Goal:
    def __init__(self, at_ms: int, calm_from_ms: int, reached: asyncio.Future[None]) -> None:
        self.at_ms = at_ms
        self.calm_from_ms = calm_from_ms  # a leap is allowed from then on
        self.reached = reached


class VirtualTime:
    """The time of one loop. ``has_callers`` says whether someone waits for the loop; without it, always."""

    def __init__(self, clock: ManualClock, *, settle_s_max: float = 30.0) -> None:
        self.clock = clock
        self.jobs = ThreadJobs(self._wake)
        self.servers: list[Timed] = []
        self.has_callers: Callable[[], bool] = lambda: True
        self._settle_s_max = settle_s_max
        self._passed_ms = 0  # since the beginning, leaps included
        self._base_s = 0.0  # of the loop's time
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # all but short ones, the next first
        self._set = 0  # how many were set
        self._long: list[asyncio.TimerHandle] = []
        self._settling: list[asyncio.Future[None]] = []
        self._goals: list[_Goal] = []
        self._log_end = 0
        self._waited_ms = 0  # passed for callers, since something happened
        self._has_looked = True  # servers have, since the clock moved
        self._busy_since: float | None = None  # real time: since when jobs keep someone waiting
        self._outside: list[asyncio.TimerHandle] = []  # set before, by the real clock
        self._loop: Any = None

    # --- the loop ---

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the loop has this time. Timers that it had keep to the real one. Raises ConfigError."""
        if not isinstance(loop, asyncio.SelectorEventLoop):
            name = f"{type(loop).__module__}.{type(loop).__qualname__}"
            raise ConfigError(f"virtual time needs asyncio's own selector event loop, and this one is {name}")
        self._loop = loop
        inside: Any = loop
        self._base_s = loop.time() - self.clock.monotonic_s()
        self._outside, inside._scheduled = inside._scheduled, []
        self._real_time, self._plain_call_at = loop.time, loop.call_at
        self._poll = inside._selector.select
        self._under_way = BytesUnderWay(loop, inside._selector)
        inside.time, inside.call_at, inside._selector.select = self.time, self._call_at, self._select
        self.jobs.count_jobs_of(loop)
        if loop.is_running():
            self.jobs.entered()

    def uninstall(self) -> None:
        """The loop has the real time again; what still waits goes on waiting for as long as it had to."""
        loop, back_s = self._loop, self._real_time() - self.time()
        for name in ("time", "call_at", "run_in_executor"):
            delattr(loop, name)
        del loop._selector.select
        for handle in loop._scheduled:
            handle._when += back_s
        loop._scheduled += self._outside
        heapq.heapify(loop._scheduled)

    def time(self) -> float:
        return self._base_s + self.clock.monotonic_s()

    def _call_at(self, when: float, callback: Any, *arguments: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = self._plain_call_at(when, callback, *arguments, context=context)
        delay_s = when - self.time()
        if delay_s >= _SHORT_S:
            self._set += 1
            heapq.heappush(self._timers, (when, self._set, handle))
            if delay_s > _LONG_S:
                self._long = [each for each in self._long if not each.cancelled() and each.when() > self.time()]
                self._long.append(handle)
        return handle

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(lambda: None)

    # --- for tests, on the loop ---

    async def settle(self) -> None:
        """Returns when there is nothing left to do at this moment. Raises NotSettledError."""
        settled = self._loop.create_future()
        self._settling.append(settled)
        await settled

    async def advance(self, duration_ms: int, *, leap: bool = True) -> None:
        """Lets time pass, everything in it happens, and settles. Raises ValueError, NotSettledError."""
        if duration_ms < 0:
            raise ValueError("time passes forwards")
        await self.settle()
        calm_ms = CALM_MS if leap else duration_ms
        goal = _Goal(self._passed_ms + duration_ms, self._passed_ms + calm_ms, self._loop.create_future())
        self._goals.append(goal)
        await goal.reached

    # --- what happens when the loop has nothing to do ---

    def _select(self, timeout: float | None = None) -> Sequence[Any]:
        self.jobs.entered()
        if self._outside:
            self._call_outside_timers()
        found = self._poll(0)
        if found or (timeout is not None and timeout <= 0):
            self._busy_since = None
            return list(found)
        if self._under_way.any():
            found = self._poll(_DELIVERY_S)
            if not found:
                self._under_way.give_up()
            return list(found)
        if self.jobs.is_running:
            self._give_up_on_jobs()
            return list(self._poll(_LOOK_S))
        self._busy_since = None
        has_callers = self.has_callers()
        if found := self._poll(0):  # a job that has ended, or a caller that came, since the first look: told before it
            return list(found)
        if self._go_on(has_callers):
            return []
        return list(self._poll(_LOOK_S if self._outside else None))

    def _go_on(self, has_callers: bool) -> bool:
        """The loop is settled: tell those who wait for it, or move the clock; False when nobody waits."""
        if not self._has_looked:  # a tick may come later than the step
            self._has_looked = True
            for server in self.servers:
                server.look()
            return True
        if self._settling:
            settling, self._settling = self._settling, []
            for future in settling:
                _resolve(future)
            self._waited_ms = 0
            return True
        self._goals = [goal for goal in self._goals if not goal.reached.done()]
        if self._goals:
            self._pass_time(min(self._goals, key=lambda goal: goal.at_ms))
            return True
        return has_callers and self._pass_to_next_timer()

    def _pass_time(self, goal: _Goal) -> None:
        left_ms = goal.at_ms - self._passed_ms
        if left_ms <= 0:
            self._waited_ms = 0
            _resolve(goal.reached)
            return
        now_ms = self.clock.now_ms()
        if self._is_log_longer():
            goal.calm_from_ms = max(goal.calm_from_ms, self._passed_ms + _CALM_AGAIN_MS)
        if left_ms > _STEP_MS_MAX and self._passed_ms >= goal.calm_from_ms and self._may_leap():
            leap_ms = self._next_due_ms(now_ms + min(left_ms, _LEAP_MS_MAX)) - now_ms - _STOP_SHORT_MS
            if leap_ms > _STEP_MS_MAX:
                self._leap(leap_ms)
                return
        self._move(min(left_ms, self._step_ms()))

    def _pass_to_next_timer(self) -> bool:
        scheduled = [handle.when() for handle in self._loop._scheduled if not handle.cancelled()]
        if not scheduled:
            return False
        if self._is_log_longer():
            self._waited_ms = 0
        step_ms = self._step_ms()
        if self._waited_ms < _EXACT_MS:  # what a caller waits for may take less than a second
            step_ms = min(step_ms, self._in_ms(min(scheduled)))
        self._waited_ms += step_ms
        self._move(step_ms)
        return True

    def _move(self, step_ms: int) -> None:
        self._passed_ms += step_ms
        self._has_looked = False
        self.clock.advance_ms(step_ms)

    def _leap(self, leap_ms: int) -> None:
        self._passed_ms += leap_ms
        self.clock.set_ms(self.clock.now_ms() + leap_ms)
        for server in self.servers:
            server.leapt()

    def _may_leap(self) -> bool:
        if self.jobs.any or any(server.is_undecided() for server in self.servers):
            return False
        if any(not handle.cancelled() and not _is_routine(handle) for handle in self._long if self._is_ahead(handle)):
            return False
        return not any(task.get_name() in _LISTENER_TASKS for task in asyncio.all_tasks(self._loop))

    def _is_log_longer(self) -> bool:
        """Than the last time."""
        before, self._log_end = self._log_end, sum(server.log_end() for server in self.servers)
        return before != self._log_end

    # --- what comes next ---

    def _step_ms(self) -> int:
        now_ms = self.clock.now_ms()
        return max(1, min(self._next_timer_ms(), self._next_due_ms(now_ms + _STEP_MS_MAX) - now_ms))

    def _next_timer_ms(self) -> int:
        """Until the next timer that is not a short one; at most one step."""
        while self._timers and (self._timers[0][2].cancelled() or not self._is_ahead(self._timers[0][2])):
            heapq.heappop(self._timers)
        return min(_STEP_MS_MAX, self._in_ms(self._timers[0][0])) if self._timers else _STEP_MS_MAX

    def _next_due_ms(self, until_ms: int) -> int:
        return min((server.next_due_ms(until_ms) for server in self.servers), default=until_ms)

    def _in_ms(self, when: float) -> int:
        return max(1, math.ceil((when - self.time()) * 1000 - 1e-4))

    def _is_ahead(self, handle: asyncio.TimerHandle) -> bool:
        return handle.when() > self.time() + 1e-7

    # --- real time ---

    def _call_outside_timers(self) -> None:
        now = self._real_time()
        for handle in [each for each in self._outside if each.when() <= now or each.cancelled()]:
            self._outside.remove(handle)
            if not handle.cancelled():
                self._loop.call_soon(handle._run)

    def _give_up_on_jobs(self) -> None:
        now = time.monotonic()
        if self._busy_since is None:
            self._busy_since = now
        elif now - self._busy_since > self._settle_s_max:
            text = f"a job on a thread (a listener?) has gone on for {self._settle_s_max:g} s: time cannot pass"
            waiting = [*self._settling, *(goal.reached for goal in self._goals)]
            self._settling, self._goals, self._busy_since = [], [], None
            for future in waiting:
                if not future.done():
                    future.set_exception(NotSettledError(text))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_routine(handle: asyncio.TimerHandle) -> bool:
    """The timeout of a task of ours that waits for long."""
    timeout = getattr(getattr(handle, "_callback", None), "__self__", None)
    task = getattr(timeout, "_task", None)
    return isinstance(task, asyncio.Task) and task.get_name() in _ROUTINE_TASKS
