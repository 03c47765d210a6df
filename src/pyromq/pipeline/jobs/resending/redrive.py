"""``redrive``: dead letters of a group, sent again to the topics they came from, a few first.

    choose (SQL) ──▶ dry run ──▶ canary: a few first, wait, look what became of them ──▶ the rest at a set rate

The rules are those of ``pyromq dlq redrive``: the same cleaned properties, the same ids that follow from the dead
letter, so each recognises what the other sent. Of a message that left several letters one is sent. When the canary
fails, the rest is held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.operate.admin import Admin
from pyromq.operate.dead_letters import NO_TOPIC
from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import REDRIVEN_FROM, Item, application_properties, origin_topic, redriven_id
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.options import nameservers_known_here
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.patching import Patch, PatchInput
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.resending.canary import CLOCKS_DIFFER_MS, Canary, CanaryVerdict, send_canary
from pyromq.pipeline.jobs.resending.chosen import ChosenRows, RowsBySpark, chosen_rows
from pyromq.pipeline.jobs.resending.executors import (
    PartOutcome,
    PartTask,
    parts_of,
    run_parts,
    send_from_executors,
    sent_before,
)
from pyromq.pipeline.jobs.resending.options import RedriveOptions, RedriveSettings
from pyromq.pipeline.jobs.resending.outgoing import COLUMNS, SparkRow, outgoing, source_of
from pyromq.pipeline.jobs.resending.packed import CopyMark
from pyromq.pipeline.jobs.resending.sending import PacedSender

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Redriving(ShownSummary, frozen=True, kw_only=True):
    """What became of the dead letters; ``letters`` reports each."""

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
    letters: tuple[ItemOutcome, ...]


def redrive(spark: SparkSession | None, group: str, **options: Unpack[RedriveOptions]) -> Redriving:
    """Say what would become of each dead letter; with ``dry_run=False`` send them, at most ``rate`` a second.

    ``where`` is a condition over the source's columns (``properties['DLQ_ERROR'] LIKE '%timeout%'``), ``errors`` are
    classes or stack hashes, ``begin`` and ``end`` (milliseconds) are when messages died. Every group of the topic gets
    the messages; with ``only_group`` this one alone. What dies meanwhile is left to the next run. With None for Spark
    this process reads the letters and keeps them in memory; DuckDB answers ``where`` then. Raises what the source
    raises, TooLargeForMemoryError, and TypeError for an option that does not exist.
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
    with failures_in_words() if spark is not None else nullcontext():
        rows = chosen_rows(spark, selection.frozen(), errors=settings.errors)
        known = rows.letters()
        originals, found = originals_of(known), len(known)
        item_of = RedrivenLetter(group, originals, settings.patch, settings.only_group)
        letters = _items(rows, found, item_of)
        sender = PacedSender(
            settings.nameserver, selection.options, rate=settings.rate, clock=settings.clock, sleep=settings.sleep
        )
        if settings.dry_run:
            verdict, outcomes = CanaryVerdict.NOT_ASKED, list(sender.look_all(letters))
        else:
            canary = Canary(sender, group, settings.canary_wait_s, sleep=settings.sleep, clock=settings.clock)
            executors = None
            if spark is not None and isinstance(rows, RowsBySpark) and _may_leave(spark, found, settings):
                executors = LettersByExecutors(spark, rows, item_of, known, selection, settings)
            verdict, outcomes = _send(letters, found, sender, canary, settings, executors)
            sender.connected.call(_keep_progress(sender.admin, group, known, outcomes))
    return summary(group, settings.dry_run, verdict, outcomes, watch.seconds)


def _items(rows: ChosenRows, found: int, item_of: RedrivenLetter) -> Iterator[Item]:
    """Rows are read when the first item is asked for, and not where executors read them."""
    yield from map(item_of, rows.in_order(found))


async def _keep_progress(admin: Admin, group: str, letters: Sequence[Any], outcomes: Sequence[ItemOutcome]) -> None:
    """Count as redriven what is: the letters of each queue from its beginning to the first that is not."""
    ended = {each.offset_message_id: each for each in outcomes}
    known = {(row["broker"], row["queue_id"], row["queue_offset"]): row["offset_message_id"] for row in letters}
    for part in await admin.dead_letters.queues(group):
        places = (
            known.get((part.queue.broker, part.queue.number, offset), "") for offset in range(part.done, part.end)
        )
        passed = (ended[place] for place in takewhile(ended.__contains__, places))
        await admin.dead_letters.progress(group, part.queue).passed_all(part.done, passed)


