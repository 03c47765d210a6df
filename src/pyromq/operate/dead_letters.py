"""Dead letters: what a group gave up on, how many wait, and redriving them.

A redriven letter is a new message with an id that follows from the letter alone. So a redrive that is repeated, or goes
on after a failure, finds what was sent before and does not send it again. Of a message that left several letters one is
sent (``resend.originals``). How far the letters of a queue are redriven without a gap is kept as the offset of a group
of its own (``redrive_group``): a later run begins there, and letters from there on are counted as waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final, NamedTuple, TypeAlias, Unpack

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import GroupNotFoundError, TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.model.names import REDRIVE_PREFIX, dead_letter_topic, redrive_group, retry_topic
from pyromq.model.queue import QueueId
from pyromq.model.same_fields import same_fields
from pyromq.operate.consumers.group_configs import create_group, require_group
from pyromq.operate.delays import DelayFacet
from pyromq.operate.error_groups import ErrorGroups
from pyromq.operate.failures import SCAN_MAX, FailureScans, LetterQueue
from pyromq.operate.letter_filter import EVERY_LETTER, DeadLetter, LetterChoice, LetterFilter
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import StoredMessages, no_message
from pyromq.operate.resend.edits import LetterEdit, edited
from pyromq.operate.resend.engine import Resender
from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import (
    REDRIVEN_FROM,
    Item,
    Outgoing,
    origin_topic,
    outgoing,
    redriven_id,
    source_of,
)
from pyromq.operate.resend.pacing import Pacer

_PASSED: Final = (ItemStatus.SENT, ItemStatus.SENT_BEFORE, ItemStatus.SAME_MESSAGE)
NO_TOPIC: Final = "it does not say which topic it was sent to"


class LetterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters of a group are stored (``total``), and how many of them redrives did not pass (``waiting``).

    Counted by offsets alone: a letter behind one that was not redriven waits, whatever became of itself.
    """

    waiting: int = 0
    total: int = 0


class _KnownLetter(NamedTuple):
    letter: DeadLetter
    queue: QueueId
    redriven_from: str


# the facet has a method ``list``, so its annotations need other names for lists
_Letters: TypeAlias = list[DeadLetter]
_Outcomes: TypeAlias = list[ItemOutcome]
_LetterQueues: TypeAlias = list[LetterQueue]
_Queues: TypeAlias = list[QueueId]
_KnownLetters: TypeAlias = list[_KnownLetter]


class RedriveProgress:
    """How far the letters of a queue are redriven without a gap; letters are reported in their order."""

    def __init__(self, requests: AdminRequests, offsets: OffsetFacet, group: str, queue: QueueId) -> None:
        self._requests = requests
        self._offsets = offsets
        self._group = redrive_group(group)
        self._queue = queue
        self.has_gap = False

    async def passed(self, offset: int, outcome: ItemOutcome) -> None:
        """Keep that a letter is behind, unless one before it is not. Raises MQError."""
        await self.passed_all(offset, (outcome,))

    async def passed_all(self, offset: int, outcomes: Iterable[ItemOutcome]) -> None:
        """Keep that letters from an offset on are behind, up to the first that is not. Raises MQError."""
        end = offset
        for outcome in outcomes:
            self.has_gap = self.has_gap or outcome.status not in _PASSED
            if self.has_gap:
                break
            end += 1
        if end > offset:
            await self._commit(end)

    async def _commit(self, end: int) -> None:
        try:
            await self._offsets.commit(self._group, self._queue, end)
        except GroupNotFoundError:
            await create_group(self._requests, self._group)
            await self._offsets.commit(self._group, self._queue, end)


class RedriveAttempt:
    """A letter that can be sent again: ``carry_out`` does it, once."""

    def __init__(self, letter: DeadLetter, message: Item, resender: Resender, progress: RedriveProgress) -> None:
        self.letter = letter
        self.is_carried_out = False
        self._message = message
        self._resender = resender
        self._progress = progress

    async def carry_out(self, *, dry_run: bool = False, edit: LetterEdit | None = None) -> ItemOutcome:
        """Send the letter, as it is or edited, or with ``dry_run`` say what would be done.

        Raises ConfigError for an edit that cannot be, MQError where progress cannot be kept.
        """
        message = self._message
        if edit is not None and isinstance(message, Outgoing):
            message = edited(message, edit)
        outcome = await self._resender.resend(message, dry_run=dry_run)
        self.is_carried_out = not dry_run
        if not dry_run:
            await self._progress.passed(self.letter.offset, outcome)
        return outcome


