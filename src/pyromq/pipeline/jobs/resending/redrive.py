"""``redrive``: dead letters of a group, sent again to the topics they came from, a few first.

    choose (SQL) ──▶ dry run ──▶ canary: a few first, wait, look what became of them ──▶ the rest at a set rate

The rules are those of ``pyromq dlq redrive``: the same cleaned properties, the same ids that follow from the dead
letter, so each recognises what the other sent. Of a message that left several letters one is sent. When the canary
fails, the rest is held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from pyromq.client.admin.dead_letters import REDRIVEN_FROM, application_properties
from pyromq.client.admin.original_messages import redriven_id
from pyromq.model import failure
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.jobs.common.patching import Patch, PatchInput
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import ORDER, Selection, in_order
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.resending.canary import Canary, CanaryVerdict, send_canary
from pyromq.pipeline.jobs.resending.options import RedriveOptions, RedriveSettings
from pyromq.pipeline.jobs.resending.originals import Originals
from pyromq.pipeline.jobs.resending.outgoing import (
    COLUMNS,
    MessageRow,
    Outgoing,
    Resent,
    SendOutcome,
    outgoing,
    source_of,
)
from pyromq.pipeline.jobs.resending.sending import PacedSender

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class Redriving(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the dead letters; ``letters`` tells of each."""

    group: str
    is_dry: bool
    found: int
    sent: int
    sent_before: int
    failed: int
    held_back: int
    same_message: int  # letters of a message that another letter stands for
    canary: CanaryVerdict
    took_s: float
    letters: tuple[Resent, ...]


def redrive(spark: SparkSession, group: str, **options: Unpack[RedriveOptions]) -> Redriving:
    """Tell what would become of each dead letter; with ``dry_run=False`` send them, at most ``rate`` a second.

    ``where`` is a condition over the source's columns (``properties['DLQ_ERROR'] LIKE '%timeout%'``), ``errors`` are
    classes or stack hashes, ``begin`` and ``end`` (milliseconds) are when messages died. Every group of the topic gets
    the messages; with ``only_group`` this one alone. What dies meanwhile is left to the next run. Raises what the
    source raises, and TypeError for an option that does not exist.
    """
    settings = settings_from(RedriveSettings, options, "redrive")
    watch = Stopwatch(settings.clock)
    selection = Selection(
        topics=(dead_letter_topic(group),),
        nameserver=settings.nameserver,
        begin=settings.begin,
        end=settings.end,
        where=settings.where,
        options=settings.options or {},
    )
    selection.require_properties_as_map()
    with failures_in_words():
        frame = selection.frozen().frame(spark).select(*dict.fromkeys((*COLUMNS, *ORDER)))
        if settings.errors:
            frame = frame.where(_has_one_of(settings.errors))
        originals = Originals(_letters(frame))
        found = len(originals)
        letters = (
            originals.decided(row)
            or as_any_letter(letter_to_send(row, group, settings.patch, settings.only_group), originals)
            for row in in_order(frame, found)
        )
        sender = PacedSender(
            settings.nameserver,
            selection.options,
            rate=settings.rate,
            check_sent=True,
            clock=settings.clock,
            sleep=settings.sleep,
        )
        if settings.dry_run:
            verdict, outcomes = CanaryVerdict.NOT_ASKED, list(sender.look_all(letters))
        else:
            canary = Canary(
                spark, sender, selection, group, settings.canary_wait_s, sleep=settings.sleep, clock=settings.clock
            )
            verdict, outcomes = _send(letters, found, sender, canary, settings)
    return summary(group, settings.dry_run, verdict, outcomes, watch.seconds)


def _has_one_of(errors: Sequence[str]) -> Column:
    """As ``Failure.is_called`` has it."""
    from pyspark.sql import functions as F  # noqa: N812

    error_class, stack = (F.col("properties").getItem(name) for name in (failure.CLASS, failure.STACK))
    found = F.lit(False)
    for name in errors:
        found = found | (stack == name) | (error_class == name) | error_class.endswith(f".{name}")
    return found


def _letters(frame: DataFrame) -> list[Any]:
    """Who they are, oldest first."""
    from pyspark.sql import functions as F  # noqa: N812

    properties = F.col("properties")
    origin = F.coalesce(properties.getItem(names.RETRY_TOPIC), properties.getItem(names.DLQ_ORIGIN_TOPIC))
    copied = properties.getItem(REDRIVEN_FROM)
    marks = (*ORDER, "offset_message_id", "message_id", origin.alias("origin_topic"), copied.alias("redriven_from"))
    found: list[Any] = frame.select(*marks).orderBy(*ORDER).collect()
    return found


