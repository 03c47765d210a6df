"""What an agent sees, and the steps that it can take: ``rules`` makes one of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyromq.errors import ConfigError
from pyromq.failover.doubt import Ask, Census
from pyromq.failover.record import BrokerStatus, LeaseRecord

LEASE_S_MIN: Final = 1.0
LEASE_S_MAX: Final = 300.0
ALONE_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations of one lease; all members must be given the same."""

    duration_s: float = 4.0
    renew_s: float = 0.8  # between two renewals
    margin_s: float = 0.5  # a grant ends so long before the lease, an observer waits so much longer
    look_s: float = 0.25  # between two looks at the record
    absent_s: float = 4.0  # a member that is behind its master for so long is no longer in sync
    hold_s: float = 5.0  # a planned change that takes longer is given up
    alone_s: float = 30.0  # of two members, one that is not sure of the store waits so long for the other

    @classmethod
    def of(cls, duration_s: float, alone_s: float = 30.0) -> Timing:
        """A lease of so many seconds, everything else in proportion. Raises ConfigError."""
        if not 0 <= alone_s <= ALONE_S_MAX:
            raise ConfigError(f"waiting {alone_s:g} s for the other member is outside [0, {ALONE_S_MAX:g}] seconds")
        if not LEASE_S_MIN <= duration_s <= LEASE_S_MAX:
            raise ConfigError(f"a lease of {duration_s:g} s is outside [{LEASE_S_MIN:g}, {LEASE_S_MAX:g}] seconds")
        return cls(
            duration_s=duration_s,
            renew_s=duration_s / 5,
            margin_s=duration_s / 8,
            look_s=min(0.25, duration_s / 16),
            absent_s=duration_s,
            alone_s=alone_s,
        )

    def ended_after_s(self, record: LeaseRecord | None) -> float:
        """For how long an observer has to see one record, or none, until nobody can have a grant any more."""
        return (record.duration_ms / 1000 if record is not None else self.duration_s) + self.margin_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that a decision depends on; times are of one monotonic clock of this machine."""

    me: str
    now_s: float
    timing: Timing
    broker: BrokerStatus | None  # None: it does not answer
    record: LeaseRecord | None  # None: there is none yet
    seen_s: float  # since when this very record is seen
    renewed_s: float  # when the last renewal of ours was begun
    heard_s: dict[str, float]  # replicas: when each had, for the last time, all that our broker had then
    held_s: float | None = None  # since when our broker takes no sends
    wanted_s: float = float("-inf")  # since when another master is wanted
    is_sure: bool = True  # the store was watched without a gap since it was known to be current
    is_holder_asked: bool = False  # about this very record
    is_restarted: bool = False  # our broker is master, and has been granted nothing since it was started
    mine: LeaseRecord | None = None  # the newest one that we wrote or found as holder
    newest: LeaseRecord | None = None  # of all that we have seen
    census: Census | None = None  # what the other members said, if they were asked
    asked_s: float = float("inf")  # since when they are asked without having answered
    since_s: float = float("-inf")  # when our broker was promoted: members that it was given come within a moment
    wall_ms: int = 0  # Unix time, for people
    failing_s: float = float("inf")  # since when the store of our broker takes no messages, or its log is damaged

    @property
    def is_expired(self) -> bool:
        """Whether this record, or none, is seen for so long that nobody can have a grant any more."""
        return self.now_s - self.seen_s > self.timing.ended_after_s(self.record)

    @property
    def is_granted(self) -> bool:
        """Whether the time of our own last renewal has not run out, so that nobody else can have taken the lease."""
        mine = self.mine
        return mine is not None and self.now_s - self.renewed_s < mine.duration_ms / 1000 - self.timing.margin_s


# --- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    reason: str


@dataclass(frozen=True, slots=True)
class Write:
    """Compare-and-set of the record; on success, and if it names us, the broker is granted its time."""

    record: LeaseRecord
    reason: str


@dataclass(frozen=True, slots=True)
class Promote:
    number: int
    waits: bool | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    master: str
    number: int
    decided: int = 0


@dataclass(frozen=True, slots=True)
class HoldSends:
    """Take no sends: a planned change is near."""


@dataclass(frozen=True, slots=True)
class ReleaseSends:
    """Take sends again: the planned change is given up."""


@dataclass(frozen=True, slots=True)
class AskHolder:
    """Ask the holder whether it is master by this record, as a replica that is not sure of the store."""

    holder: str


Step = KeepWaiting | Write | Promote | Follow | HoldSends | ReleaseSends | Ask | AskHolder
