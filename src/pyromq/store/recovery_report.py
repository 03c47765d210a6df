"""Report of recovery: what opening a store found, cut and rebuilt."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.store.log.log_walk import DamagedRange

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes taken out of the log because they are no record; ``copy`` holds them."""

    position: int
    size: int
    reason: str
    copy: Path


@dataclass(slots=True)
class RecoveryProgress:
    """How far recovery is with its walk through the log; other threads may look at it."""

    start: int = 0
    position: int = 0
    end: int = 0  # of the last file: the log ends somewhere before

    @property
    def text(self) -> str:
        if self.end <= self.start:
            return "the store is being opened"
        walked, whole = self.position - self.start, self.end - self.start
        return f"the store is being recovered: {100 * walked // whole} % ({walked} of at most {whole} bytes)"


@dataclass(slots=True)
class RecoveryReport:
    """What opening the store found and did."""

    clean: bool  # the store was closed
    sealed: bool  # there was a seal that fits the log
    scanned_from: int = 0  # position from which the log was walked
    end: int = 0  # position at which the log ends
    records: int = 0  # found in the walk
    last_stored_ms: int = 0  # store time of the newest record
    cuts: list[Cut] = field(default_factory=list)
    damaged: list[DamagedRange] = field(default_factory=list)
    passed_over: list[DamagedRange] = field(default_factory=list)  # by the walk: a copy of this log can mend these
    deleted: dict[str, int] = field(default_factory=dict)  # topics, with the end of the log when they were deleted
    rebuilt: list[str] = field(default_factory=list)  # names of derived files

    @property
    def intact(self) -> bool:
        """True when nothing was cut, damaged or rebuilt."""
        return not (self.cuts or self.damaged or self.rebuilt)

    def log(self) -> None:
        """Logs that the last run did not end by itself, and what was lost, cut and rebuilt."""
        if not self.clean:
            facts = (self.scanned_from, self.end, self.records)
            logger.info("the store was not closed, recovered: scanned_from=%d end=%d records=%d", *facts)
        for cut in self.cuts:
            logger.warning(
                "torn log cut: position=%d lost_bytes=%d reason=%s copy=%s",
                cut.position,
                cut.size,
                cut.reason,
                cut.copy,
            )
        for damaged in self.damaged:
            logger.error("record lost: position=%d end=%d reason=%s", damaged.position, damaged.end, damaged.reason)
        for what in self.rebuilt:
            logger.warning("rebuilt from the log: what=%s", what)
