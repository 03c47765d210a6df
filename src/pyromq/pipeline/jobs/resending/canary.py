"""A canary: a few messages are sent first, and only when they fare well the others follow.

It has failed when one of its messages came back, to the retry topic or dead again, or was not consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyromq.client.admin.dead_letters import REDRIVEN_FROM
from pyromq.clock import Clock
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.resending.outgoing import Outgoing, Resent, SendOutcome
from pyromq.pipeline.jobs.resending.sending import PacedSender

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S: Final = 0.5
_CLOCKS_DIFFER_MS: Final = 600_000  # no more than this, those of brokers and ours


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


def send_canary(sender: PacedSender, messages: Iterator[Outgoing | Resent], count: int) -> list[Resent]:
    """The first messages, until ``count`` of them were sent just now: what was sent before proves nothing."""
    first: list[Resent] = []
    while missing := count - sum(each.outcome is SendOutcome.SENT for each in first):
        some = list(sender.send_all(islice(messages, missing)))
        first += some
        if not some or any(map(_was_not_taken, some)):
            break
    return first


@dataclass(frozen=True, slots=True)
class Canary:
    """Watches, for ``wait_s`` at most, what becomes of dead letters of a group that were sent again."""

    spark: SparkSession
    sender: PacedSender
    selection: Selection
    group: str
    wait_s: float
    sleep: Callable[[float], None]
    clock: Clock

    def verdict(self, first: Sequence[Resent]) -> CanaryVerdict:
        if any(map(_was_not_taken, first)):
            return CanaryVerdict.NOT_SENT
        sent = [each for each in first if each.outcome is SendOutcome.SENT]
        if not sent:
            return CanaryVerdict.NOT_NEEDED
        deadline_ms = self.clock.monotonic_ms() + round(1000 * self.wait_s)
        while not (is_consumed := all(map(self._is_consumed, sent))) and self.clock.monotonic_ms() < deadline_ms:
            self.sleep(_LOOK_S)
        if is_consumed:
            self.sleep(min(2.0, self.wait_s))  # a message that fails is sent back a moment after the group moved on
        if self._came_back(sent):
            return CanaryVerdict.CAME_BACK
        return CanaryVerdict.PASSED if is_consumed else CanaryVerdict.NOT_CONSUMED

    def _is_consumed(self, each: Resent) -> bool:
        broker, _, number = each.queue.rpartition(":")
        offset = self.sender.committed(self.group, QueueId(each.to_topic, broker, int(number)))
        return offset is not None and each.offset is not None and offset > each.offset

    def _came_back(self, sent: Sequence[Resent]) -> bool:
        """Whether the retry or dead-letter topic has got one of them; no other run has sent them before."""
        from pyspark.sql import functions as F  # noqa: N812

        is_one = F.col("properties").getItem(REDRIVEN_FROM).isin([each.offset_message_id for each in sent])
        lately = self.clock.now_ms() - round(1000 * self.wait_s) - _CLOCKS_DIFFER_MS
        for topic in (retry_topic(self.group), dead_letter_topic(self.group)):
            again = Selection(
                topics=(topic,), nameserver=self.selection.nameserver, begin=lately, options=self.selection.options
            )
            frame = again.frame(self.spark, "delivery_attempt", "properties").where(is_one)
            if topic == retry_topic(self.group):
                frame = frame.where("delivery_attempt > 0")  # others were sent there, to this group alone
            if not frame.isEmpty():
                return True
        return False


def _was_not_taken(each: Resent) -> bool:
    """By brokers; dead letters that became no message, such as those whose patch failed, do not count."""
    return each.outcome is SendOutcome.FAILED and bool(each.new_message_id)
