"""``replay``: a stretch of topics, filtered, into a topic again, at a set rate and in the order it was stored.

Copies carry REPLAYED_FROM (where the message stands in the log) and REPLAY (the name of this replay); their ids follow
from both. A replay that is run again under its name does not send what it sent before.
"""

from __future__ import annotations

import hashlib
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from pyromq.model.names import validate_topic
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.options import nameservers_known_here
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.plain_rows import count_of
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import Selection, reads_folders
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.resending.canary import CLOCKS_DIFFER_MS
from pyromq.pipeline.jobs.resending.chosen import REPLAY, ChosenRows, RowsBySpark, chosen_rows
from pyromq.pipeline.jobs.resending.executors import (
    KeptOutcomes,
    PartOutcome,
    PartTask,
    parts_of,
    run_parts,
    send_from_executors,
    sent_before,
)
from pyromq.pipeline.jobs.resending.options import ReplayOptions, ReplaySettings
from pyromq.pipeline.jobs.resending.outgoing import SparkRow, outgoing, source_of
from pyromq.pipeline.jobs.resending.packed import CopyMark
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.wording import shown_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLAYED_FROM: Final = "REPLAYED_FROM"
SAMPLE: Final = 10
FAILURES_MAX: Final = 100
_KEPT: Final[KeptOutcomes] = {
    "keeps": frozenset(each for each in ItemStatus if each.is_problem),
    "keeps_max": FAILURES_MAX,
}


class ReplaySample(msgspec.Struct, frozen=True, kw_only=True):
    """One of the messages that would be sent."""

    topic: str
    message_id: str
    keys: str
    tags: str
    store_time: str
    body: str


class ReplaySummary(ShownSummary, frozen=True, kw_only=True):
    """``is_dry``: nothing was sent, ``found`` would be. ``failures`` has the first hundred.

    A replay can be run again under its ``name``, given or made up, and sends what it could not send before.
    """

    to_topic: str
    name: str
    is_dry: bool
    found: int
    sent: int = 0
    sent_before: int = 0
    failed: int = 0
    took_s: float = 0.0
    samples: tuple[ReplaySample, ...] = ()
    failures: tuple[ItemOutcome, ...] = ()


def replay(
    spark: SparkSession | None, selection: Selection, to_topic: str, **options: Unpack[ReplayOptions]
) -> ReplaySummary:
    """Count and show what would be sent; with ``dry_run=False`` send it, at most ``rate`` messages a second.

    Many messages are sent by executors, all of a sharding key in the order they were stored; fewer than 5 000, or no
    more than 5 000 a second, by this process, all of them in order. ``count_max`` 0 means all. ``name`` makes it
    possible to go on after a failure. What is stored from now on is not part of it, nor, when a topic is replayed into
    itself, what this replay sent there. With None for Spark this process reads the messages and keeps them in memory;
    DuckDB answers ``where`` then. Raises what the source raises, TooLargeForMemoryError, and TypeError for an option
    that does not exist.
    """
    settings = settings_from(ReplaySettings, options, "replay")
    validate_topic(to_topic)
    watch = Stopwatch(settings.clock)
    selection.require_properties_as_map()
    with failures_in_words() if spark is not None else nullcontext():
        selected = selection.frozen()
        own = settings.name if to_topic in selected.topics else ""
        rows = chosen_rows(spark, selected, without_replay=own)
        if settings.dry_run:
            found = _limited(rows.count(), settings)
            shown = tuple(map(_sample, rows.first(min(SAMPLE, found))))
            return ReplaySummary(
                to_topic=to_topic, name=settings.name, is_dry=True, found=found, samples=shown, took_s=watch.seconds
            )
        run = settings.name or f"{settings.clock.now_ms():x}-{uuid.uuid4().hex[:8]}"
        part = _sent(spark, selected, rows, ReplayedMessage(to_topic, run, is_checked=bool(settings.name)), settings)
    counts = part.counts
    return ReplaySummary(
        to_topic=to_topic,
        name=run,
        is_dry=False,
        found=sum(counts.values()),
        sent=counts[ItemStatus.SENT],
        sent_before=counts[ItemStatus.SENT_BEFORE],
        failed=counts[ItemStatus.FAILED] + counts[ItemStatus.UNKNOWN],
        took_s=watch.seconds,
        failures=tuple(part.outcomes[:FAILURES_MAX]),
    )


