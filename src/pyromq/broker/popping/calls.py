"""What is asked of the pops of a broker, and what they answer: small values, the same for every protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from pyromq.broker.popping.receipts import Receipt
from pyromq.compiled_core import AckRun
from pyromq.errors import MQError
from pyromq.wire.record import Record, decode_record

ANY_QUEUE: Final = -1
COUNT_MAX: Final = 32
Bytes = memoryview | bytes


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Hand out up to ``count`` messages, invisible to others for a time; wait up to ``poll_ms`` for the first one."""

    group: str
    topic: str
    count: int = COUNT_MAX
    invisible_ms: int = 60_000
    poll_ms: int = 0
    queue_id: int = ANY_QUEUE
    newest: bool = False  # a group that begins does so at the newest message, not at the oldest
    expression: str | None = None
    expression_type: str | None = None  # None: tags
    order: bool = False  # no message before the one ahead of it in its message group is settled
    attempt_id: str | None = None  # in order mode: the same request again, after a lost response


AckReceipt = tuple[int, int, int, int]
"""Of a receipt: queue id, offset, number and time of the pop."""


def ack_runs(receipts: Iterable[AckReceipt]) -> list[AckRun]:
    """Receipts, in their order."""
    runs: list[tuple[int, int, int, list[int]]] = []
    last: tuple[int, int, int] | None = None
    for queue_id, offset, number, popped_ms in receipts:
        if (queue_id, number, popped_ms) != last:
            last = queue_id, number, popped_ms
            runs.append((*last, []))
        runs[-1][3].append(offset)
    return list(runs)


class AckTogether(msgspec.Struct, frozen=True):
    """Acknowledgements that came together; ``topic`` is the one that their queues belong to."""

    consumer_group: str
    topic: str
    receipts: Sequence[AckRun]
    sizes: Sequence[int] = ()  # of calls that came together, how many are of each; empty: all are of one


AckErrors = list[MQError | None]
"""What became of acknowledgements, in their order; None: it is safe."""


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """What a pop got from one queue: offsets in order, their records in ``runs``, and how often each was delivered."""

    topic: str
    kind: int
    queue_id: int
    offsets: Collection[int]
    attempts: Sequence[int]  # empty: all for the first time
    runs: Sequence[Bytes]
    size_bytes: int
    rest: int  # that the queue still has for the group

    @property
    def start(self) -> int:
        return next(iter(self.offsets))


class PoppedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message as its consumer gets it; ``topic`` is the one that was popped."""

    record: Record
    receipt: str
    attempts: int
    topic: str


class PopResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were handed out together; all receipts have the same ``number``."""

    request: PopRequest
    broker: str
    number: int
    popped_ms: int
    invisible_ms: int
    portions: Sequence[Portion]

    @property
    def count(self) -> int:
        return sum(len(portion.offsets) for portion in self.portions)

    @property
    def rest(self) -> int:
        return sum(portion.rest for portion in self.portions)

    def receipt(self, portion: Portion, offset: int) -> Receipt:
        return Receipt(
            portion.start,
            self.popped_ms,
            self.invisible_ms,
            self.number,
            portion.kind,
            self.broker,
            portion.queue_id,
            offset,
        )

    def messages(self) -> list[PoppedMessage]:
        """Messages of the response, decoded one by one."""
        found: list[PoppedMessage] = []
        for portion in self.portions:
            data, at = b"".join(portion.runs), 0
            for index, offset in enumerate(portion.offsets):
                record = decode_record(data, at)
                at += record.size
                receipt = self.receipt(portion, offset).text()
                attempts = portion.attempts[index] if portion.attempts else 1
                topic = self.request.topic
                found.append(PoppedMessage(record=record, receipt=receipt, attempts=attempts, topic=topic))
        return found
