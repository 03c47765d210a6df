"""Consume outcome of concurrent consumers: what happens to messages after their listener returned.

    SUCCESS                        up to ack_index (default: all) finished; the others fail
    RETRY, None, exception         all fail

    a failed message               clustering                              broadcasting
      delay level > 0              sent back with it                       dropped: no other member would get it
      delay level = 0              the group's ladder; else broker chooses dropped
      delay level < 0              sent back as dead letter                dropped
    DeadLetterError                a dead letter at once, with the reason  dropped
    a body that does not decode    the same                                dropped

A message that was sent back is finished; one that could not be sent back is tried here again after five seconds, with
one attempt more. ``orderly_outcome`` is for orderly consumers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple

import msgspec

from pyromq.client.consumer.rules.message_protocol import PulledT
from pyromq.errors import DeadLetterError
from pyromq.typed.listeners import UndecodableError
from pyromq.wire.json.heartbeat import MessageModel

SEND_BACK_AGAIN_MS: Final = 5_000
DEAD_LETTER_LEVEL: Final = -1
TIMED_OUT_LEVEL: Final = 3
BROKER_CHOOSES: Final = 0
STAGE_DECODE: Final = "decode"
STAGE_LISTENER: Final = "listener"
NO_REASON: Final = "no reason given"


class ConsumeStatus(Enum):
    """What a concurrent listener says of a batch."""

    SUCCESS = "success"
    RETRY = "retry"  # RocketMQ: RECONSUME_LATER


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A status with details: ``SUCCESS`` up to an index, and when failed messages shall come again.

    Indexes count within the batch. Levels are RocketMQ's delay levels: 0 leaves it to the consumer's ladder and the
    broker, −1 gives up.
    """

    status: ConsumeStatus = ConsumeStatus.SUCCESS
    ack_index: int | None = None
    delay_level: int = BROKER_CHOOSES
    delay_levels: Mapping[int, int] = field(default_factory=dict)  # by index, where it differs from delay_level


_ALL_FAILED: Final = BatchResult(status=ConsumeStatus.RETRY)

ListenerResult = ConsumeStatus | BatchResult | None
Ladder = Mapping[int, int]  # failures → delay level, which holds until the next entry
NO_LADDER: Final[Ladder] = {}


class Letters(NamedTuple):
    """Messages of a batch that no retry can help: reasons by place, and where that was found."""

    reasons: Mapping[int, str]
    stage: str


def letters_of(error: DeadLetterError, count: int) -> Letters:
    """Which of so many messages a listener's error speaks of: those that did not decode, or all that it had."""
    if isinstance(error, UndecodableError):
        reasons = {place: reason for place, reason in error.reasons.items() if 0 <= place < count}
        if reasons:
            return Letters(reasons, STAGE_DECODE)
    return Letters(dict.fromkeys(range(count), error.reason or NO_REASON), STAGE_LISTENER)


class SendBack(msgspec.Struct, Generic[PulledT], frozen=True):
    """Hand the message to the broker, to be delivered again later or, with a level below 0, as a dead letter.

    ``reason`` goes with a dead letter, and in which ``stage`` it was found.
    """

    message: PulledT
    delay_level: int
    reason: str = ""
    stage: str = ""


class Outcome(msgspec.Struct, Generic[PulledT], frozen=True):
    """The fate of each message of a batch; every message stands in exactly one list."""

    finished: Sequence[PulledT] = ()
    dropped: Sequence[PulledT] = ()  # finished too, but worth a warning
    send_back: Sequence[SendBack[PulledT]] = ()


def decide(
    messages: Sequence[PulledT],
    result: ListenerResult,
    *,
    model: MessageModel = MessageModel.CLUSTERING,
    ladder: Ladder = NO_LADDER,
) -> Outcome[PulledT]:
    """The fate of a batch; an exception counts as None."""
    if result is ConsumeStatus.SUCCESS:
        return Outcome(messages)
    details = result if isinstance(result, BatchResult) else _ALL_FAILED
    done = _done_count(details, len(messages))
    finished, failed = messages[:done], messages[done:]
    if model is MessageModel.BROADCASTING:
        return Outcome(finished=finished, dropped=failed)
    levels, default = details.delay_levels, details.delay_level
    if not (levels or default or ladder):  # the usual case, and a storm of failures is when every microsecond counts
        return Outcome(finished=finished, send_back=[SendBack(message, BROKER_CHOOSES) for message in failed])
    send_back = [
        SendBack(message, levels.get(index, default) or rung(ladder, message.delivery_attempt + 1))
        for index, message in enumerate(failed, start=done)
    ]
    return Outcome(finished=finished, send_back=send_back)


def give_up(
    messages: Sequence[PulledT],
    letters: Letters,
    *,
    model: MessageModel = MessageModel.CLUSTERING,
) -> Outcome[PulledT]:
    """The fate of those messages that a listener called dead letters; ``letters`` has their places and the reasons."""
    dead = [(messages[place], reason) for place, reason in letters.reasons.items()]
    if model is MessageModel.BROADCASTING:
        return Outcome(dropped=[message for message, _ in dead])
    return Outcome(send_back=[SendBack(message, DEAD_LETTER_LEVEL, reason, letters.stage) for message, reason in dead])


def rung(ladder: Ladder, failures: int) -> int:
    """The level of a message that failed that often: that of the largest number which is not larger."""
    return ladder[max(reached)] if (reached := [count for count in ladder if count <= failures]) else BROKER_CHOOSES


def attempts_max(configured: int) -> int | None:
    """How often a message may fail; −1 is None: its group's limit counts, and orderly consuming has none."""
    return configured if configured >= 0 else None


def _done_count(result: BatchResult, count: int) -> int:
    """How many messages from the start succeeded; indexes beyond the batch are clipped, as RocketMQ does."""
    if result.status is not ConsumeStatus.SUCCESS:
        return 0
    return count if result.ack_index is None else max(0, min(result.ack_index + 1, count))
