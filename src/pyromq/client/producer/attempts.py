"""The attempts of one send: what failed where, and what to do next. Decides, does nothing.

    failure                                        the message may go to any queue   its queue is fixed
    nothing was sent (no connection, too many      another broker at once; when      once more after a pause,
    requests under way)                            all failed, a pause               while there is time
    code 14: the broker stores nothing now (it     the same                          the same
    stops, its disk is full)
    code 2 [FLOW_CONTROL]: a quota of the sender   the same                          the same
    is used up
    no response, connection lost                   another attempt, if one is left   give up: order might suffer
    code 1, 2, 16, 17, 204, 205, 1500              another attempt, if one is left   1500: as above; else give up
    any other response                             give up                           give up

Time is one for all attempts. A send that was not given one has two: a short one for brokers to answer in, and a longer
one from the moment that a broker is away (no connection, code 14) or silent (no response, connection lost), so that a
restart and a failover pass unnoticed. Within the longer one each attempt has the short one; as many are made as fit.

What was not stored does not count as an attempt: it cannot make a second copy (RocketMQ counts code 14; why not here is
decision 27). Which error is which is written in ``core.retry_advice``.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from pyromq.client.core.retry_advice import is_broker_away, is_surely_not_stored, may_retry, may_retry_in_order
from pyromq.errors import Attempt, ConnectionLostError, MQError, RequestTimeoutError

NEVER_MS: Final = 1 << 62


class SendStep(Enum):
    AGAIN = "again at once"
    PAUSE = "again after a pause"
    GIVE_UP = "give up"


class Attempts:
    """``retries`` are attempts after the first that reached a broker; ``is_pinned``: the queue is fixed.

    ``restart_deadline_ms`` takes the place of ``deadline_ms``, if it is later, once a broker is away or silent; each
    attempt has ``answer_ms`` from then on.
    """

    __slots__ = (
        *("_answer_ms", "_is_extended", "_restart_deadline_ms", "_unreachable", "deadline_ms", "failed", "is_pinned"),
        *("last_broker", "pauses", "reached", "retries"),
    )

    def __init__(
        self,
        *,
        deadline_ms: int,
        retries: int,
        is_pinned: bool = False,
        restart_deadline_ms: int = 0,
        answer_ms: int = NEVER_MS,
    ) -> None:
        self.deadline_ms = deadline_ms
        self._answer_ms = answer_ms
        self._is_extended = False  # it waits until ``restart_deadline_ms``
        self._restart_deadline_ms = restart_deadline_ms
        self.retries = retries
        self.is_pinned = is_pinned
        self.failed: list[Attempt] = []  # one of several in a row that read the same
        self.last_broker = ""
        self.reached = 0  # attempts that may have reached a broker
        self.pauses = 0
        self._unreachable: set[str] = set()  # brokers that could not take it since the last pause

    def left_ms(self, now_ms: int) -> int:
        return self.deadline_ms - now_ms

    def answer_ms(self, now_ms: int) -> int:
        """How long the next attempt may wait for its response: a broker that was waited for may hang."""
        left_ms = self.left_ms(now_ms)
        return min(left_ms, self._answer_ms) if self._is_extended else left_ms

    def _wait_longer(self) -> None:
        """Until the later deadline, with as many attempts as fit: a master that hangs would use up two or three."""
        more_ms = self._restart_deadline_ms - self.deadline_ms
        if more_ms > 0:
            self.deadline_ms, self._is_extended = self._restart_deadline_ms, True
            if self.retries:
                self.retries = max(self.retries, more_ms // self._answer_ms)

    def after(self, broker: str, error: MQError, now_ms: int, brokers: Collection[str]) -> SendStep:
        """Notes a failure; ``brokers`` are those that the message could go to."""
        self.last_broker = broker
        attempt = Attempt(broker, error)
        if not self.failed or str(self.failed[-1]) != str(attempt):
            self.failed.append(attempt)
        if is_broker_away(error) or isinstance(error, RequestTimeoutError | ConnectionLostError):
            self._wait_longer()
        if self.left_ms(now_ms) <= 0:
            return SendStep.GIVE_UP
        if is_surely_not_stored(error):
            return self._after_nothing_stored(broker, brokers)
        self.reached += 1
        if not may_retry(error) or self.reached > self.retries:
            return SendStep.GIVE_UP
        if self.is_pinned and not may_retry_in_order(error):
            return SendStep.GIVE_UP
        return SendStep.AGAIN

    def _after_nothing_stored(self, broker: str, brokers: Collection[str]) -> SendStep:
        self._unreachable.add(broker)
        if not self.is_pinned and not self._unreachable.issuperset(brokers):
            return SendStep.AGAIN
        self._unreachable.clear()
        self.pauses += 1
        return SendStep.PAUSE
