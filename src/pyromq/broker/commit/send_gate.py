"""Flow control for sends: which wait, and which are refused for now, while the disk does not keep up.

    disk keeps up                      ─▶ sends pass
    too many sends wait for the disk   ─▶ the next ones wait here, in order; those that wait too long, or for which
                                          there is no room, are refused     [TIMEOUT_CLEAN_QUEUE]  [OVERLOAD]
    one flush takes too long (stuck)   ─▶ no send waits: refused at the door, and those that wait here too
                                                                            [REJECTREQUEST]  [PCBUSY_CLEAN_QUEUE]
    other requests that write          ─▶ refused while the disk is stuck    [PC_SYNCHRONIZED]

"Wait for the disk" means, with async flush: so many bytes are written and not flushed that a power cut would take more
than ``unflushed_bytes_max``. A single flush that takes long counts there only once that much is written.

The tags are RocketMQ's: clients know them, and try another broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyromq.broker.base.authority import Authority
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import send_refusal
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.pressure import Pressure
from pyromq.clock import Clock
from pyromq.net.connection import Connection
from pyromq.net.turns import TURN_S
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SCAN_S = 0.01
HOLD_MS_MAX: Final = 5_000  # a planned change of master keeps sends waiting no longer
_HELD: Final = "the master changes at this moment, as planned: try again"

OnRequests = Callable[[Connection, list[Received[Any]]], None]
"""Where sends go on that had to wait at the gate."""


class _Parked(NamedTuple):
    connection: Connection
    request: Received[Any]
    since_ms: int


class SendGate:
    """Owns the sends that wait for room. ``handle`` takes them again, in the order in which they came."""

    def __init__(
        self,
        pressure: Pressure,
        authority: Authority,
        counters: Counters,
        settings: BrokerSettings,
        clock: Clock,
        handle: OnRequests,
    ) -> None:
        self.pressure = pressure
        self._authority = authority
        self._counters = counters
        self._settings = settings
        self._clock = clock
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._parked: deque[_Parked] = deque()  # oldest first
        self._parked_bytes = 0  # bodies of these
        self._scanning = False  # a scan is arranged
        self.draining = False  # parked sends are being handled, and pass
        self.closed = False  # ``passes`` has to be asked before a send may pass
        self.is_held = False  # all sends wait, for a planned change of master
        self._close_or_open()

    def __len__(self) -> int:
        return len(self._parked)

    def head_wait_ms(self) -> int:
        return self._clock.monotonic_ms() - self._parked[0].since_ms if self._parked else 0

    def passes(self, connection: Connection, request: Received[Any]) -> bool:
        """False: it waits here and is handled later. Raises RefusedError. Ask only while ``closed``."""
        if self.draining or not self.is_held:
            self._authority.check_accept()
        if self.pressure.is_stuck:
            self._counters.refused_at_door += 1
            raise self._refused("[REJECTREQUEST]system busy, start flow control for a while")
        if self.draining or not (self._parked or self.pressure.is_busy or self.is_held):
            return True
        size = len(request.body)
        full = len(self._parked) >= self._settings.parked_sends_max
        if full or self._parked_bytes + size > self._settings.parked_bytes_max:
            raise self._overloaded()
        self._parked.append(_Parked(connection, request, self._clock.monotonic_ms()))
        self._parked_bytes += size
        self._scan_soon()
        return False

    def check_stuck(self) -> None:
        """For other requests that write: raises RefusedError while the disk is stuck, or the broker not master."""
        self.check_master()
        if self.pressure.is_stuck:
            self._counters.refused_stuck += 1
            raise self._refused("[PC_SYNCHRONIZED]broker busy, start flow control for a while")

    def check_busy(self) -> None:
        """For what can wait until the disk keeps up: raises RefusedError while it does not."""
        if self.pressure.is_busy:
            raise self._overloaded()

    def _overloaded(self) -> RefusedError:
        self._counters.refused_overload += 1
        return self._refused("[OVERLOAD]system busy, start flow control for a while")

    def _refused(self, remark: str) -> RefusedError:
        self._counters.put_refused += 1
        return RefusedError(ResponseCode.SYSTEM_BUSY, remark)

    # --- parked sends ---

    def update_pressure(self) -> None:
        """Recompute the pressure on the disk; handle what waits here, and open or close, as it allows.

        Called after each flush and on every tick, and when the lease or a hold has changed.
        """
        self.pressure.update()
        if self._parked and not self.pressure.is_busy and not self.draining and not self.is_held:
            self._drain()
        self._close_or_open()

    def _close_or_open(self) -> None:
        is_shut = self.is_held or not self._authority.wait_left_ms()
        self.closed = is_shut or bool(self._parked) or self.pressure.is_busy

    # --- planned changes of master ---

    def hold(self) -> None:
        """All sends wait from now on, each ``HOLD_MS_MAX`` at most. Only ``release`` ends it: another may be master."""
        self.is_held = True
        self.update_pressure()

    def release(self) -> None:
        self.is_held = False
        self.update_pressure()

    def check_master(self) -> None:
        """For requests that change something at once: raises RefusedError where another broker is, or will be, it."""
        self._authority.check_accept()
        if self.is_held:
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, _HELD)

    def send_away(self, error: RefusedError) -> None:
        """Refuse what waits here: another broker takes it."""
        while self._parked:
            parked = self._next()
            self._counters.put_refused += 1
            self._counters.requests.refuse(parked.request, error.code, in_turn=False)
            send_refusal(parked.connection, parked.request, error.code, error.remark)

    # --- what waits too long ---

    def _drain(self) -> None:
        """Handle what waits, for one turn; what is left then has its turn as soon as others had theirs."""
        self.draining, until_s = True, self._clock.monotonic_s() + TURN_S
        try:
            while self._parked and not self.pressure.is_busy and not self.is_held:
                parked = self._next()
                self._handle(parked.connection, [parked.request])
                if self._clock.monotonic_s() >= until_s:
                    self._loop.call_soon(self.update_pressure)
                    break
        finally:
            self.draining = False

    def _next(self) -> _Parked:
        parked = self._parked.popleft()
        self._parked_bytes -= len(parked.request.body)
        return parked

    def _scan_soon(self) -> None:
        if not self._scanning:
            self._scanning = True
            self._loop.call_later(SCAN_S, self._scan_and_go_on)

    def _scan_and_go_on(self) -> None:
        self._scanning = False
        self.scan()
        if self._parked:
            self._scan_soon()

    def scan(self) -> None:
        """Refuse sends that waited too long, or for which waiting makes no sense any more."""
        self.update_pressure()
        stuck, wait_ms = self.pressure.is_stuck, HOLD_MS_MAX if self.is_held else self._settings.parked_ms_max
        limit_ms = self._clock.monotonic_ms() - wait_ms
        while self._settings.fast_failure and self._parked and (stuck or self._parked[0].since_ms <= limit_ms):
            waited_ms, size = self.head_wait_ms(), len(self._parked)
            parked = self._next()
            if stuck:
                self._counters.refused_from_queue_stuck += 1
            else:
                self._counters.refused_from_queue_late += 1
            self._counters.put_refused += 1
            tag = "PCBUSY_CLEAN_QUEUE" if stuck else "TIMEOUT_CLEAN_QUEUE"
            text = (
                f"[{tag}]broker busy, start flow control for a while, "
                f"period in queue: {waited_ms}ms, size of queue: {size}"
            )
            self._counters.requests.refuse(parked.request, ResponseCode.SYSTEM_BUSY, in_turn=False)
            send_refusal(parked.connection, parked.request, ResponseCode.SYSTEM_BUSY, text)
        self._close_or_open()
