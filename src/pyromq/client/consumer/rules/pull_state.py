"""State machine of the pull loop of one queue, without I/O: the loop asks what to do, does it, says how it went.

    next_step ──▶ Pull ──▶ answered / failed ──▶ Accept, Wait, DropQueue ──▶ next_step …
              ──▶ Wait, Stop

    code                       what follows
      0 found                  messages to the buffer, pull on at the next offset, after pull_interval_ms
                               a queue with more than skip_when_behind messages to come: on at the last of those
      19 none, 20 none match   pull on at the next offset; an empty buffer moves the committed offset there too
      21 offset illegal        push: drop the queue, freeze the corrected offset, rebalance
                               lite pull: go on there; forget what was pulled if that is further back
      215 flow control         20 ms
      anything else, errors    error_wait_ms

A broker holds a pull that finds nothing, so 19 needs no pause here; one that says 20 has passed over messages.
One that answers at once again and again, because it may hold no more pulls, or says "retry at once" without getting on,
would be asked in a busy loop: after three such responses the loop backs off, from 100 ms to 800 ms. One that passes
over a few messages each time, because others keep the queue busy, is asked again after 10 ms: the next may be wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

from pyromq.client.consumer.rules.flow_control import FlowDecision, Hold, HoldOff
from pyromq.clock import Clock
from pyromq.model.queue import Offset
from pyromq.model.route import MASTER_ID
from pyromq.wire.codes import ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import PullResponseHeader

QUICK_MS: Final = 10
QUICK_RESPONSES_MAX: Final = 3
QUICK_WAIT_MS: Final = 100
QUICK_DOUBLINGS_MAX: Final = 3
PASSING_WAIT_MS: Final = 10
QUICK_ADVANCE: Final = 32  # offsets; a broker that passes over so many at once gets on


@dataclass(frozen=True, slots=True)
class PullSettings:
    """Waits of a pull loop; with ``drop_when_illegal`` off (lite pull) it passes over what a queue lost by itself."""

    pull_interval_ms: int = 0
    error_wait_ms: int = 3_000
    flow_control_wait_ms: int = 20
    drop_when_illegal: bool = True
    skip_when_behind: int = 0  # 0: never


class Because(Enum):
    """Why a loop waits when it is not for flow control."""

    INTERVAL = "pull interval"
    ERROR = "error"
    BROKER_BUSY = "broker controls its flow"
    SENSELESS = "response that leads nowhere"
    SPINNING = "broker holds no pulls"


@dataclass(frozen=True, slots=True)
class Pull:
    """Ask this broker for messages from here on; the offset to commit on the way, if any."""

    offset: Offset
    broker_id: int
    commit_offset: Offset | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask ``next_step`` again after this time, or earlier when something changed."""

    wait_ms: int
    reason: Because | Hold


@dataclass(frozen=True, slots=True)
class Stop:
    """The queue is not ours any more."""


@dataclass(frozen=True, slots=True)
class Accept:
    """Filter and buffer the messages of the response (there may be none); then wait, and ask ``next_step``.

    ``reached`` is where consuming stands when the buffer is empty after that: all before was filtered out. What stands
    before ``skip_to`` is skipped: the queue is too far behind.
    """

    reached: Offset
    wait: Wait | None = None
    skip_to: Offset | None = None


@dataclass(frozen=True, slots=True)
class DropQueue:
    """Drop the buffer, and go on at this offset, whatever was said to be consumed before."""

    offset: Offset


