"""``redrive``: dead letters of a group to the topics they came from, carefully.

    choose (SQL) ──▶ dry run ──▶ canary: a few first, wait, look what became of them ──▶ the rest at a set rate

The rules are those of ``pyromq dlq redrive``: the same cleaned properties, the same ids that follow from the letter, so
both know what the other sent. A canary has failed when one of its messages came back: to the retry topic, or dead
again; or when nobody consumed it. Then the rest is held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.client.admin.dead_letters import REDRIVEN_FROM, application_properties, redriven_id
from pyromq.errors import ConfigError
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.patching import Letter, Patch
from pyromq.pipeline.jobs.queries import failures_in_words
from pyromq.pipeline.jobs.sending import COLUMNS, MessageRow, Outgoing, Resent, Sender, SendOutcome, outgoing, source_of
from pyromq.pipeline.jobs.topics import Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER: Final = ("store_time", "broker", "queue_id", "queue_offset")
_LOOK_S: Final = 0.5


class CanaryVerdict(StrEnum):
    NOT_ASKED = "not asked for"
    PASSED = "passed"
    CAME_BACK = "came back"
    NOT_CONSUMED = "not consumed"
    NOT_SENT = "not sent"


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
    end: int | None = None,
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
    ``only_group`` this one alone. Raises what the source raises.
    """
    if rate is not None and rate <= 0:
        raise ConfigError(f"a rate of {rate} sends nothing: leave it out to send as fast as brokers take it")
    started = time.monotonic()
    selection = Selection(
        topics=(dead_letter_topic(group),), nameserver=nameserver, begin=begin, end=end, where=where,
        options=options or {},
    )  # fmt: skip
    with failures_in_words():
        frame = selection.frame(spark).select(*dict.fromkeys((*COLUMNS, *_ORDER))).orderBy(*_ORDER)
        found = frame.count()
        to_send = letters_to_send(frame, group, patch, only_group)
        sender = Sender(nameserver, selection.options, rate=rate, check_sent=True, sleep=sleep)
        if dry_run:
            outcomes = list(map(_as_planned, to_send))
            verdict = CanaryVerdict.NOT_ASKED
        else:
            outcomes, verdict = _send(
                sender, to_send, selection, group, canary, canary_wait_s, found, tell, spark, sleep
            )
    return summary(group, dry_run, verdict, outcomes, time.monotonic() - started)


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


def letters_to_send(
    rows: DataFrame | Iterable[Any], group: str, patch: Patch | None, only_group: bool
) -> Iterator[Outgoing | Resent]:
    """The message for each letter, or why there is none."""
    found = rows.toLocalIterator() if hasattr(rows, "toLocalIterator") else rows
    for row in found:
        yield letter_to_send(row, group, patch, only_group)


def letter_to_send(row: MessageRow, group: str, patch: Patch | None, only_group: bool) -> Outgoing | Resent:
    properties = row["properties"] or {}
    topic = properties.get(names.RETRY_TOPIC) or properties.get(names.DLQ_ORIGIN_TOPIC) or ""
    if not topic:
        return source_of(row, SendOutcome.FAILED, error="it does not say which topic it was sent to")
    target = retry_topic(group) if only_group else topic
    place = row["offset_message_id"]
    marks = [(REDRIVEN_FROM, place)]
    if only_group:
        marks.append((names.RETRY_TOPIC, topic))
    if patch is None:
        return outgoing(row, target, redriven_id(place), marks)
    try:
        changed = patch(_letter(row, target))
    except Exception as error:  # the patch is the application's: its letter alone fails
        return source_of(row, SendOutcome.FAILED, to_topic=target, error=f"the patch failed: {error!r}")
    if changed is None:
        return source_of(row, SendOutcome.HELD_BACK, to_topic=target, error="the patch left it out")
    return outgoing(_patched(row, changed), changed.topic, redriven_id(place), marks)


def _letter(row: MessageRow, target: str) -> Letter:
    own = (names.KEYS, names.TAGS)
    return Letter(
        topic=target,
        message_id=row["message_id"] or "",
        body=bytes(row["body"] or b""),
        keys=row["keys"] or "",
        tags=row["tags"] or "",
        properties={name: value for name, value in application_properties(row["properties"]) if name not in own},
    )


