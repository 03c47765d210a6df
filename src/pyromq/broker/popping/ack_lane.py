"""The acknowledgement lane: plain requests 200051 and 200151 at the beginning of a read, read by the compiled core.

    200051 ─▶ core: those of one group and topic, receipts, responses ─▶ ``Settler.settle_together``, one commit
    200151 ─▶ core: hand-outs and their offsets, the response         ─▶ ``Settler.settle_many`` of each, one commit

A part of the pop lane, which is open or not. It decides nothing: receipts are checked by the pops, row by row, as those
of ``PopHandler`` are, and responses leave when the acknowledgements are as safe as the store promises.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pyromq.broker.base.refusals import refusal_of
from pyromq.broker.base.request_times import SUCCESS, RequestTimes
from pyromq.broker.popping.batches import HandOutAcks, outcomes_of, settle_batch
from pyromq.broker.popping.calls import AckErrors, AckTogether
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import InvalidReceiptError
from pyromq.clock import Clock
from pyromq.compiled_core import Buffer, Core
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.store.in_flight.queue import QueueName
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_response
from pyromq.wire.fast.responses import success_pieces
from pyromq.wire.frame import FRAME_BYTES_MAX

_CODE: Final = int(RequestCode.ACK_MESSAGE)
_BATCH: Final = int(RequestCode.BATCH_ACK_MESSAGE)


class AckLane:
    """Takes acknowledgements, and answers them when they are safe."""

    def __init__(self, core: Core, pops: Pops, clock: Clock, times: RequestTimes) -> None:
        self._core = core
        self._pops = pops
        self._clock = clock
        self._times = times
        self._response = success_pieces()

    def take(self, connection: Connection, data: Buffer) -> int:
        """Begin the plain acknowledgements that the data begins with; says how many bytes these are."""
        taken = self._core.take_pop_acks(data, FRAME_BYTES_MAX, self._response)
        if taken is None:
            return 0
        consumed, group, topic, receipts, numbers, responses = taken
        connection.frames_in += len(numbers)
        then = partial(self._settled, connection, numbers, responses, self._clock.monotonic_ms())
        self._pops.settler.settle_together(AckTogether(group, topic, receipts), then)
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

    def settle(self, acks: AckTogether, then: Callable[[AckErrors], None]) -> None:
        """Begin acknowledgements of calls of another protocol; ``then`` hears what became of each."""
        since_ms = self._clock.monotonic_ms()

        def settled(errors: AckErrors, failure: MQError | None) -> None:
            if failure is not None:
                errors = [error or failure for error in errors]
            took_ms = self._clock.monotonic_ms() - since_ms
            then(errors)
            for outcome, count in outcomes_of(errors, acks.sizes).items():
                self._times.note(_CODE, outcome, took_ms, count, held=True)

        self._pops.settler.settle_together(acks, settled)

    # --- batches ---

    def take_batch(self, connection: Connection, data: Buffer) -> int:
        """Begin the plain batch that the data begins with; says how many bytes that is."""
        taken = self._core.take_batch_ack(data, FRAME_BYTES_MAX, self._response)
        if taken is None:
            return 0
        consumed, opaque, found, response = taken
        connection.frames_in += 1
        acks: list[HandOutAcks] = [
            (QueueName(group, topic, queue_id), offsets, number, popped_ms)
            for group, topic, queue_id, number, popped_ms, offsets in found
        ]
        then = partial(self._settled_batch, connection, opaque, response, self._clock.monotonic_ms())
        settle_batch(self._pops, acks, then)
        return consumed

    def _settled_batch(
        self, connection: Connection, opaque: int, response: bytes, since_ms: int, error: MQError | None
    ) -> None:
        took_ms = self._clock.monotonic_ms() - since_ms
        if error is None:
            self._times.note(_BATCH, SUCCESS, took_ms, held=True)
            connection.send_now(response)
            return
        code, remark = refusal_of(error)
        self._times.note(_BATCH, code, took_ms, held=True)
        connection.send(encode_response(code, opaque, remark=remark))
