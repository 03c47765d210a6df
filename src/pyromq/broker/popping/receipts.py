"""Receipts: what a consumer needs to acknowledge a message, or to change its invisible time.

    1203 1700000000000 60000 734215009 0 broker-a 3 1210
    start pop time     invisible  |    |    |     |  offset of the message
                            number    kind  broker queue

Apache RocketMQ's layout: Java clients put it together from a pop response by themselves. Its fourth word is a queue of
RocketMQ's revive topic; here it is the *number* of the hand-out, a keyed hash that nobody can foretell. A receipt is
good while the row of its group, topic, queue and offset has the same number and pop time: a forged, used or outdated
one meets none, and one of another group meets a row with another number.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from pyromq.broker.base.refusals import RefusedError
from pyromq.model.names import pop_retry_topic, pop_retry_topic_v2
from pyromq.wire.codes import ResponseCode

_WORDS: Final = 8
_MASK: Final = 0x7FFF_FFFF
_TEXT_MAX: Final = 512


class InvalidReceiptError(RefusedError):
    """A receipt that is not good, or not any more."""

    def __init__(self, reason: str) -> None:
        text = f"the receipt is not valid: {reason}; receive the message again, each delivery has a receipt of its own"
        super().__init__(ResponseCode.NO_MESSAGE, text)


class TopicKind(IntEnum):
    """Where a message was popped from."""

    NORMAL = 0
    RETRY = 1
    RETRY_V2 = 2


def real_topic(kind: int, group: str, topic: str) -> str:
    """The topic whose queue holds the message. Raises InvalidReceiptError."""
    match kind:
        case TopicKind.NORMAL:
            return topic
        case TopicKind.RETRY:
            return pop_retry_topic(group, topic)
        case TopicKind.RETRY_V2:
            return pop_retry_topic_v2(group, topic)
    raise InvalidReceiptError(f"there is no topic kind {kind}")


class Receipt(NamedTuple):
    """The words of a receipt that are numbers, and the broker's name."""

    start: int
    popped_ms: int
    invisible_ms: int
    number: int
    kind: int
    broker: str
    queue_id: int
    offset: int

    def text(self) -> str:
        return f"{self.text_before_offset}{self.offset}"

    @property
    def text_before_offset(self) -> str:
        """What the receipts of one portion have in common."""
        start, popped_ms, invisible_ms, number, kind, broker, queue_id, _ = self
        return f"{start} {popped_ms} {invisible_ms} {number} {kind} {broker} {queue_id} "


def parse_receipt(text: str) -> Receipt:
    """Parse a receipt handle; more words may follow, because proxies add one. Raises InvalidReceiptError."""
    words = text.split(" ", _WORDS) if len(text) <= _TEXT_MAX else []
    if len(words) < _WORDS:
        raise InvalidReceiptError("it does not consist of eight words")
    try:
        start, popped_ms, invisible_ms, number, kind, queue_id, offset = map(int, (*words[:5], *words[6:8]))
    except ValueError as error:
        raise InvalidReceiptError("a word that should be a number is none") from error
    return Receipt(start, popped_ms, invisible_ms, number, kind, words[5], queue_id, offset)


def receipt_numbers(key: bytes | None = None) -> Callable[[], int]:
    """A source of numbers: the keyed hash of a counter, in 31 bits and never 0."""
    secret, count = key or secrets.token_bytes(32), 0

    def next_number() -> int:
        nonlocal count
        count += 1
        digest = blake2b(count.to_bytes(8, "big"), key=secret, digest_size=4).digest()
        return int.from_bytes(digest, "big") & _MASK or 1

    return next_number
