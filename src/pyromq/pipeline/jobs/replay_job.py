"""``replay``: a stretch of topics, filtered, into a topic again, at a set rate and in the order it was stored.

Copies carry REPLAYED_FROM (where the message stands in the log) and REPLAY (the name of this replay); their ids follow
from both. A replay that is run again under its name does not send what it sent before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.model.names import validate_topic
from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.queries import failures_in_words
from pyromq.pipeline.jobs.sending import COLUMNS, Outgoing, Resent, Sender, SendOutcome, derived_id, outgoing, source_of
from pyromq.pipeline.jobs.topics import Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLAYED_FROM: Final = "REPLAYED_FROM"
REPLAY: Final = "REPLAY"
SAMPLE: Final = 10
_ORDER: Final = ("store_time", "broker", "queue_id", "queue_offset")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One of the messages that would be sent."""

    topic: str
    message_id: str
    keys: str
    tags: str
    store_time: str
    body: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """``is_dry``: nothing was sent, ``found`` would be. ``failures`` has the first hundred."""

    to_topic: str
    name: str
    is_dry: bool
    found: int
    sent: int = 0
    sent_before: int = 0
    failed: int = 0
    took_s: float = 0.0
    samples: tuple[Sample, ...] = ()
    failures: tuple[Resent, ...] = ()


def replay(
    spark: SparkSession,
    selection: Selection,
    to_topic: str,
    *,
    rate: float | None = None,
    name: str = "",
    dry_run: bool = True,
    count_max: int = 0,
    tell: Tell = silent,
) -> Replayed:
    """Count and show what would be sent; with ``dry_run=False`` send it, at most ``rate`` messages a second.

    ``count_max`` 0 means all. ``name`` makes it possible to go on after a failure. Raises what the source raises.
    """
    validate_topic(to_topic)
    if rate is not None and rate <= 0:
        raise ConfigError(f"a rate of {rate} sends nothing: leave it out to send as fast as brokers take it")
    started = time.monotonic()
    with failures_in_words():
        ordered = selection.frame(spark).select(*dict.fromkeys((*COLUMNS, *_ORDER)))
        found = _counted(ordered, count_max)
        if dry_run:
            shown = _samples(ordered, min(SAMPLE, found))
            return Replayed(to_topic=to_topic, name=name, is_dry=True, found=found, samples=shown)
        ordered = ordered.orderBy(*_ORDER)
        ordered = ordered.limit(count_max) if count_max else ordered
        run = name or f"{time.time_ns():x}"
        sender = Sender(selection.nameserver, selection.options, rate=rate, check_sent=bool(name))
        tally = dict.fromkeys(SendOutcome, 0)
        failures: list[Resent] = []
        for each in sender.send_all(_messages(ordered, to_topic, run), total=found, tell=tell):
            tally[each.outcome] += 1
            if each.outcome is SendOutcome.FAILED and len(failures) < 100:
                failures.append(each)
    return Replayed(
        to_topic=to_topic,
        name=name,
        is_dry=False,
        found=found,
        sent=tally[SendOutcome.SENT],
        sent_before=tally[SendOutcome.SENT_BEFORE],
        failed=tally[SendOutcome.FAILED],
        took_s=round(time.monotonic() - started, 3),
        failures=tuple(failures),
    )


def replayed_id(run: str, offset_message_id: str) -> str:
    return derived_id("replayed", run, offset_message_id)


def _messages(ordered: DataFrame, to_topic: str, run: str) -> Iterator[Outgoing | Resent]:
    for row in ordered.toLocalIterator(prefetchPartitions=True):
        place = row["offset_message_id"]
        yield outgoing(row, to_topic, replayed_id(run, place), ((REPLAYED_FROM, place), (REPLAY, run)))


def _counted(frame: DataFrame, count_max: int) -> int:
    return (frame.limit(count_max) if count_max else frame).count()


def _samples(frame: DataFrame, count: int) -> tuple[Sample, ...]:
    return tuple(map(_sample, frame.orderBy(*_ORDER).limit(count).collect()))


def _sample(row: Any) -> Sample:
    source = source_of(row, SendOutcome.WOULD_SEND)
    return Sample(
        topic=row["topic"],
        message_id=source.message_id,
        keys=source.keys,
        tags=row["tags"] or "",
        store_time=f"{row['store_time']:%Y-%m-%d %H:%M:%S}",
        body=bytes(row["body"] or b"")[:200].decode("utf-8", "replace"),
    )
