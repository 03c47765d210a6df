"""The pop lane: plain pops, acknowledgements and batches of them at the beginning of a read, read by the compiled core.

    bytes of a read ─▶ core: a pop of a kind that is known  ─▶ ``Pops.take``               ─▶ core: head of the response
                  ├──▶ core: acknowledgements (``AckLane``) ─▶ ``Settler.settle_together`` ─▶ answered when safe
                  └──▶ the first frame that is not plain, and all behind it ─▶ ``PopHandler``, as ever

It only narrows, and decides nothing: ``Pops`` has the rows, and says who gets what. It knows a kind of pops (all that
they ask for) after ``PopHandler`` has answered one with messages and called ``learn``; whether the group may still have
them is asked of the plans each time. Pops in order, and those that are refused, are ``PopHandler``'s; one that finds
nothing is held by it. The lane is closed where anything stands between requests and ``PopHandler`` (access control,
quotas, a replica, a broker that stops), and for connections with requests that wait for their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from pyromq.broker.base.refusals import refusal_of
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.responses import send_refusal
from pyromq.broker.popping.ack_lane import AckLane
from pyromq.broker.popping.calls import AckErrors, AckTogether, Bytes, PopRequest, PopResult
from pyromq.broker.popping.plans import PopPlan
from pyromq.broker.popping.pops import Pops
from pyromq.broker.sending.send_lane import FIRST_DIGIT_AT, Lane
from pyromq.clock import Clock
from pyromq.compiled_core import Buffer, Core, PlainPops
from pyromq.errors import MQError
from pyromq.net.connection import UNJOINED_BYTES, Connection
from pyromq.net.turns import TURN_S
from pyromq.wire.codes import RequestCode
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.pop import PopHeader
from pyromq.wire.received import Received, decode_received

KNOWN_MAX: Final = 16_384
"""Kinds of pops that are known; one more, and all are forgotten."""

_TEXT_MAX: Final = 512  # of an expression, in characters
_CODE: Final = int(RequestCode.POP_MESSAGE)
_DIGIT: Final = ord("2")  # the first of the codes 200050, 200051 and 200151
_DIGITS: Final = 6

OnMissed = Callable[[Connection, Received[PopHeader], PopPlan], None]
"""``PopHandler`` answers a pop that found nothing, or holds it."""


class PopLane:
    """Owner of the kinds that are known."""

    def __init__(
        self, core: Core, lane: PlainPops, pops: Pops, clock: Clock, times: RequestTimes, on_missed: OnMissed
    ) -> None:
        self._lane = lane
        self._pops = pops
        self._now_s = clock.monotonic_s
        self._times = times
        self._on_missed = on_missed
        self.acks = AckLane(core, pops, clock, times)
        self.is_open = False  # by the request plan: nothing stands between requests and ``PopHandler``
        self.waiting: Container[Connection] = frozenset()  # with earlier requests that are not served yet
        self.next_lane: Lane | None = None  # takes reads that begin with something else
        self._takes = {b"200050": self._take_pop, b"200051": self.acks.take, b"200151": self.acks.take_batch}

    def renew(self, *, is_open: bool, waiting: Container[Connection]) -> None:
        """Open or close it, as the request plan says; ``waiting``: whose requests nothing may overtake."""
        self.is_open, self.waiting = is_open, waiting

    @property
    def known(self) -> int:
        """How many kinds of pops it knows."""
        return len(self._lane)

    def learn(self, header: PopHeader, request: PopRequest) -> None:
        """``PopHandler`` has just answered such a pop with messages."""
        if not self.is_open or request.order or header.attempt_id is not None:
            return
        if len(header.exp or "") + len(header.exp_type or "") > _TEXT_MAX:  # it would be kept
            return
        if len(self._lane) >= KNOWN_MAX:
            self._lane.forget()
        kind = (header.consumer_group, header.topic, header.queue_id, header.max_msg_nums, header.invisible_time)
        self._lane.learn((*kind, header.init_mode, header.exp, header.exp_type), request)

    def take(self, connection: Connection, data: Buffer) -> int:
        """Serve the plain requests that the data begins with; says how many bytes these are."""
        if len(data) <= FIRST_DIGIT_AT:
            return 0
        if data[FIRST_DIGIT_AT] != _DIGIT:
            return self.next_lane.take(connection, data) if self.next_lane is not None else 0
        if not self.is_open or connection in self.waiting:
            return 0
        at, until_s = 0, 0.0
        while True:
            rest = memoryview(data)[at:] if at else data
            take = self._takes.get(bytes(rest[FIRST_DIGIT_AT : FIRST_DIGIT_AT + _DIGITS]))
            taken = take(connection, rest) if take is not None else 0
            at += taken
            if not taken or at == len(data):
                return at
            now_s = self._now_s()
            until_s = until_s or now_s + TURN_S
            if now_s >= until_s:  # the rest waits for the next turn of this connection
                return at

    def _take_pop(self, connection: Connection, data: Buffer) -> int:
        found = self._lane.take(data)
        if found is None:
            return 0
        end, request, opaque = found
        times, pops = self._times, self._pops
        began_s = self._now_s()
        try:
            plan = pops.plans.plan(request)
            result = pops.take(plan)
        except MQError:  # ``PopHandler`` meets the same, and explains it
            return 0
        connection.frames_in += 1
        times.began_s = began_s
        if result is not None:
            self._respond(connection, opaque, result)
        else:
            self._miss(connection, bytes(data[:end]), plan)
        times.done(_CODE, self._now_s())
        return end

    # --- for another front door, which reads requests and makes responses by itself ---

    def serves(self, caller: Connection) -> bool:
        """Whether nothing stands between its requests and ``PopHandler``, and none of them waits for its turn."""
        return self.is_open and caller.is_open and caller not in self.waiting

    def pop(self, caller: Connection, request: PopRequest) -> tuple[PopPlan, PopResult | None]:
        """A pop of a caller that it serves. One that finds nothing is not counted yet. Raises MQError."""
        times, began_s = self._times, self._now_s()
        plan = self._pops.plans.plan(request)
        result = self._pops.take(plan)
        if result is not None:
            caller.frames_in += 1
            caller.frames_out += 1
            times.began_s = began_s
            times.done(_CODE, self._now_s())
        return plan, result

    def settle(self, caller: Connection, acks: AckTogether, then: Callable[[AckErrors], None]) -> None:
        """Acknowledgements of a caller that it serves; ``then`` hears what became of each when they are safe."""
        caller.frames_in += 1
        caller.frames_out += 1
        self.acks.settle(acks, then)

    def _respond(self, connection: Connection, opaque: int, result: PopResult) -> None:
        places: list[tuple[int, int, list[int]]] = []
        runs: list[Bytes] = []
        size_bytes = rest = 0
        for portion in result.portions:
            places.append((portion.kind, portion.queue_id, list(portion.offsets)))
            runs += portion.runs
            size_bytes += portion.size_bytes
            rest += portion.rest
        numbers = (result.popped_ms, result.invisible_ms, result.number, rest)
        head = self._lane.response(opaque, numbers, places, size_bytes)
        if size_bytes < UNJOINED_BYTES * len(runs):
            connection.send(b"".join((head, *runs)))
        else:
            connection.send_parts(head, runs)

    def _miss(self, connection: Connection, frame: bytes, plan: PopPlan) -> None:
        request: Received[Any] = decode_received(FrameDecoder().feed(frame)[0])
        try:
            self._on_missed(connection, request, plan)
        except MQError as error:  # as the dispatcher has it
            code, remark = refusal_of(error)
            self._times.refuse(request, code)
            send_refusal(connection, request, code, remark)
