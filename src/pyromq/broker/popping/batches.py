"""Batches of acknowledgements: one request for several hand-outs, answered when all of them are safe."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.broker.popping.journal import Then
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import InvalidReceiptError
from pyromq.errors import MQError
from pyromq.store.in_flight.queue import QueueName

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
            good = pops.settle_many(name, offsets, number, popped_ms, self._settled)
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
