"""``replay``: a stretch of topics, filtered, into a topic again, at a set rate and in the order it was stored.

Copies carry REPLAYED_FROM (where the message stands in the log) and REPLAY (the name of this replay); their ids follow
from both. A replay that is run again under its name does not send what it sent before.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from pyromq.model.names import validate_topic
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.resending.chosen import REPLAY, chosen_rows
from pyromq.pipeline.jobs.resending.options import ReplayOptions, ReplaySettings
from pyromq.pipeline.jobs.resending.outgoing import outgoing, source_of
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.wording import shown_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLAYED_FROM: Final = "REPLAYED_FROM"
SAMPLE: Final = 10
FAILURES_MAX: Final = 100


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

    ``count_max`` 0 means all. ``name`` makes it possible to go on after a failure. What is stored from now on is not
    part of it, nor, when a topic is replayed into itself, what this replay sent there. With None for Spark this process
    reads the messages and keeps them in memory; DuckDB answers ``where`` then. Raises what the source raises,
    TooLargeForMemoryError, and TypeError for an option that does not exist.
    """
    settings = settings_from(ReplaySettings, options, "replay")
    validate_topic(to_topic)
    watch = Stopwatch(settings.clock)
    selection.require_properties_as_map()
    with failures_in_words() if spark is not None else nullcontext():
        selected = selection.frozen()
        own = settings.name if to_topic in selected.topics else ""
        rows = chosen_rows(spark, selected, without_replay=own)
        there = rows.count()
        found = min(there, settings.count_max) if settings.count_max else there
        if settings.dry_run:
            shown = tuple(map(_sample, rows.first(min(SAMPLE, found))))
            return ReplaySummary(
                to_topic=to_topic, name=settings.name, is_dry=True, found=found, samples=shown, took_s=watch.seconds
            )
        run = settings.name or f"{settings.clock.now_ms():x}-{uuid.uuid4().hex[:8]}"
        sender = PacedSender(
            selection.nameserver,
            selection.options,
            rate=settings.rate,
            clock=settings.clock,
        )
        tally = dict.fromkeys(ItemStatus, 0)
        failures: list[ItemOutcome] = []
        messages = _messages(islice(rows.in_order(there), found), to_topic, run, is_checked=bool(settings.name))
        for each in sender.send_all(messages, total=found, tell=settings.tell):
            tally[each.status] += 1
            if each.status.is_problem and len(failures) < FAILURES_MAX:
                failures.append(each)
    return ReplaySummary(
        to_topic=to_topic,
        name=run,
        is_dry=False,
        found=found,
        sent=tally[ItemStatus.SENT],
        sent_before=tally[ItemStatus.SENT_BEFORE],
        failed=tally[ItemStatus.FAILED] + tally[ItemStatus.UNKNOWN],
        took_s=watch.seconds,
        failures=tuple(failures),
    )


def replayed_id(run: str, offset_message_id: str) -> str:
    """Return the id of a copy: 32 hexadecimal digits that only this run and message give."""
    text = f"{run}\0{offset_message_id}".encode()
    return hashlib.blake2b(text, digest_size=16, person=b"replayed").hexdigest().upper()


def _messages(rows: Iterable[Any], to_topic: str, run: str, *, is_checked: bool) -> Iterator[Item]:
    for row in rows:
        place = row["offset_message_id"]
        marks = ((REPLAYED_FROM, place), (REPLAY, run))
        yield outgoing(row, to_topic, replayed_id(run, place), marks, is_checked=is_checked)


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
