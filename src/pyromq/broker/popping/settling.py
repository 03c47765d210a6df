"""Settling: what becomes of messages that were handed out, said by receipts, for every protocol.

acknowledged ─▶ its row goes when that is safe        changed ─▶ another invisible time, and a new receipt
given back   ─▶ visible again, and not counted        buried  ─▶ copied to %DLQ%group, then acknowledged
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.popping.calls import AckErrors, AckTogether, PopResult
from pyromq.broker.popping.dead import DeadLetters
from pyromq.broker.popping.journal import PopJournal, Then
from pyromq.broker.popping.plans import INVISIBLE_MS_MAX
from pyromq.broker.popping.receipts import InvalidReceiptError, Receipt, parse_receipt, real_topic
from pyromq.broker.popping.taking import Taker
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.store.in_flight.journal import Changed
from pyromq.store.in_flight.queue import HandOut, InFlightQueue, QueueName
from pyromq.store.in_flight.table import InFlightTable
from pyromq.wire.codes import ResponseCode


class Settler:
    """Looks for the row that a receipt is good for, and has the journal write down what becomes of it."""

    def __init__(
        self,
        table: InFlightTable,
        journal: PopJournal,
        taker: Taker,
        dead: DeadLetters,
        clock: Clock,
        new_number: Callable[[], int],
        broker: str,
    ) -> None:
        self._table = table
        self._journal = journal
        self._taker = taker
        self._dead = dead
        self._clock = clock
        self._new_number = new_number
        self._broker = broker

    async def ack(self, group: str, topic: str, receipt: str) -> None:
        """Returns when it is as safe as the store promises. Raises InvalidReceiptError, StoreError."""
        parsed = parse_receipt(receipt)
        await self._reported(lambda then: self.settle(group, real_topic(parsed.kind, group, topic), parsed, then))

    async def change_invisible(
        self, group: str, topic: str, receipt: str, invisible_ms: int, *, suspend: bool = False
    ) -> str:
        """The new receipt; 0 makes it visible now. ``suspend``: the next delivery is not counted."""
        parsed, made = parse_receipt(receipt), list[Receipt]()
        real = real_topic(parsed.kind, group, topic)
        await self._reported(
            lambda then: made.append(self.change(group, real, parsed, invisible_ms, then, suspend=suspend))
        )
        return made[0].text()

    async def forward_to_dead_letters(self, group: str, topic: str, receipt: str) -> None:
        """The message goes to %DLQ%group now. Raises InvalidReceiptError, StoreError."""
        parsed = parse_receipt(receipt)
        await self._reported(lambda then: self.bury(group, topic, parsed, then))

    def bury(self, group: str, topic: str, receipt: Receipt, then: Then) -> None:
        """Copy a message to %DLQ%group, then acknowledge it; ``topic`` is the one that was popped.

        Raises InvalidReceiptError.
        """
        name = QueueName(group, real_topic(receipt.kind, group, topic), receipt.queue_id)
        queue, _ = self._row(name, receipt.offset, receipt.number, receipt.popped_ms)
        found, gone = self._taker.records(queue, [receipt.offset], self._clock.now_ms())
        if gone:
            raise InvalidReceiptError("the store does not have the message any more")
        if not found:
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY, "the message is damaged here, another member has it; ask again"
            )
        self._dead.bury(queue, receipt.offset, found[receipt.offset], topic, then)

    async def _reported(self, begin: Callable[[Then], None]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(error: MQError | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        begin(then)
        await asyncio.shield(future)

    def settle(self, group: str, topic: str, receipt: Receipt, then: Then) -> None:
        """Acknowledge one message; ``topic`` is the one that its queue belongs to. Raises InvalidReceiptError."""
        name = QueueName(group, topic, receipt.queue_id)
        queue, _ = self._row(name, receipt.offset, receipt.number, receipt.popped_ms)
        self._journal.ack(queue, (receipt.offset,), then)

    def settle_together(self, acks: AckTogether, then: Callable[[AckErrors, MQError | None], None]) -> None:
        """Acknowledge those whose receipts are good; ``then`` hears of all of them when these are safe, or are not."""
        errors: AckErrors = []
        good: dict[InFlightQueue, list[int]] = {}
        for queue_id, number, popped_ms, offsets in acks.receipts:
            queue = self._table.queues.get(QueueName(acks.consumer_group, acks.topic, queue_id))
            fine = queue.good(offsets, number, popped_ms) if queue is not None else ()
            if queue is not None and len(fine) == len(offsets) == len(set(offsets)):
                errors += [None] * len(offsets)
            else:
                fine, reasons = _each_good(queue, acks.consumer_group, offsets, number, popped_ms)
                errors += reasons
            if queue is not None and fine:
                if len(acks.receipts) > 1:
                    queue.settling.update(fine)  # they may be here twice
                good.setdefault(queue, []).extend(fine)
        if not good:
            then(errors, None)
            return
        waiting, failure = len(good), None

        def settled(error: MQError | None) -> None:
            nonlocal waiting, failure
            waiting, failure = waiting - 1, failure or error
            if not waiting:
                then(errors, failure)

        for queue, offsets in good.items():
            self._journal.ack(queue, offsets, settled)

    def settle_many(self, name: QueueName, offsets: Collection[int], number: int, popped_ms: int, then: Then) -> int:
        """Acknowledge those whose receipts are good; returns how many these are. ``then`` hears if there are any."""
        queue = self._table.queues.get(name)
        good = queue.good(offsets, number, popped_ms) if queue is not None else ()
        if queue is not None and good:
            self._journal.ack(queue, good, then)
        return len(good)

    def change(
        self, group: str, topic: str, receipt: Receipt, invisible_ms: int, then: Then, *, suspend: bool = False
    ) -> Receipt:
        """Another invisible time, from now on; the receipt that counts once ``then`` heard of it."""
        if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
            text = f"an invisible time of {invisible_ms} ms is not between 0 and {INVISIBLE_MS_MAX} ms (12 h)"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        name = QueueName(group, topic, receipt.queue_id)
        queue, out = self._row(name, receipt.offset, receipt.number, receipt.popped_ms)
        now_ms, number = self._clock.now_ms(), self._new_number()
        attempts = max(0, out.attempts - suspend)
        change = Changed(*name, receipt.offset, number, now_ms, now_ms + invisible_ms, attempts)
        self._journal.change(queue, change, then)
        return receipt._replace(
            start=receipt.offset, popped_ms=now_ms, invisible_ms=invisible_ms, number=number, broker=self._broker
        )

    def give_back(self, result: PopResult) -> None:
        """These could not be delivered: they are visible again, and the delivery does not count."""
        now_ms = self._clock.now_ms()
        for portion in result.portions:
            name = QueueName(result.request.group, portion.topic, portion.queue_id)
            queue = self._table.queues.get(name)
            for offset in portion.offsets if queue is not None else ():
                assert queue is not None
                out = queue.rows.get(offset)
                if out is not None and out.number == result.number and offset not in queue.settling:
                    number = self._new_number()
                    self._journal.change(queue, Changed(*name, offset, number, now_ms, now_ms, out.attempts - 1))

    def _row(self, name: QueueName, offset: int, number: int, popped_ms: int) -> tuple[InFlightQueue, HandOut]:
        """The row that a receipt is good for."""
        queue = _good_for(self._table.queues.get(name), name.group, offset, number, popped_ms)
        return queue, queue.rows[offset]


def _good_for(queue: InFlightQueue | None, group: str, offset: int, number: int, popped_ms: int) -> InFlightQueue:
    """The queue, if a receipt is good for a row of it. Raises InvalidReceiptError."""
    out = queue.rows.get(offset) if queue is not None else None
    if queue is None or out is None or out.number != number or out.popped_ms != popped_ms or offset in queue.settling:
        raise _reason(queue, out, group, number, popped_ms)
    return queue


def _each_good(
    queue: InFlightQueue | None, group: str, offsets: Iterable[int], number: int, popped_ms: int
) -> tuple[list[int], AckErrors]:
    """The offsets whose receipts are good, each once; and for each why it is not."""
    found: dict[int, None] = {}
    errors: AckErrors = []
    for offset in offsets:
        try:
            _good_for(queue, group, offset, number, popped_ms)
        except InvalidReceiptError as error:
            errors.append(error)
        else:
            errors.append(_used() if offset in found else None)
            found[offset] = None
    return list(found), errors


def _reason(
    queue: InFlightQueue | None, out: HandOut | None, group: str, number: int, popped_ms: int
) -> InvalidReceiptError:
    """Why a receipt is not good."""
    if queue is None or out is None:
        return InvalidReceiptError(f"no message of group {group} is in flight at that place")
    if out.number != number or out.popped_ms != popped_ms:
        return InvalidReceiptError("it is not that of the newest delivery of the message")
    return _used()


def _used() -> InvalidReceiptError:
    return InvalidReceiptError("it was used a moment ago")
