"""Report of a store check: plain values, and the words for them.

A *finding* (``StoreFinding``) is one thing to know, with a *severity* (``StoreSeverity``). The report as a whole has a
*verdict* (``StoreVerdict``): ``sound``; ``sound after recovery`` (derived data that opening the store builds again, an
unfinished tail that it cuts); ``damaged`` (messages or configuration are lost, or opening would not repair what is
wrong).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

FINDINGS_PER_KIND_MAX = 20


class StoreSeverity(Enum):
    """How bad a finding is."""

    NOTE = "note"  # good to know
    WARNING = "warning"  # recovery takes care of it, or it costs convenience only
    ERROR = "error"  # stored data is damaged or lost


class StoreVerdict(Enum):
    """What the worst finding makes of the store."""

    SOUND = "sound"
    RECOVERABLE = "sound after recovery"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One thing to know. ``kind`` is a stable word for programs, ``where`` a path under the store folder."""

    severity: StoreSeverity
    kind: str
    where: str
    text: str
    position: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """One file of the commit log. ``closed``: it ends in a blank mark, the log goes on in the next file."""

    name: str
    base: int
    records: int
    record_bytes: int
    checksummed: int
    damaged_bytes: int
    closed: bool


@dataclass(frozen=True, slots=True)
class PlannedCut:
    """What recovery would take out of one log file; ``whole_records`` of it are undamaged."""

    position: int
    size: int
    reason: str
    whole_records: int


@dataclass(frozen=True, slots=True)
class LogCheck:
    """The commit log: [first, end) stays, ``cuts`` would go, ``damaged_ranges`` stay and are lost."""

    segment_bytes: int
    first: int
    end: int
    segments: tuple[SegmentCheck, ...]
    damaged_ranges: int
    damaged_bytes: int
    cuts: tuple[PlannedCut, ...]
    stored_ms_max: int

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def checksummed(self) -> int:
        """Records with a checksum over everything; of the others only the body has one."""
        return sum(segment.checksummed for segment in self.segments)


@dataclass(frozen=True, slots=True)
class QueuesCheck:
    """Consume queues. ``wrong``: entries that differ from the log and that recovery would not notice."""

    queues: int = 0
    entries: int = 0  # that the log asks for
    fillers: int = 0
    rebuilt: int = 0  # entries before the seal that recovery builds again
    to_add: int = 0  # entries behind the seal that recovery writes
    to_drop: int = 0  # entries without a record, which recovery removes
    wrong: int = 0
    lost_messages: int = 0  # offsets whose record is damaged or missing


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """Key index. ``missing`` and ``extra`` are what recovery would not notice."""

    files: int = 0
    entries: int = 0
    missing: int = 0
    extra: int = 0
    to_add: int = 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything a check has to say."""

    root: str
    clean: bool
    in_use: bool
    sealed_position: int | None
    opens: bool  # False: recovery refuses until a file is restored
    log: LogCheck
    queues: QueuesCheck
    index: IndexCheck
    findings: tuple[StoreFinding, ...]
    not_listed: int  # findings left off

    @property
    def lost_messages(self) -> int:
        """Messages lost, at least: a damaged range holds one or more."""
        return max(self.queues.lost_messages, self.log.damaged_ranges)

    def count(self, severity: StoreSeverity) -> int:
        """Listed findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def verdict(self) -> StoreVerdict:
        if self.count(StoreSeverity.ERROR):
            return StoreVerdict.DAMAGED
        return StoreVerdict.RECOVERABLE if self.count(StoreSeverity.WARNING) else StoreVerdict.SOUND

    @property
    def summary(self) -> str:
        """The verdict in one line of plain words."""
        match self.verdict:
            case StoreVerdict.SOUND:
                return f"sound: {self._size()}, queues and key index agree with the log"
            case StoreVerdict.RECOVERABLE:
                return f"sound after recovery: {'; '.join(self._repairs())}"
            case StoreVerdict.DAMAGED:
                return f"damaged: {'; '.join(self._losses() + self._repairs())}"

    def _size(self) -> str:
        return f"{count_of(self.log.records, 'record')} in {count_of(len(self.log.segments), 'file')}"

    def _losses(self) -> list[str]:
        parts = []
        if self.lost_messages:
            lost = count_of(self.lost_messages, "record")
            parts.append(f"{lost} lost ({self.log.damaged_bytes} bytes of the log), {self.log.records} whole")
        else:
            parts.append(f"0 records lost of {self.log.records}")
        if self.queues.wrong:
            wrong = count_of(self.queues.wrong, "queue entry", "queue entries")
            parts.append(f"{wrong} wrong, and opening does not rebuild them")
        configs = sum(f.kind == "config-damaged" and f.severity is StoreSeverity.ERROR for f in self.findings)
        if configs:
            parts.append(f"{count_of(configs, 'configuration file')} unusable")
        if not self.opens:
            parts.append("the store does not open until the missing or wrong-sized log file is restored")
        return parts

    def _repairs(self) -> list[str]:
        parts = [] if self.clean or self.in_use else ["the store was not closed"]
        if cut_bytes := sum(cut.size for cut in self.log.cuts):
            whole = sum(cut.whole_records for cut in self.log.cuts)
            extra = f" ({count_of(whole, 'whole record')} among them)" if whole else ""
            parts.append(f"opening cuts {cut_bytes} bytes{extra} from position {self.log.cuts[0].position} on")
        if self.queues.rebuilt:
            parts.append(f"opening rebuilds {count_of(self.queues.rebuilt, 'queue entry', 'queue entries')}")
        if added := self.queues.to_add:
            parts.append(f"opening adds {count_of(added, 'queue entry', 'queue entries')}")
        if self.index.to_add:
            parts.append(f"opening adds {count_of(self.index.to_add, 'key')} to the index")
        if self.index.missing or self.index.extra:
            parts.append("the key index disagrees with the log; remove the folder index to have it rebuilt")
        if not parts and self.verdict is StoreVerdict.RECOVERABLE:
            parts.append(f"{self._size()} whole; {count_of(self.count(StoreSeverity.WARNING), 'warning')} above")
        return parts


class Findings:
    """Collects findings; of one kind only the first few are kept, the others are counted."""

    def __init__(self) -> None:
        self._kept: list[StoreFinding] = []
        self._counts: Counter[tuple[StoreSeverity, str]] = Counter()
        self.not_listed = 0

    def add(
        self,
        severity: StoreSeverity,
        kind: str,
        where: str,
        text: str,
        *,
        position: int | None = None,
        size: int | None = None,
    ) -> None:
        self._counts[severity, kind] += 1
        if self._counts[severity, kind] > FINDINGS_PER_KIND_MAX:
            self.not_listed += 1
            return
        self._kept.append(StoreFinding(severity, kind, where, text, position, size))

    def listed(self) -> tuple[StoreFinding, ...]:
        """Worst first, else in the order of finding."""
        worst_first = list(StoreSeverity)[::-1]
        return tuple(sorted(self._kept, key=lambda finding: worst_first.index(finding.severity)))


def count_of(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"
