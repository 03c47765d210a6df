"""Consume outcome of orderly consumers: what happens to messages after their listener returned.

    result                     commits by itself                      the listener commits
      SUCCESS                  commit what was taken                  nothing yet
      COMMIT                   as SUCCESS                             commit what was taken
      ROLLBACK                 as SUCCESS                             everything taken again, after a rest
      SUSPEND, None, exception put back and rest; a message with too many attempts becomes a dead letter
      DeadLetterError, a body  a dead letter at once, with the reason; what was taken with it is taken again
      that does not decode

A dead letter is sent to the group's retry topic, whence the broker moves it to the dead letters. That may fail, so a
decision has two steps: ``decide_orderly`` says what is dead, ``settled`` says what follows from how sending it went.
When nothing needs to be put back, the queue goes on (and a consumer that commits by itself commits).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Generic

from pyromq.client.consumer.rules.message_protocol import PulledT
from pyromq.client.consumer.rules.outcome import Letters

SUSPEND_MS: Final = 1_000
SUSPEND_MS_MIN: Final = 10
SUSPEND_MS_MAX: Final = 30_000


class OrderlyStatus(Enum):
    """What an orderly listener says; COMMIT and ROLLBACK are for listeners that commit themselves."""

    SUCCESS = "success"
    SUSPEND = "suspend"  # RocketMQ: SUSPEND_CURRENT_QUEUE_A_MOMENT
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class OrderlyResult:
    """A status with the rest that the listener wishes for its queue."""

    status: OrderlyStatus = OrderlyStatus.SUCCESS
    suspend_ms: int | None = None


class OrderlyStep(Enum):
    """What to do with everything that was taken from the buffer."""

    COMMIT = "commit_taken, store the offset, go on"
    KEEP = "go on; the listener's next commit covers these messages, dead ones too"
    ROLL_BACK = "roll_back_taken, then rest"
    PUT_BACK = "finish what is dead, put_back the others, then rest"


@dataclass(frozen=True, slots=True)
class OrderlyOutcome(Generic[PulledT]):
    """A step, the messages it concerns, and how long the queue rests after a step that asks for it."""

    step: OrderlyStep
    rest_ms: int
    dead: Sequence[PulledT] = ()  # to be sent as dead letters
    put_back: Sequence[PulledT] = ()
    warning: str | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)  # of dead letters, by offset, where there are some
    stage: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the next messages may be taken at once."""
        return self.step in (OrderlyStep.COMMIT, OrderlyStep.KEEP)

    def settled(self, not_sent: Collection[int]) -> OrderlyOutcome[PulledT]:
        """After sending dead letters: no broker took those of these offsets, so they hold the queue like the others."""
        left = [message for message in self.dead if message.offset in not_sent]
        if not left:
            return self
        again = sorted((*self.put_back, *left), key=lambda message: message.offset)
        sent = [message for message in self.dead if message.offset not in not_sent]
        rest = max(self.rest_ms, SUSPEND_MS) if self.reasons else self.rest_ms
        return replace(self, step=OrderlyStep.PUT_BACK, rest_ms=rest, dead=sent, put_back=again)


def decide_orderly(
    messages: Sequence[PulledT],
    result: OrderlyStatus | OrderlyResult | None,
    *,
    auto_commit: bool = True,
    attempts_max: int | None = None,
    suspend_ms: int = SUSPEND_MS,
) -> OrderlyOutcome[PulledT]:
    """The fate of a batch; an exception counts as None, ``attempts_max`` None means no limit."""
    details = _details(result)
    rest = rest_ms(details.suspend_ms, suspend_ms)
    match details.status:
        case OrderlyStatus.SUSPEND:
            return _suspend(messages, auto_commit, attempts_max, rest)
        case OrderlyStatus.ROLLBACK if not auto_commit:
            return OrderlyOutcome(OrderlyStep.ROLL_BACK, rest)
        case OrderlyStatus.SUCCESS if not auto_commit:
            return OrderlyOutcome(OrderlyStep.KEEP, rest)
        case OrderlyStatus.COMMIT | OrderlyStatus.ROLLBACK if auto_commit:
            text = f"{details.status.name} counts as SUCCESS: this consumer commits by itself"
            return OrderlyOutcome(OrderlyStep.COMMIT, rest, warning=text)
        case _:
            return OrderlyOutcome(OrderlyStep.COMMIT, rest)


def give_up_orderly(messages: Sequence[PulledT], letters: Letters, *, auto_commit: bool) -> OrderlyOutcome[PulledT]:
    """The fate of a batch of which some are dead letters: the others are taken again at once, in order."""
    dead = [messages[place] for place in sorted(letters.reasons)]
    reasons = {messages[place].offset: reason for place, reason in letters.reasons.items()}
    again = [message for message in messages if message.offset not in reasons]
    step = OrderlyStep.COMMIT if auto_commit else OrderlyStep.KEEP
    return OrderlyOutcome(
        OrderlyStep.PUT_BACK if again else step, SUSPEND_MS_MIN, dead, again, reasons=reasons, stage=letters.stage
    )


def rest_ms(wished: int | None, default: int) -> int:
    """How long a queue rests: 10 ms to 30 s, whatever was wished; None and −1 mean the consumer's default."""
    chosen = default if wished is None or wished == -1 else wished
    return max(SUSPEND_MS_MIN, min(chosen, SUSPEND_MS_MAX))


def _details(result: OrderlyStatus | OrderlyResult | None) -> OrderlyResult:
    if isinstance(result, OrderlyResult):
        return result
    return OrderlyResult(OrderlyStatus.SUSPEND if result is None else result)


def _suspend(
    messages: Sequence[PulledT],
    auto_commit: bool,
    attempts_max: int | None,
    rest: int,
) -> OrderlyOutcome[PulledT]:
    dead = [message for message in messages if attempts_max is not None and message.delivery_attempt >= attempts_max]
    gone = {message.offset for message in dead}
    again = [message for message in messages if message.offset not in gone]
    if again:
        return OrderlyOutcome(OrderlyStep.PUT_BACK, rest, dead, again)
    return OrderlyOutcome(OrderlyStep.COMMIT if auto_commit else OrderlyStep.KEEP, rest, dead)
