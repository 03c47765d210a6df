"""A canary: a few messages are sent first, and only when they fare well the others follow.

It has failed when one of its messages came back, to the retry topic or dead again, or was not consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from pyromq.clock import Clock
from pyromq.operate.resend.canary import are_consumed, came_back
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item
from pyromq.pipeline.jobs.resending.sending import PacedSender

_LOOK_S: Final = 0.5
CLOCKS_DIFFER_MS: Final = 600_000  # no more than this, those of brokers and ours


class CanaryVerdict(StrEnum):
    NOT_ASKED = "not asked for"
    NOT_NEEDED = "nothing was left to send"
    PASSED = "passed"
    CAME_BACK = "came back"
    NOT_CONSUMED = "not consumed"
    NOT_SENT = "not sent"

    @property
    def is_bad(self) -> bool:
        return self in (CanaryVerdict.CAME_BACK, CanaryVerdict.NOT_CONSUMED, CanaryVerdict.NOT_SENT)


def send_canary(sender: PacedSender, messages: Iterator[Item], count: int) -> list[ItemOutcome]:
    """The first messages, until ``count`` of them were sent just now: what was sent before proves nothing."""
    first: list[ItemOutcome] = []
    while missing := count - sum(each.status is ItemStatus.SENT for each in first):
        some = list(sender.send_all(islice(messages, missing)))
        first += some
        if not some or any(map(_was_not_taken, some)):
            break
    return first


@dataclass(frozen=True, slots=True)
class Canary:
    """Watches, for ``wait_s`` at most, what becomes of dead letters of a group that were sent again."""

    sender: PacedSender
    group: str
    wait_s: float
    sleep: Callable[[float], None]
    clock: Clock

    def verdict(self, first: Sequence[ItemOutcome]) -> CanaryVerdict:
        if any(map(_was_not_taken, first)):
            return CanaryVerdict.NOT_SENT
        sent = [each for each in first if each.status is ItemStatus.SENT]
        if not sent:
            return CanaryVerdict.NOT_NEEDED
        deadline_ms = self.clock.monotonic_ms() + round(1000 * self.wait_s)
        while not (is_consumed := self._are_consumed(sent)) and self.clock.monotonic_ms() < deadline_ms:
            self.sleep(_LOOK_S)
        if is_consumed:
            self.sleep(min(2.0, self.wait_s))  # a message that fails is sent back a moment after the group moved on
        if self._came_back(sent):
            return CanaryVerdict.CAME_BACK
        return CanaryVerdict.PASSED if is_consumed else CanaryVerdict.NOT_CONSUMED

    def _are_consumed(self, sent: Sequence[ItemOutcome]) -> bool:
        return bool(self.sender.connected.call(are_consumed(self.sender.admin, self.group, sent)))

    def _came_back(self, sent: Sequence[ItemOutcome]) -> bool:
        """Whether the group failed one of them; no other run has sent them before."""
        since_ms = self.clock.now_ms() - round(1000 * self.wait_s) - CLOCKS_DIFFER_MS
        return bool(self.sender.connected.call(came_back(self.sender.admin, self.group, sent, since_ms)))


def _was_not_taken(each: ItemOutcome) -> bool:
    """By brokers; dead letters that became no message, such as those whose patch failed, do not count."""
    return each.status.is_problem and bool(each.new_message_id)
