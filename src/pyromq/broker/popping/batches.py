"""Acknowledgements that come together: batches, answered when all are safe, and how calls with several ended."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.broker.popping.calls import AckErrors
from pyromq.broker.popping.journal import Then
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import InvalidReceiptError
from pyromq.errors import MQError
from pyromq.store.in_flight.queue import QueueName
from pyromq.wire.codes import ResponseCode

HandOutAcks = tuple[QueueName, Sequence[int], int, int]
"""Acknowledgements of one hand-out: queue, offsets, number and time of the pop."""


def settle_batch(pops: Pops, acks: Sequence[HandOutAcks], then: Then) -> None:
    """Acknowledge those whose receipts are good; ``then`` hears when these are safe, of the others too."""
    _Batch(len(acks), then).run(pops, acks)


class _Batch:
    """Acknowledgements of one request; it is answered when the last one is safe, or refused."""

    def __init__(self, waiting: int, then: Then) -> None:
        self._waiting = waiting
        self._then = then
        self._asked = self._good = 0
        self._error: MQError | None = None

    def run(self, pops: Pops, acks: Sequence[HandOutAcks]) -> None:
        for name, offsets, number, popped_ms in acks:
            good = pops.settler.settle_many(name, offsets, number, popped_ms, self._settled)
            self._asked, self._good = self._asked + len(offsets), self._good + good
            if not good:
                self._settled(None)

    def _settled(self, error: MQError | None) -> None:
        self._waiting -= 1
        self._error = self._error or error
        if not self._waiting:
            if self._error is None and self._good < self._asked:
                self._error = InvalidReceiptError(f"{self._asked - self._good} of {self._asked} in this batch are not")
            self._then(self._error)


def outcomes_of(errors: AckErrors, sizes: Sequence[int]) -> dict[int, int]:
    """How many calls ended how."""
    if not any(errors):
        return {int(ResponseCode.SUCCESS): len(sizes) or 1}
    found: dict[int, int] = {}
    at = 0
    for size in sizes or (len(errors),):
        outcome = int(ResponseCode.NO_MESSAGE if any(errors[at : at + size]) else ResponseCode.SUCCESS)
        found[outcome] = found.get(outcome, 0) + 1
        at += size
    return found