def originals_of(letters: Iterable[SparkRow]) -> OriginalMessages:
    """Return which letter stands for which message; rows have ``origin_topic`` and ``redriven_from``, oldest first."""
    originals = OriginalMessages()
    for letter in letters:
        originals.add(
            letter["offset_message_id"],
            topic=letter["origin_topic"] or "",
            message_id=letter["message_id"] or "",
            redriven_from=letter["redriven_from"] or "",
        )
    return originals


def _send(
    letters: Iterator[Item],
    found: int,
    sender: PacedSender,
    canary: Canary,
    settings: RedriveSettings,
    executors: LettersByExecutors | None = None,
) -> tuple[CanaryVerdict, list[ItemOutcome]]:
    """The canary first, if one is asked for; the rest is sent unless it fared badly."""
    verdict, outcomes = CanaryVerdict.NOT_ASKED, list[ItemOutcome]()
    if settings.canary:
        settings.tell(0, found, "canary")
        outcomes = send_canary(sender, letters, settings.canary)
        verdict = canary.verdict(outcomes)
    if verdict.is_bad:
        return verdict, [*outcomes, *(_held_back(each, verdict) for each in letters)]
    if executors is not None:
        return verdict, [*outcomes, *executors.send(outcomes)]
    rest = sender.send_all(letters, done=len(outcomes), total=found, tell=settings.tell)
    return verdict, [*outcomes, *rest]


def _may_leave(spark: SparkSession, found: int, settings: RedriveSettings) -> bool:
    """Whether executors send the letters: a patch has to come along."""
    if not send_from_executors(spark, found, settings.rate):
        return False
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(settings.patch)  # type: ignore[no-untyped-call]
    except Exception:  # whatever pickling raises; functions of the application may hold anything
        return False
    return True


@dataclass(frozen=True, slots=True)
class LettersByExecutors:
    """Sends letters from executors. ``known`` are all of them."""

    spark: SparkSession
    rows: RowsBySpark
    item_of: RedrivenLetter
    known: Sequence[Any]
    selection: Selection
    settings: RedriveSettings

    def send(self, done: Sequence[ItemOutcome]) -> list[ItemOutcome]:
        """All but those that are done; outcomes come in the order of the letters. Raises what Spark raises."""
        settings, options = self.settings, self.selection.options
        parts = parts_of(self.spark, len(self.known), settings.rate)
        task = PartTask(
            nameserver=nameservers_known_here(settings.nameserver), options=options,
            item_of=replace(self.item_of, originals=self.item_of.originals.related()),
            rate=settings.rate and settings.rate / parts, sent=self._sent_before(),
            left_out=frozenset(each.offset_message_id for each in done),
        )  # fmt: skip
        frame, before = self.rows.in_parts(parts), len(done)

        def report(done: int, total: int | None = None, text: str = "") -> None:
            settings.tell(before + done, total, text)

        found = PartOutcome.joined(run_parts(self.spark, frame, task, report, len(self.known))).outcomes
        order = {letter["offset_message_id"]: number for number, letter in enumerate(self.known)}
        return sorted(found, key=lambda each: order[each.offset_message_id])

    def _sent_before(self) -> frozenset[str] | None:
        """Redriven copies in the topics that letters came from; a patch may have sent them anywhere."""
        if self.settings.patch is not None:
            return None
        oldest_ms = min(round(letter["store_time"].timestamp() * 1000) for letter in self.known)
        topics = {letter["origin_topic"] for letter in self.known if letter["origin_topic"]}
        copies = (
            Selection(
                topics=(topic,), nameserver=self.settings.nameserver, begin=oldest_ms - CLOCKS_DIFFER_MS,
                options=self.selection.options,
            )
            for topic in sorted({*topics, retry_topic(self.item_of.group)})
        )  # fmt: skip
        return sent_before(self.spark, copies, (REDRIVEN_FROM, ""), len(self.known))


def _held_back(message: Item, verdict: CanaryVerdict) -> ItemOutcome:
    if isinstance(message, ItemOutcome):
        return message
    return message.source.ended(ItemStatus.HELD_BACK, f"canary: {verdict.value}")


