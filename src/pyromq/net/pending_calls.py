"""Our requests on one connection: futures of responses, one timer for all deadlines, and whether the peer is there.

A request that times out may mean a slow server. If not one byte has come since the first unanswered request, and that
for long enough, there is no server any more (a cut cable, a vanished machine): the half-open connection is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakMethod

from pyromq.clock import Clock
from pyromq.compiled_core import SentFacts
from pyromq.errors import ConnectionLostError, RequestTimeoutError, TooManyRequestsError
from pyromq.net.pending_requests import NEVER_MS, PendingRequest, PendingRequests
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SWEEP_MS_MIN: Final = 10  # between two looks for late requests


class PendingCalls:
    """``on_half_open(silence_ms)``, a method of who owns this, is called when the peer seems to be gone.

    The owner is held weakly, and a timer only while it is armed: a connection that has ended must be free at once,
    without the garbage collector.
    """

    def __init__(
        self, clock: Clock, peer: str, in_flight_max: int, half_open_ms: int, on_half_open: Callable[[int], None]
    ) -> None:
        self.pending = PendingRequests()
        self._clock = clock
        self._peer = peer
        self._in_flight_max = in_flight_max
        self._half_open_ms = half_open_ms
        self._on_half_open = WeakMethod(on_half_open)
        self._loop = asyncio.get_running_loop()
        self.now_ms = 0  # monotonic, as of the last ``read_clock``
        self.wall_ms = -1  # what the wall clock said then; who does not know leaves it
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS  # when the timer is due
        self.unheard_ms = NEVER_MS  # when the first request after the last read was sent; set back by every read

    def read_clock(self, wall_ms: int) -> None:
        """Requests from now on count from now on. Who sends many has the wall clock's milliseconds anyway: while they
        are the same, this was called already."""
        self.wall_ms = wall_ms
        self.now_ms = self._clock.monotonic_ms()

    def next_id(self, *, oneway: bool = False) -> int:
        """The id of a request. Raises TooManyRequestsError."""
        if not oneway and len(self.pending.by_id) >= self._in_flight_max:
            raise TooManyRequestsError(peer=self._peer, in_flight_max=self._in_flight_max)
        return self.pending.next_id()

    def expect(
        self, number: int, code: int, timeout_ms: int, takes_facts: bool = False
    ) -> asyncio.Future[Received[Any]]:
        """The response to the request with that id, which was just sent."""
        now_ms = self.now_ms
        deadline_ms = now_ms + timeout_ms
        response: asyncio.Future[Received[Any]] = self._loop.create_future()
        self.pending.by_id[number] = PendingRequest(response, deadline_ms, timeout_ms, code, takes_facts)
        if deadline_ms < self._timer_ms:
            self._arm(deadline_ms, timeout_ms)
        if now_ms < self.unheard_ms:
            self.unheard_ms = now_ms
        return response

    def answered(self, received: Received[Any]) -> None:
        pending = self.pending.by_id.pop(received.correlation_id, None)
        if pending is None:
            logger.debug("response to no request: peer=%s id=%d", self._peer, received.correlation_id)
        elif not pending.response.done():  # its caller may have given up
            pending.response.set_result(received)

    def answered_by(self, found: list[tuple[int, int, SentFacts]]) -> list[tuple[int, int]]:
        """Ends the wait of requests that take facts; where responses begin and end that are for others, or for none."""
        by_id, start = self.pending.by_id, 0
        others: list[tuple[int, int]] = []
        for number, end, facts in found:
            pending = by_id.get(number)
            if pending is None or not pending.takes_facts:
                others.append((start, end))
            else:
                del by_id[number]
                if not pending.response.done():
                    pending.response.set_result(facts)
            start = end
        return others

    def fail_late(self) -> None:
        """Ends the wait for responses that are overdue; the timer calls it."""
        now_ms = self._clock.monotonic_ms()
        late, next_ms = self.pending.take_late(now_ms)
        self._disarm()
        if next_ms != NEVER_MS:
            self._arm(next_ms, next_ms - now_ms)
        for pending in late:
            if not pending.response.done():
                pending.response.set_exception(self.timeout_error(pending.code, pending.timeout_ms))
        if late:
            self._suspect(now_ms)

    def fail_all(self, reason: str) -> None:
        """Fail all calls, because the connection has ended."""
        self._disarm()
        for pending in self.pending.take_all():
            if not pending.response.done():
                pending.response.set_exception(self.lost_error(reason))

    def timeout_error(self, code: int, timeout_ms: int) -> RequestTimeoutError:
        text = f"{self._peer} did not answer request code {code} within {timeout_ms} ms"
        return RequestTimeoutError(text, peer=self._peer, code=code, timeout_ms=timeout_ms)

    def lost_error(self, reason: str) -> ConnectionLostError:
        return ConnectionLostError(
            f"connection to {self._peer} ended: {reason or 'it is being closed'}", peer=self._peer
        )

    def _arm(self, deadline_ms: int, delay_ms: int) -> None:
        self._disarm()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(max(delay_ms, SWEEP_MS_MIN) / 1000, self.fail_late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, NEVER_MS

    def _suspect(self, now_ms: int) -> None:
        if self.unheard_ms == NEVER_MS:
            self.unheard_ms = now_ms  # the late ones were asked before the last read
        elif self._half_open_ms and now_ms - self.unheard_ms >= self._half_open_ms:
            on_half_open = self._on_half_open()
            if on_half_open is not None:
                on_half_open(now_ms - self.unheard_ms)