class PullState:
    """Where one queue stands; the loop owns it, from the grant of the queue to its release."""

    def __init__(self, offset: int, clock: Clock, settings: PullSettings | None = None) -> None:
        self._clock = clock
        self._settings = settings or PullSettings()
        self._quick_responses = 0
        self.offset = Offset(offset)
        self.broker_id = MASTER_ID
        self.last_pull_ms = clock.monotonic_ms()  # also a pull that flow control held back shows that the loop lives

    def next_step(
        self, flow: FlowDecision, *, dropped: bool = False, committable: int | None = None
    ) -> Pull | Wait | Stop:
        """What to do now; ``committable`` is the offset in memory of a clustering consumer."""
        if dropped:
            return Stop()
        self.last_pull_ms = self._clock.monotonic_ms()
        if isinstance(flow, HoldOff):
            return Wait(flow.wait_ms, flow.reason)
        if committable is None or committable <= 0 or self.broker_id != MASTER_ID:  # replicas take no offsets
            return Pull(self.offset, self.broker_id)
        return Pull(self.offset, self.broker_id, Offset(committable))

    def seek(self, offset: int) -> None:
        """Go on elsewhere; a response to a pull that is under way must not be handed in any more."""
        self.offset = Offset(offset)

    def answered(self, code: int, header: PullResponseHeader | None) -> Accept | Wait | DropQueue:
        """A broker's response; ``header`` is None for codes that have none, or when it could not be read."""
        if code not in _WITH_HEADER:
            if code == ResponseCode.FLOW_CONTROL:
                return Wait(self._settings.flow_control_wait_ms, Because.BROKER_BUSY)
            return self.failed()
        if header is None or header.next_begin_offset < 0:
            return self._senseless()
        self.broker_id = header.suggest_which_broker_id if header.suggest_which_broker_id >= 0 else MASTER_ID
        if code == ResponseCode.PULL_OFFSET_MOVED:
            return self._moved(header.next_begin_offset)
        if header.next_begin_offset < self.offset or (code == ResponseCode.SUCCESS and not self._advances(header)):
            return self._senseless()
        skip_to, before = self._skip_to(header), self.offset
        self.offset = Offset(max(header.next_begin_offset, skip_to or 0))
        return Accept(self.offset, self._pause_after(code, self.offset - before), skip_to)

    def _skip_to(self, header: PullResponseHeader) -> Offset | None:
        allowed = self._settings.skip_when_behind
        if not allowed or header.max_offset - self.offset <= allowed:
            return None
        return Offset(header.max_offset - allowed)

    def failed(self) -> Wait:
        """No response, or an error: the master is asked next time, whatever was suggested."""
        self.broker_id = MASTER_ID
        return Wait(self._settings.error_wait_ms, Because.ERROR)

    def _advances(self, header: PullResponseHeader) -> bool:
        return header.next_begin_offset > self.offset

    def _moved(self, offset: int) -> Accept | Wait | DropQueue:
        if self._settings.drop_when_illegal or offset < self.offset:
            return DropQueue(Offset(offset))
        if offset == self.offset:
            return self._senseless()
        self.offset = Offset(offset)
        return Accept(self.offset, self._pause_after(ResponseCode.PULL_OFFSET_MOVED, 0))

    def _pause_after(self, code: int, advance: int) -> Wait | None:
        is_quick = self._clock.monotonic_ms() - self.last_pull_ms < QUICK_MS
        if code == ResponseCode.SUCCESS or not is_quick or advance >= QUICK_ADVANCE:
            self._quick_responses = 0
        elif advance > 0 and self._quick_responses >= QUICK_RESPONSES_MAX:
            self._quick_responses = QUICK_RESPONSES_MAX
            return Wait(PASSING_WAIT_MS, Because.SPINNING)
        else:
            self._quick_responses += 1
        if (spins := self._quick_responses - QUICK_RESPONSES_MAX) > 0:
            return Wait(QUICK_WAIT_MS << min(spins - 1, QUICK_DOUBLINGS_MAX), Because.SPINNING)
        interval_ms = self._settings.pull_interval_ms if code == ResponseCode.SUCCESS else 0
        return Wait(interval_ms, Because.INTERVAL) if interval_ms else None

    def _senseless(self) -> Wait:
        return Wait(self._settings.error_wait_ms, Because.SENSELESS)


_WITH_HEADER: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


@cache  # asked with every pull, and an enum's | takes a microsecond each
def pull_flags(*, commit: bool, suspend: bool = True, subscription: bool = False, lite: bool = False) -> PullFlag:
    """``sysFlag`` of a pull: commit on the way, hold when there is nothing, expression in the request, lite pull."""
    flags = PullFlag.COMMIT_OFFSET if commit else PullFlag(0)
    flags |= PullFlag.SUSPEND if suspend else PullFlag(0)
    flags |= PullFlag.SUBSCRIPTION if subscription else PullFlag(0)
    return flags | (PullFlag.LITE_PULL if lite else PullFlag(0))