def summary(
    group: str, is_dry: bool, verdict: CanaryVerdict, outcomes: Sequence[ItemOutcome], took_s: float
) -> Redriving:
    def count(*statuses: ItemStatus) -> int:
        return sum(each.status in statuses for each in outcomes)

    return Redriving(
        group=group,
        is_dry=is_dry,
        found=len(outcomes),
        sent=count(ItemStatus.SENT),
        sent_before=count(ItemStatus.SENT_BEFORE),
        failed=count(ItemStatus.FAILED, ItemStatus.UNKNOWN),
        held_back=count(ItemStatus.HELD_BACK),
        same_message=count(ItemStatus.SAME_MESSAGE),
        canary=verdict,
        took_s=round(took_s, 3),
        letters=tuple(outcomes),
    )


# --- dead letters -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RedrivenLetter:
    """Makes the message of a row; travels to executors."""

    group: str
    originals: OriginalMessages
    patch: Patch | None
    only_group: bool
    is_checked = True
    mark_names = (REDRIVEN_FROM,)

    def __call__(self, row: SparkRow) -> Item:
        return letter_to_send(row, self.group, self.originals, patch=self.patch, only_group=self.only_group)

    def mark(self, place: str, origin: str) -> CopyMark | None:
        if not origin or self.patch is not None or self.only_group or not self.originals.is_to_be_sent(place):
            return None
        ids = self.originals.ids(place)  # its own is the first
        return CopyMark(origin, ids[0], _marks(place), ids)


def letter_to_send(
    row: SparkRow,
    group: str,
    originals: OriginalMessages,
    *,
    patch: Patch | None = None,
    only_group: bool = False,
) -> Item:
    """Return the message for a dead letter, or why there is none."""
    topic, place = origin_topic(row["properties"] or {}), row["offset_message_id"]
    if not topic:
        return source_of(row, ItemStatus.FAILED, error=NO_TOPIC)
    targets: tuple[str, ...] = (retry_topic(group), topic) if only_group else (topic, retry_topic(group))
    source = source_of(row, to_topic=targets[0], new_message_id=redriven_id(place))
    if (decided := originals.decided(source)) is not None:
        return decided
    marks = (*_marks(place), (names.RETRY_TOPIC, topic)) if only_group else _marks(place)
    if patch is not None:
        changed = _changed(row, source, patch)
        if isinstance(changed, ItemOutcome):
            return changed
        row, targets = _patched(row, changed), (changed.topic, *targets)
    message = outgoing(row, targets[0], redriven_id(place), marks, sent_to=targets)
    return message if isinstance(message, ItemOutcome) else replace(message, sent_as=originals.ids(place))


def _marks(place: str) -> tuple[tuple[str, str], ...]:
    return ((REDRIVEN_FROM, place),)


def _changed(row: SparkRow, source: ItemOutcome, patch: Patch) -> PatchInput | ItemOutcome:
    """Return what the patch made of a letter; the outcome where it made nothing of it."""
    never = msgspec.structs.replace(source, new_message_id="")
    try:
        changed = patch(_letter(row, source.to_topic))
    except Exception as error:  # the patch is the application's: this dead letter alone fails
        return never.ended(ItemStatus.FAILED, f"the patch failed: {error!r}")
    if changed is None:
        return never.ended(ItemStatus.HELD_BACK, "the patch left it out")
    if not isinstance(changed, PatchInput):
        reason = f"the patch returned {type(changed).__name__}, neither a PatchInput nor None"
        return never.ended(ItemStatus.FAILED, reason)
    return changed


def _letter(row: SparkRow, target: str) -> PatchInput:
    own = (names.KEYS, names.TAGS)
    return PatchInput(
        topic=target,
        message_id=row["message_id"] or "",
        body=bytes(row["body"] or b""),
        keys=row["keys"] or "",
        tags=row["tags"] or "",
        properties={name: value for name, value in application_properties(row["properties"]) if name not in own},
    )


def _patched(row: SparkRow, letter: PatchInput) -> dict[str, Any]:
    named = ((names.KEYS, letter.keys), (names.TAGS, letter.tags), *letter.properties.items())
    properties = {name: value for name, value in named if value}
    given = {name: row[name] for name in COLUMNS}
    return {**given, "body": letter.body, "properties": properties}