def as_any_letter(message: Outgoing | Resent, originals: Originals) -> Outgoing | Resent:
    """Looked for under the ids of all letters of the message."""
    if isinstance(message, Resent):
        return message
    return replace(message, sent_as=originals.ids(message.source.offset_message_id))


def _send(
    letters: Iterator[Outgoing | Resent], found: int, sender: PacedSender, canary: Canary, settings: RedriveSettings
) -> tuple[CanaryVerdict, list[Resent]]:
    """The canary first, if one is asked for; the rest is sent unless it fared badly."""
    verdict, outcomes = CanaryVerdict.NOT_ASKED, list[Resent]()
    if settings.canary:
        settings.tell(0, found, "canary")
        outcomes = send_canary(sender, letters, settings.canary)
        verdict = canary.verdict(outcomes)
    if verdict.is_bad:
        return verdict, [*outcomes, *(_held_back(each, verdict) for each in letters)]
    rest = sender.send_all(letters, done=len(outcomes), total=found, tell=settings.tell)
    return verdict, [*outcomes, *rest]


def _held_back(message: Outgoing | Resent, verdict: CanaryVerdict) -> Resent:
    if isinstance(message, Resent):
        return message
    return msgspec.structs.replace(message.source, outcome=SendOutcome.HELD_BACK, error=f"canary: {verdict.value}")


def summary(group: str, is_dry: bool, verdict: CanaryVerdict, outcomes: Sequence[Resent], took_s: float) -> Redriving:
    def count(outcome: SendOutcome) -> int:
        return sum(each.outcome is outcome for each in outcomes)

    return Redriving(
        group=group,
        is_dry=is_dry,
        found=len(outcomes),
        sent=count(SendOutcome.SENT),
        sent_before=count(SendOutcome.SENT_BEFORE),
        failed=count(SendOutcome.FAILED),
        held_back=count(SendOutcome.HELD_BACK),
        same_message=count(SendOutcome.SAME_MESSAGE),
        canary=verdict,
        took_s=round(took_s, 3),
        letters=tuple(outcomes),
    )


# --- dead letters -----------------------------------------------------------------------------------------------------


def letter_to_send(row: MessageRow, group: str, patch: Patch | None, only_group: bool) -> Outgoing | Resent:
    """The message for a dead letter, or why there is none."""
    properties = row["properties"] or {}
    topic = properties.get(names.RETRY_TOPIC) or properties.get(names.DLQ_ORIGIN_TOPIC) or ""
    if not topic:
        return source_of(row, SendOutcome.FAILED, error="it does not say which topic it was sent to")
    targets = (retry_topic(group), topic) if only_group else (topic, retry_topic(group))
    target, place = targets[0], row["offset_message_id"]
    marks = [(REDRIVEN_FROM, place)]
    if only_group:
        marks.append((names.RETRY_TOPIC, topic))
    if patch is None:
        return outgoing(row, target, redriven_id(place), marks, sent_to=targets)
    try:
        changed = patch(_letter(row, target))
    except Exception as error:  # the patch is the application's: this dead letter alone fails
        return source_of(row, SendOutcome.FAILED, to_topic=target, error=f"the patch failed: {error!r}")
    if changed is None:
        return source_of(row, SendOutcome.HELD_BACK, to_topic=target, error="the patch left it out")
    if not isinstance(changed, PatchInput):
        reason = f"the patch returned {type(changed).__name__}, neither a PatchInput nor None"
        return source_of(row, SendOutcome.FAILED, to_topic=target, error=reason)
    return outgoing(_patched(row, changed), changed.topic, redriven_id(place), marks, sent_to=(changed.topic, *targets))


def _letter(row: MessageRow, target: str) -> PatchInput:
    own = (names.KEYS, names.TAGS)
    return PatchInput(
        topic=target,
        message_id=row["message_id"] or "",
        body=bytes(row["body"] or b""),
        keys=row["keys"] or "",
        tags=row["tags"] or "",
        properties={name: value for name, value in application_properties(row["properties"]) if name not in own},
    )


def _patched(row: MessageRow, letter: PatchInput) -> dict[str, Any]:
    named = ((names.KEYS, letter.keys), (names.TAGS, letter.tags), *letter.properties.items())
    properties = {name: value for name, value in named if value}
    given = {name: row[name] for name in COLUMNS}
    return {**given, "body": letter.body, "properties": properties}
