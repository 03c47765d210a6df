"""What happened in a simulation, in order: every line goes into the hash, and into the report of a failure."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from tests.grpc.pop_book import PopBook

_LINES_MAX: Final = 200_000


@dataclass(slots=True)
class Sent:
    """One message that some producer tried to send."""

    key: str  # in the body: unique in the whole simulation
    topic: str
    kind: str
    at_s: float
    done_s: float = -1.0  # when its sender was answered
    status: str = "unknown"  # ok, stored (not promised), refused, unknown, deleted (with its topic)
    message_id: str = ""
    queue: tuple[str, str, int] | None = None  # topic, broker, queue
    offset: int = -1
    due_s: float = 0.0  # true time before which nobody may see it
    lane: str = ""  # of ordered sends
    number: int = 0
    outcome: str = ""  # of a transaction: commit, rollback


@dataclass(slots=True)
class Delivery:
    key: str
    group: str
    member: str
    at_s: float
    queue: tuple[str, str, int]
    offset: int
    attempt: int
    topic: str


@dataclass
class History:
    """``digest`` has everything; ``lines`` what a reader wants to see."""

    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    now_s: Any = None
    lines: list[str] = field(default_factory=list)
    sent: dict[str, Sent] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    consumed: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by group: finished keys
    counts: Counter[str] = field(default_factory=Counter)
    alone: set[str] = field(default_factory=set)  # keys of kept messages that a master without replicas has confirmed
    retries_cut: set[str] = field(default_factory=set)  # keys: a retry was cut with what one of two had stored alone
    redriven: set[str] = field(default_factory=set)  # keys of dead letters that operators sent again
    pops: PopBook = field(default_factory=PopBook)

    def note(self, what: str, *facts: object) -> None:
        line = f"{self.now_s():10.4f} {what}: {' '.join(map(str, facts))}"
        self.digest.update(line.encode())
        self.counts[what] += 1
        if len(self.lines) < _LINES_MAX:
            self.lines.append(line)

    def hash(self) -> str:
        return str(self.digest.hexdigest())[:12]