def _patched(row: MessageRow, letter: Letter) -> dict[str, Any]:
    named = ((names.KEYS, letter.keys), (names.TAGS, letter.tags), *letter.properties.items())
    properties = {name: value for name, value in named if value}
    given = {name: row[name] for name in COLUMNS}
    return {**given, "body": letter.body, "properties": properties}


def _as_planned(message: Outgoing | Resent) -> Resent:
    if isinstance(message, Resent):
        return message
    return msgspec.structs.replace(message.source, outcome=SendOutcome.WOULD_SEND)


# --- canary ----------------------------------------------------------------------------------------------------------


def _send(
    sender: Sender,
    to_send: Iterator[Outgoing | Resent],
    selection: Selection,
    group: str,
    canary: int,
    canary_wait_s: float,
    found: int,
    tell: Tell,
    spark: SparkSession,
    sleep: Callable[[float], None],
) -> tuple[list[Resent], CanaryVerdict]:
    if not canary:
        return list(sender.send_all(to_send, total=found, tell=tell)), CanaryVerdict.NOT_ASKED
    started_ms = int(time.time() * 1000)
    first = list(sender.send_all(_some(to_send, canary), total=found, tell=tell))
    tell(len(first), found, "canary")
    verdict = _verdict(sender, first, selection, group, canary_wait_s, started_ms, spark, sleep)
    if verdict is CanaryVerdict.PASSED:
        rest = list(sender.send_all(to_send, total=found - len(first), tell=tell))
    else:
        rest = [_held_back(each, verdict) for each in to_send]
    return [*first, *rest], verdict


def _some(messages: Iterator[Outgoing | Resent], count: int) -> Iterator[Outgoing | Resent]:
    """Until so many are messages that can be sent."""
    for message in messages:
        yield message
        count -= isinstance(message, Outgoing)
        if count <= 0:
            return


def _held_back(message: Outgoing | Resent, verdict: CanaryVerdict) -> Resent:
    if isinstance(message, Resent):
        return message
    return msgspec.structs.replace(message.source, outcome=SendOutcome.HELD_BACK, error=f"canary: {verdict.value}")


def _verdict(
    sender: Sender,
    first: Sequence[Resent],
    selection: Selection,
    group: str,
    wait_s: float,
    started_ms: int,
    spark: SparkSession,
    sleep: Callable[[float], None],
) -> CanaryVerdict:
    sent = [each for each in first if each.outcome is SendOutcome.SENT]
    if any(each.outcome is SendOutcome.FAILED and each.to_topic for each in first):
        return CanaryVerdict.NOT_SENT
    deadline = time.monotonic() + wait_s
    while not (is_consumed := all(_is_consumed(sender, group, each) for each in sent)):
        if time.monotonic() >= deadline:
            break
        sleep(_LOOK_S)
    if is_consumed and sent:
        sleep(min(2.0, wait_s))  # a message that fails is given back a moment after the group has moved on
    if _came_back(spark, selection, group, sent, started_ms):
        return CanaryVerdict.CAME_BACK
    return CanaryVerdict.PASSED if is_consumed else CanaryVerdict.NOT_CONSUMED


def _is_consumed(sender: Sender, group: str, each: Resent) -> bool:
    broker, _, number = each.queue.rpartition(":")
    offset = sender.committed(group, QueueId(each.to_topic, broker, int(number)))
    return offset is not None and each.offset is not None and offset > each.offset


def _came_back(spark: SparkSession, selection: Selection, group: str, sent: Sequence[Resent], started_ms: int) -> bool:
    """Whether the retry or dead-letter topic has got one of them since."""
    places = {each.offset_message_id for each in sent}
    for topic in (retry_topic(group), dead_letter_topic(group)):
        again = Selection(topics=(topic,), nameserver=selection.nameserver, begin=started_ms, options=selection.options)
        frame = again.frame(spark, "delivery_attempt", "properties")
        if topic == retry_topic(group):
            frame = frame.where("delivery_attempt > 0")  # others were sent there, to this group alone
        if any((row["properties"] or {}).get(REDRIVEN_FROM) in places for row in frame.collect()):
            return True
    return False