def _limited(count: int, settings: ReplaySettings) -> int:
    return min(count, settings.count_max) if settings.count_max else count


def _sent(
    spark: SparkSession | None,
    selected: Selection,
    rows: ChosenRows,
    item_of: ReplayedMessage,
    settings: ReplaySettings,
) -> PartOutcome:
    """Send the rows, from executors if there are many, or else from here, all of them in order."""
    if isinstance(rows, RowsBySpark) and spark is not None:
        about = _limited(rows.count() if reads_folders(selected) else count_of(selected), settings)
        if send_from_executors(spark, about, settings.rate):
            return _by_executors(spark, selected, rows, item_of, settings, about)
    there = rows.count()
    found = _limited(there, settings)
    sender = PacedSender(selected.nameserver, selected.options, rate=settings.rate, clock=settings.clock)
    messages = map(item_of, islice(rows.in_order(there), found))
    return PartOutcome.of(sender.send_all(messages, total=found, tell=settings.tell), **_KEPT)


def _by_executors(
    spark: SparkSession,
    selected: Selection,
    rows: RowsBySpark,
    item_of: ReplayedMessage,
    settings: ReplaySettings,
    about: int,
) -> PartOutcome:
    sent: frozenset[str] | None = frozenset()
    if item_of.is_checked:
        begin = selected.begin - CLOCKS_DIFFER_MS if isinstance(selected.begin, int) else None
        copies = Selection(
            topics=(item_of.to_topic,), nameserver=selected.nameserver, begin=begin, options=selected.options
        )
        sent = sent_before(spark, [copies], (REPLAY, item_of.run), about)
    parts = parts_of(spark, about, settings.rate)
    task = PartTask(
        nameserver=nameservers_known_here(selected.nameserver), options=selected.options, item_of=item_of,
        rate=settings.rate and settings.rate / parts, sent=sent, **_KEPT,
    )  # fmt: skip
    frame = rows.in_parts(parts, settings.count_max)
    return PartOutcome.joined(run_parts(spark, frame, task, settings.tell, about))


def replayed_id(run: str, offset_message_id: str) -> str:
    """Return the id of a copy: 32 hexadecimal digits that only this run and message give."""
    text = f"{run}\0{offset_message_id}".encode()
    return hashlib.blake2b(text, digest_size=16, person=b"replayed").hexdigest().upper()


@dataclass(frozen=True, slots=True)
class ReplayedMessage:
    """Makes the copy of a row; travels to executors."""

    to_topic: str
    run: str
    is_checked: bool
    mark_names = (REPLAYED_FROM, REPLAY)

    def __call__(self, row: SparkRow) -> Item:
        mark = self.mark(row["offset_message_id"])
        return outgoing(row, mark.topic, mark.message_id, mark.marks, is_checked=self.is_checked)

    def mark(self, place: str, origin: str = "") -> CopyMark:
        return CopyMark(self.to_topic, replayed_id(self.run, place), ((REPLAYED_FROM, place), (REPLAY, self.run)))


def _sample(row: Any) -> ReplaySample:
    source = source_of(row)
    return ReplaySample(
        topic=row["topic"],
        message_id=source.message_id,
        keys=source.keys,
        tags=row["tags"] or "",
        store_time=shown_time(int(row["store_time"].timestamp() * 1000)),
        body=bytes(row["body"] or b"")[:200].decode("utf-8", "replace"),
    )