class DeadLetterFacet:
    """``admin.dead_letters``: what groups gave up on."""

    def __init__(
        self,
        requests: AdminRequests,
        offsets: OffsetFacet,
        stored: StoredMessages,
        delays: DelayFacet,
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._offsets = offsets
        self._stored = stored
        self._failures = FailureScans(requests, offsets, stored, delays)
        self._resender = Resender(requests.client, stored, REDRIVE_PREFIX)

    # --- looking ---

    async def list(self, group: str, *, count_max: int = 1_000, checked: bool = True) -> _Letters:
        """Return the newest letters, oldest first; none if the group never gave up on a message.

        Without ``checked``, copies are not looked for: letters behind a gap are not known to be redriven then, and
        ``was_redriven`` reports one. Raises GroupNotFoundError.
        """
        parts = await self.queues(group)
        newest = [part._replace(begin=max(part.begin, part.end - count_max)) for part in parts]
        known = await self._known_letters(group, newest)
        originals, done = _originals_of(known), {part.queue: part.done for part in parts}
        found: _Letters = []
        for letter, queue, _ in known[-count_max:]:
            is_redriven = letter.offset < done[queue]
            if checked and not is_redriven:
                is_redriven = await self._was_sent(letter, originals.ids(letter.offset_message_id))
            found.append(msgspec.structs.replace(letter, is_redriven=is_redriven))
        return found

    async def count(self, group: str) -> LetterCounts:
        """Return how many letters wait and how many there are; none of a group without letters."""
        queues = await self._dead_queues(group)
        parts = await asyncio.gather(*[self._letters_in(group, queue) for queue in queues])
        waiting = sum(max(0, part.end - part.done) for part in parts)
        return LetterCounts(waiting=waiting, total=sum(max(0, part.end - part.begin) for part in parts))

    async def get(self, group: str, letter: str) -> DeadLetter:
        """Return one letter by its offset message id. Raises NotFoundError for a message that is none of the group."""
        message = await self._stored.get(dead_letter_topic(group), letter)
        if message.stored_topic != self._client.wire_name(dead_letter_topic(group)):
            raise no_message(f"message {letter} is no dead letter of group {group}")
        found = self._letter_of(group, message)
        return msgspec.structs.replace(found, is_redriven=await self.was_redriven(found))

    async def was_redriven(self, letter: DeadLetter) -> bool:
        """Whether a copy of this letter is stored."""
        return letter.is_redriven or await self._was_sent(letter, (redriven_id(letter.offset_message_id),))

    async def _was_sent(self, letter: DeadLetter, sent_as: Collection[str]) -> bool:
        """To its topic, or to this group alone, under one of these ids."""
        topics = (letter.topic, retry_topic(letter.group))
        return bool(letter.topic) and await self._resender.was_sent(topics, sent_as)

    async def by_error(self, group: str, *, count_max: int = SCAN_MAX) -> ErrorGroups:
        """Return the dead letters of a group by error, the most frequent first; the newest ``count_max`` are read.

        Raises GroupNotFoundError, ConfigError.
        """
        return await self._failures.dead_letters(group, await self.queues(group), count_max)

    async def retries_by_error(self, group: str, *, count_max: int = SCAN_MAX) -> ErrorGroups:
        """Return messages that failed and come again by error: those that wait for their time, and those that are due.

        At most ``count_max`` messages are read, those of other groups in the delay topics included; each message is
        counted once. Raises GroupNotFoundError, ConfigError.
        """
        return await self._failures.retries(group, count_max)

    # --- redriving ---

    async def redrive(
        self,
        group: str,
        *,
        dry_run: bool = False,
        count_max: int = 0,
        only_group: bool = False,
        rate: float = 0,
        **which: Unpack[LetterChoice],
    ) -> _Outcomes:
        """Return all outcomes of ``redriving`` at once."""
        found = self.redriving(group, dry_run=dry_run, count_max=count_max, only_group=only_group, rate=rate, **which)
        return [each async for each in found]

    async def redriving(
        self,
        group: str,
        *,
        dry_run: bool = False,
        count_max: int = 0,
        only_group: bool = False,
        rate: float = 0,
        **which: Unpack[LetterChoice],
    ) -> AsyncIterator[ItemOutcome]:
        """Send dead letters to their first topic again, and report each; ``count_max`` 0 means all.

        Every group of the topic gets them; with ``only_group`` this one alone. ``which`` chooses some
        (``LetterFilter``). A message that left several letters is sent once, for its oldest. It goes without the story
        of its failure: that stays in the letter. At most ``rate`` letters a second; 0 means no limit. Raises
        GroupNotFoundError.
        """
        sent, pacer = 0, Pacer(rate or None, self._client.clock)
        async for attempt in self.attempts(group, LetterFilter.of(which), only_group=only_group):
            if count_max and sent >= count_max:
                return
            if wait_ms := 0 if dry_run else pacer.wait_ms(1):
                await asyncio.sleep(wait_ms / 1000)
            outcome = await attempt.carry_out(dry_run=dry_run)
            sent += outcome.status in (ItemStatus.SENT, ItemStatus.WOULD_SEND)
            yield outcome

    async def redrive_one(
        self, group: str, letter: str, edit: LetterEdit | None = None, *, only_group: bool = False
    ) -> ItemOutcome:
        """Send one letter again, by its offset message id, as it is or edited.

        Raises NotFoundError for one that is not there or was passed by a redrive, ConfigError for a bad edit.
        """
        async for attempt in self.attempts(group, LetterFilter(letters=(letter,)), only_group=only_group):
            return await attempt.carry_out(edit=edit)
        raise no_message(f"letter {letter} of group {group} was redriven before, or is no longer stored")

    async def attempts(
        self, group: str, which: LetterFilter = EVERY_LETTER, *, only_group: bool = False
    ) -> AsyncIterator[RedriveAttempt]:
        """Give letters that are chosen and not known to be redriven, one after the other; nothing is sent by it.

        ``carry_out`` of an attempt sends its letter, now or never: the one before is over when the next one comes.
        """
        parts = await self.queues(group)
        if all(part.done >= part.end for part in parts):
            return
        originals = _originals_of(await self._known_letters(group, parts))
        is_chosen = which.matcher()
        for part in parts:
            progress = self.progress(group, part.queue)
            async for message in self._stored.walk(part.queue, part.done, part.end):
                letter = self._letter_of(group, message)
                if not is_chosen(letter):
                    progress.has_gap = True
                    continue
                ready = self._outgoing(letter, message, originals, only_group)
                attempt = RedriveAttempt(letter, ready, self._resender, progress)
                yield attempt
                progress.has_gap = progress.has_gap or not attempt.is_carried_out

    def _outgoing(
        self, letter: DeadLetter, message: ReceivedMessage, originals: OriginalMessages, only_group: bool
    ) -> Item:
        place = letter.offset_message_id
        target = retry_topic(letter.group) if only_group else letter.topic
        source = msgspec.structs.replace(source_of(message), to_topic=target, new_message_id=redriven_id(place))
        if not letter.topic:
            return source.ended(ItemStatus.FAILED, NO_TOPIC)
        if (decided := originals.decided(source)) is not None:
            return decided
        marks = [(REDRIVEN_FROM, place)]
        if only_group:
            marks.append((names.RETRY_TOPIC, self._client.wire_name(letter.topic)))
        sent_to = (letter.topic, retry_topic(letter.group))
        return outgoing(message, source, marks, sent_to=sent_to, sent_as=originals.ids(place))

    def progress(self, group: str, queue: QueueId) -> RedriveProgress:
        """Return the keeper of how far the letters of a queue are redriven."""
        return RedriveProgress(self._requests, self._offsets, group, queue)

    # --- letters ---

    async def queues(self, group: str) -> _LetterQueues:
        """Return the queues of a group's dead letters, and how far each is redriven. Raises GroupNotFoundError."""
        queues = await self._dead_queues(group)
        if not queues:
            await require_group(self._requests, group)  # one that does not exist has not just no letters
        return [await self._letters_in(group, queue) for queue in queues]

    async def _dead_queues(self, group: str) -> _Queues:
        try:
            return await self._requests.directory.queues(dead_letter_topic(group))
        except TopicNotFoundError:
            return []

    async def _letters_in(self, group: str, queue: QueueId) -> LetterQueue:
        held = await self._offsets.range(queue)
        try:
            done = await self._offsets.committed(redrive_group(group), queue) or 0
        except GroupNotFoundError:
            done = 0
        if done > held.max_offset:  # the queue lost its end, or was made anew: copies say what was sent
            done = 0
        return LetterQueue(queue, held.min_offset, max(held.min_offset, done), held.max_offset)

    async def _known_letters(self, group: str, parts: Iterable[LetterQueue]) -> _KnownLetters:
        """Read the letters of some queues, oldest first."""
        found = [
            _KnownLetter(self._letter_of(group, message), part.queue, message.get(REDRIVEN_FROM) or "")
            for part in parts
            async for message in self._stored.walk(part.queue, part.begin, part.end)
        ]
        return sorted(found, key=lambda known: known.letter.dead_ms)

    def _letter_of(self, group: str, message: ReceivedMessage) -> DeadLetter:
        story = message.failure_story
        return DeadLetter(
            group=group,
            topic=self._client.plain_name(origin_topic(message.properties)),
            queue=message.queue_id,
            dead_ms=message.stored_ms,
            attempts=message.delivery_attempt,
            body_bytes=len(message.packed_body),
            **same_fields(DeadLetter, message, "topic", "queue"),
            reason=message.get(names.DLQ_ERROR) or (story.newest.text if story is not None else ""),
            story=story,
        )


def _originals_of(letters: Iterable[_KnownLetter]) -> OriginalMessages:
    originals = OriginalMessages()
    for letter, _, redriven_from in letters:
        place, topic = letter.offset_message_id, letter.topic
        originals.add(place, topic=topic, message_id=letter.message_id, redriven_from=redriven_from)
    return originals
