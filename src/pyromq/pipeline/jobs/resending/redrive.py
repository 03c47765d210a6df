"""``redrive``: dead letters of a group to the topics they came from, carefully.

    choose (SQL) ──▶ dry run ──▶ canary: a few first, wait, look what became of them ──▶ the rest at a set rate

The rules are those of ``pyromq dlq redrive``: the same cleaned properties, the same ids that follow from the letter, so
both know what the other sent, whoever it was for. When the canary fails, the rest is held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pyromq.client.admin.dead_letters import REDRIVEN_FROM, application_properties, redriven_id
from pyromq.errors import ConfigError
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.common.patching import Patch, PatchInput
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import ORDER, Selection, in_order
from pyromq.pipeline.jobs.resending.canary import Canary, CanaryVerdict, send_canary
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
    from pyspark.sql import SparkSession


class Redriving(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the letters; ``letters`` tells of each."""

    group: str
    is_dry: bool
    found: int
    sent: int
    sent_before: int
    failed: int
    held_back: int
    canary: CanaryVerdict
    took_s: float
    letters: tuple[Resent, ...]


def redrive(
    spark: SparkSession,
    group: str,
    *,
    nameserver: str = "",
    where: str = "",
    begin: int | None = None,
    end: int | Mapping[str, object] | None = None,
    dry_run: bool = True,
    canary: int = 0,
    canary_wait_s: float = 30.0,
    rate: float | None = None,
    patch: Patch | None = None,
    only_group: bool = False,
    options: Mapping[str, str] | None = None,
    tell: Tell = silent,
    sleep: Callable[[float], None] = time.sleep,
) -> Redriving:
    """``where`` is a condition over the source's columns (``properties['ERROR'] LIKE '%timeout%'``).

    ``begin`` and ``end`` (milliseconds) are when letters died. Every group of the topic gets the messages; with
    ``only_group`` this one alone. Letters that die meanwhile are left to the next run. Raises what the source raises.
    """
    if rate is not None and rate <= 0:
        raise ConfigError(f"a rate of {rate} sends nothing: leave it out to send as fast as brokers take it")
    started = time.monotonic()
    selection = Selection(
        topics=(dead_letter_topic(group),), nameserver=nameserver, begin=begin, end=end, where=where,
        options=options or {},
    )  # fmt: skip
    verdict = CanaryVerdict.NOT_ASKED
    with failures_in_words():
        frame = selection.with_properties().frozen().frame(spark)
        frame = frame.select(*dict.fromkeys((*COLUMNS, *ORDER)))
        found = frame.count()
        letters = (letter_to_send(row, group, patch, only_group) for row in in_order(frame, found))
        sender = PacedSender(nameserver, selection.options, rate=rate, check_sent=True, sleep=sleep)
        if dry_run:
            outcomes = list(sender.look_all(letters))
        else:
            outcomes = []
            if canary:
                tell(0, found, "canary")
                outcomes = send_canary(sender, letters, canary)
                verdict = Canary(spark, sender, selection, group, canary_wait_s, sleep).verdict(outcomes)
            if verdict.is_bad:
                outcomes += [_held_back(each, verdict) for each in letters]
            else:
                outcomes += sender.send_all(letters, done=len(outcomes), total=found, tell=tell)
    return summary(group, dry_run, verdict, outcomes, time.monotonic() - started)


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
        canary=verdict,
        took_s=round(took_s, 3),
        letters=tuple(outcomes),
    )


# --- letters ---------------------------------------------------------------------------------------------------------


def letter_to_send(row: MessageRow, group: str, patch: Patch | None, only_group: bool) -> Outgoing | Resent:
    """The message for a letter, or why there is none."""
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
    except Exception as error:  # the patch is the application's: its letter alone fails
        return source_of(row, SendOutcome.FAILED, to_topic=target, error=f"the patch failed: {error!r}")
    if changed is None:
        return source_of(row, SendOutcome.HELD_BACK, to_topic=target, error="the patch left it out")
    if not isinstance(changed, PatchInput):
        reason = f"the patch returned {type(changed).__name__}, neither a Letter nor None"
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
