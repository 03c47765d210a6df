"""The acknowledgement lane: plain requests 200051 at the beginning of a read, read by the compiled core in one call.

    bytes of a read ─▶ core: those of one group and topic, receipts, responses ─▶ ``Pops.settle_together``, one commit
                  └──▶ the first frame that is not plain, and all behind it ─▶ ``PopHandler``, as ever

It only narrows, and decides nothing: receipts are checked by the pops, row by row, as those of ``PopHandler`` are, and
responses leave when the acknowledgements are as safe as the store promises. It is closed where anything stands between
requests and ``PopHandler`` (access control, quotas, a replica, a broker that stops), and for connections with requests
that wait for their turn.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Final

from pyromq.broker.base.refusals import refusal_of
from pyromq.broker.base.request_times import SUCCESS, RequestTimes
from pyromq.broker.popping.calls import AckErrors, AckTogether
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import InvalidReceiptError
from pyromq.broker.sending.send_lane import FIRST_DIGIT_AT, Lane
from pyromq.clock import Clock
from pyromq.compiled_core import Buffer, Core
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_response
from pyromq.wire.fast.responses import success_pieces
from pyromq.wire.frame import FRAME_BYTES_MAX

_CODE: Final = int(RequestCode.ACK_MESSAGE)
_DIGIT: Final = ord("2")  # the first of the code


class AckLane:
    """Takes acknowledgements, and answers them when they are safe."""

    def __init__(self, core: Core, pops: Pops, clock: Clock, times: RequestTimes) -> None:
        self._core = core
        self._pops = pops
        self._clock = clock
        self._times = times
        self._response = success_pieces()
        self.is_open = False  # by the request plan: nothing stands between requests and ``PopHandler``
        self.waiting: Container[Connection] = frozenset()  # with earlier requests that are not served yet
        self.next_lane: Lane | None = None  # takes reads that begin with something else

    def renew(self, *, is_open: bool, waiting: Container[Connection]) -> None:
        """Open or close it, as the request plan says; ``waiting``: whose requests nothing may overtake."""
        self.is_open, self.waiting = is_open, waiting

    def take(self, connection: Connection, data: Buffer) -> int:
        """Begin the plain acknowledgements that the data begins with; says how many bytes these are."""
        if len(data) <= FIRST_DIGIT_AT:
            return 0
        if data[FIRST_DIGIT_AT] != _DIGIT:
            return self.next_lane.take(connection, data) if self.next_lane is not None else 0
        if not self.is_open or connection in self.waiting:
            return 0
        taken = self._core.take_pop_acks(data, FRAME_BYTES_MAX, self._response)
        if taken is None:
            return 0
        consumed, group, topic, receipts, numbers, responses = taken
        connection.frames_in += len(numbers)
        then = partial(self._settled, connection, numbers, responses, self._clock.monotonic_ms())
        self._pops.settle_together(AckTogether(group, topic, receipts), then)
        return consumed

    def _settled(
        self,
        connection: Connection,
        numbers: list[int],
        responses: bytes,
        since_ms: int,
        errors: AckErrors,
        failure: MQError | None,
    ) -> None:
        """``responses`` are for acknowledgements that are all safe."""
        took_ms = self._clock.monotonic_ms() - since_ms
        if failure is None and not any(errors):
            self._times.note(_CODE, SUCCESS, took_ms, len(numbers), held=True)
            connection.send_now(responses, len(numbers))
            return
        for number, error in zip(numbers, errors, strict=True):
            code, remark = (SUCCESS, None) if (problem := error or failure) is None else refusal_of(problem)
            if isinstance(error, InvalidReceiptError):
                self._times.refuse_many(_CODE, code, 1)
            else:
                self._times.note(_CODE, code, took_ms, held=True)
            connection.send(encode_response(code, number, remark=remark))
