"""The ledger of a run of hours: who still has to get what, in memory that does not grow with the run.

    acknowledged ─▶ outstanding, for each group that expects its kind ─▶ delivered | dead
                          │ older than ``late_s``                            │ remembered for ``window_s``
                          ▼                                                  ▼
                     late: counted, and named                         again: a duplicate

What is outstanding when the run ends, after everything had its time, is missing: lost, or in the log and not delivered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

LATE_S: Final = 300.0
WINDOW_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Outstanding:
    """An acknowledged message that a group did not get yet."""

    group: str
    message_id: str
    kind: str
    age_s: float

    def __str__(self) -> str:
        return f"{self.kind} {self.message_id} for {self.group}, acknowledged {self.age_s:.0f} s ago"


class DeliveryBook:
    """Acknowledged messages and deliveries of all groups; ``expected`` says which groups get a kind.

    The waits of ``timed`` groups are measured: others get delayed messages and retries, which wait by intent.
    """

    def __init__(
        self,
        expected: Mapping[str, Iterable[str]],
        *,
        timed: Iterable[str] = (),
        now_s: Callable[[], float] = monotonic,
        late_s: float = LATE_S,
        window_s: float = WINDOW_S,
    ) -> None:
        self._expected = {kind: tuple(groups) for kind, groups in expected.items()}
        self._timed = frozenset(timed)
        self._now_s, self._late_s, self._window_s = now_s, late_s, window_s
        groups = {group for each in self._expected.values() for group in each}
        self._left: dict[str, dict[str, tuple[float, str]]] = {group: {} for group in groups}
        self._seen: dict[str, dict[str, float]] = {group: {} for group in groups}  # the oldest first
        self._late: set[tuple[str, str]] = set()
        self.acknowledged: Counter[str] = Counter()  # by kind
        self.delivered: Counter[str] = Counter()  # by group: first deliveries
        self.dead: Counter[str] = Counter()
        self.duplicates: Counter[str] = Counter()
        self.late = 0  # messages that a group got, or gets, later than ``late_s``
        self.waits_s: deque[float] = deque(
            maxlen=20_000
        )  # from acknowledgement to first delivery, since they were taken

    def acknowledge(self, kind: str, message_id: str) -> None:
        """A promise was made; a group that has the message already is not waited for."""
        self.acknowledged[kind] += 1
        for group in self._expected[kind]:
            if message_id not in self._seen[group]:
                self._left[group][message_id] = self._now_s(), kind

    def deliver(self, group: str, message_id: str) -> bool:
        """Whether this is the first time, as far back as is remembered."""
        return self._end(group, message_id, self.delivered)

    def bury(self, group: str, message_id: str) -> bool:
        """The message is among the dead letters of the group; False when it was consumed or counted before."""
        if message_id in self._seen[group]:
            return False
        return self._end(group, message_id, self.dead)

    def _end(self, group: str, message_id: str, counts: Counter[str]) -> bool:
        now_s, seen = self._now_s(), self._seen[group]
        found = self._left[group].pop(message_id, None)
        if found is None and message_id in seen:
            self.duplicates[group] += 1
            return False
        seen[message_id] = now_s
        counts[group] += 1
        if found is not None and group in self._timed:
            self.waits_s.append(now_s - found[0])
        return True

    # --- what is looked at while the run goes on ---

    def outstanding(self, older_than_s: float = 0.0) -> list[Outstanding]:
        """The oldest of a group first."""
        now_s = self._now_s()
        return [
            Outstanding(group, message_id, kind, now_s - since_s)
            for group, left in self._left.items()
            for message_id, (since_s, kind) in left.items()
            if now_s - since_s >= older_than_s
        ]

    def newly_late(self) -> list[Outstanding]:
        """Messages that became late since this was asked."""
        found = [each for each in self.outstanding(self._late_s) if (each.group, each.message_id) not in self._late]
        self._late |= {(each.group, each.message_id) for each in found}
        self.late += len(found)
        return found

    def forget(self) -> None:
        """Deliveries that are older than the window are not remembered any more."""
        until_s = self._now_s() - self._window_s
        for seen in self._seen.values():
            old = []
            for message_id, at_s in seen.items():
                if at_s > until_s:
                    break
                old.append(message_id)
            for message_id in old:
                del seen[message_id]

    @property
    def remembered(self) -> int:
        """Entries in memory, of which a long run must not have more than a short one."""
        return sum(map(len, self._seen.values())) + sum(map(len, self._left.values())) + len(self._late)


class OrderBook:
    """First deliveries of each lane of ordered messages, by their numbers, which grow by one."""

    def __init__(self, numbers_max: int = 20_000) -> None:
        self._numbers_max = numbers_max
        self._seen: dict[str, dict[int, None]] = {}
        self._highest: dict[str, int] = {}
        self._early: dict[str, tuple[str, int, int]] = {}  # by id: lane, number, and the later one that came before it
        self.problems: list[str] = []

    def deliver(self, lane: str, number: int, message_id: str) -> None:
        seen = self._seen.setdefault(lane, {})
        if number in seen:
            return
        seen[number] = None
        highest = self._highest.get(lane, -1)
        if number < highest:
            self._early[message_id] = lane, number, highest
        self._highest[lane] = max(highest, number)
        while len(seen) > self._numbers_max:
            del seen[next(iter(seen))]

    def judge(self, was_acknowledged: Callable[[str], bool]) -> list[str]:
        """Those that came after a later one; only of acknowledged messages, the rest has no promised order."""
        found = [
            f"{lane}: {number} after {highest}"
            for message_id, (lane, number, highest) in self._early.items()
            if was_acknowledged(message_id)
        ]
        self._early.clear()
        self.problems += found
        return found
