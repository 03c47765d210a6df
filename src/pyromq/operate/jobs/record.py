"""Records of jobs: what is known of one, as it is kept and shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pyromq.operate.jobs.outcomes import Counts
from pyromq.operate.jobs.specs import JobSpec, Pace, ResetOffsets


class JobState(StrEnum):
    RUNNING = "running"
    CANARY = "waiting for a go"  # the first items are over; somebody looks at them
    PAUSED = "paused"
    CANCELLING = "cancelling"
    FINISHED = "finished"  # every item was attempted; the counts say how they ended
    CANCELLED = "cancelled"
    FAILED = "failed"  # it could not go on
    INTERRUPTED = "interrupted"  # its process ended while it ran


ACTIVE: Final = frozenset((JobState.RUNNING, JobState.CANARY, JobState.PAUSED, JobState.CANCELLING))
MOVES: Final[dict[str, frozenset[JobState]]] = {
    "pause": frozenset((JobState.RUNNING,)),
    "resume": frozenset((JobState.PAUSED,)),
    "go": frozenset((JobState.CANARY,)),
    "cancel": frozenset((JobState.RUNNING, JobState.CANARY, JobState.PAUSED)),
}
"""By what a person can ask for, the states in which it means something."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one moment. ``note`` says why it is in its state, where that is not plain."""

    id: str
    spec: JobSpec
    pace: Pace = Pace()
    dry_run: bool = False
    by: str = ""
    continues: str = ""  # the job that this one goes on with
    state: JobState = JobState.RUNNING
    note: str = ""
    counts: Counts = Counts()
    created_ms: int = 0
    ended_ms: int = 0

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def has_doubt(self) -> bool:
        """Whether somebody should look: it is over, and not everything is confirmed or was as it should be."""
        counts = self.counts
        return not self.is_active and bool(counts.unknown or counts.refused or self.state is not JobState.FINISHED)

    @property
    def can_undo(self) -> bool:
        """Whether it moved offsets, which can be moved back."""
        return isinstance(self.spec, ResetOffsets) and not self.is_active and not self.dry_run

    def allowed(self) -> list[str]:
        """What a person can ask for now."""
        return [name for name, states in MOVES.items() if self.state in states]

    def verdict(self) -> str:
        """One line that claims nothing beyond what is known."""
        told = self.counts.text()
        if self.dry_run:
            return f"dry run, nothing was done: {self.counts.total} items were looked at"
        return f"{self.state.value}: {told}"
