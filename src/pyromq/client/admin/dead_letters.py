"""Dead letters: what a group gave up on, and sending it on its way again.

A redriven letter is a new message with an id that follows from the letter alone. So a redrive that is repeated, or goes
on after a failure, finds what was sent before and does not send it again. Of a message that left several letters one is
sent (``original_messages``). How far the letters of a queue are redriven without a gap is kept as the offset of a group
of its own, so that a later run begins there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

import msgspec

from pyromq.client.admin.lookup import LookupAdmin
from pyromq.client.admin.offsets import OffsetAdmin
from pyromq.client.admin.original_messages import LetterRole, OriginalMessages, redriven_id
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.selectors import hashed_index
from pyromq.errors import (
    ConnectFailedError,
    GroupNotFoundError,
    MQError,
    NoRouteError,
    TooManyRequestsError,
    TopicNotFoundError,
    TransportError,
)
from pyromq.model import property_names as names
from pyromq.model.failure import STORY_NAMES, Failure, FailureStory, failure_told
from pyromq.model.message import SendStatus
from pyromq.model.names import DEFAULT_TOPIC, REDRIVE_PREFIX, dead_letter_topic, redrive_group, retry_topic
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.property_text import join_items
from pyromq.wire.send_statuses import SEND_STATUSES

_PRODUCER: Final = REDRIVE_PREFIX
_COMPRESSION_FLAGS: Final = 0x1 | 0x700
_KEPT: Final = (names.KEYS, names.TAGS, names.SHARDING_KEY, names.PRIORITY, names.INSTANCE_ID)
_LEFT_OUT: Final = names.RESERVED | {names.DLQ_ERROR, names.DLQ_STAGE, *STORY_NAMES}
REDRIVEN_FROM: Final = "REDRIVEN_FROM"


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a group gave up on. ``topic`` is where it was sent first; empty if it does not say.

    ``reason`` is why, where a consumer said so: a body that does not decode, a DeadLetterError, a verdict of Spark, or
    else the text of the last error. ``story`` tells more of it; None where consumers tell no stories.
    """

    group: str
    topic: str
    message_id: str
    broker: str
    queue: int
    offset: int
    born_ms: int
    dead_ms: int
    attempts: int
    keys: tuple[str, ...] = ()
    tags: str = ""
    body_bytes: int = 0
    offset_message_id: str = ""
    is_redriven: bool = False
    reason: str = ""
    story: FailureStory | None = None

    @property
    def failure(self) -> Failure:
        """Why it failed last; empty where nobody told."""
        if self.story is not None:
            return self.story.newest
        return failure_told("", self.reason) if self.reason else Failure(error_class="")


class RedriveStatus(StrEnum):
    SENT = "sent"
    WOULD_SEND = "would send"
    SENT_BEFORE = "sent before"
    SAME_MESSAGE = "same message"
    FAILED = "failed"
    UNKNOWN = "unknown"  # no response came, and no copy was found: it may be stored; a later run finds out


_LEAVES_GAP: Final = (RedriveStatus.FAILED, RedriveStatus.UNKNOWN)


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one letter; ``same_as`` is the ``offset_message_id`` of an older letter of the same message.

    ``stored`` says how safe one is that was sent: other than SEND_OK, its broker has it, and tells what is missing.
    """

    letter: DeadLetter
    status: RedriveStatus
    to_topic: str = ""
    message_id: str = ""
    error: str = ""
    same_as: str = ""
    stored: SendStatus | None = None


class _Letters(NamedTuple):
    """A queue of dead letters: those up to ``done`` are redriven without a gap."""

    queue: QueueId
    begin: int
    done: int
    end: int


class _KnownLetter(NamedTuple):
    letter: DeadLetter
    queue: QueueId
    redriven_from: str


class _RedriveProgress:
    """How far the letters of a queue are redriven without a gap, which is where a later run begins."""

    def __init__(self, group: str, queue: QueueId, remember: Callable[[str, QueueId, int], Awaitable[None]]) -> None:
        self._group = group
        self._queue = queue
        self._remember = remember
        self.has_gap = False

    async def passed(self, offset: int, outcome: Redriven) -> None:
        self.has_gap = self.has_gap or outcome.status in _LEAVES_GAP
        if not self.has_gap:
            await self._remember(self._group, self._queue, offset + 1)


class RedriveAttempt:
    """A letter that can be sent again: ``carry_out`` does it, once."""

    def __init__(
        self, letter: DeadLetter, redrive: Callable[..., Awaitable[Redriven]], progress: _RedriveProgress
    ) -> None:
        self.letter = letter
        self.is_carried_out = False
        self._redrive = redrive
        self._progress = progress

    async def carry_out(self, *, dry_run: bool = False) -> Redriven:
        """Sends the letter, or with ``dry_run`` says what would be done. Raises no MQError for the send itself."""
        outcome = await self._redrive(dry_run=dry_run)
        self.is_carried_out = not dry_run
        if not dry_run:
            await self._progress.passed(self.letter.offset, outcome)
        return outcome


class DeadLetterAdmin(OffsetAdmin, LookupAdmin):
    """Of ``Admin``: dead letters."""

    async def dead_letters(self, group: str, *, count_max: int = 1_000, checked: bool = True) -> list[DeadLetter]:
        """The newest, oldest first; none if the group never gave up on a message.

        Without ``checked``, copies are not looked for: letters behind a gap are not known to be redriven then, and
        ``was_redriven`` tells of one.
        """
        parts = [await self._letters_in(group, queue) for queue in await self._dead_queues(group)]
        newest = [part._replace(begin=max(part.begin, part.end - count_max)) for part in parts]
        known = await self._known_letters(group, newest)
        originals, done = _originals_of(known), {part.queue: part.done for part in parts}
        found: list[DeadLetter] = []
        for letter, queue, _ in known[-count_max:]:
            sent_as = originals.ids(letter.offset_message_id)
            is_redriven = letter.offset < done[queue] or (checked and await self._was_sent(letter, sent_as))
            found.append(msgspec.structs.replace(letter, is_redriven=is_redriven))
        return found

    async def redrive(
        self,
        group: str,
        *,
        keys: Collection[str] = (),
        tags: Collection[str] = (),
        dry_run: bool = False,
        count_max: int = 0,
        only_group: bool = False,
        errors: Collection[str] = (),
    ) -> list[Redriven]:
        """All of ``redriving`` at once."""
        chosen = {"keys": keys, "tags": tags, "errors": errors}
        found = self.redriving(group, dry_run=dry_run, count_max=count_max, only_group=only_group, **chosen)
        return [each async for each in found]

    async def redriving(
        self,
        group: str,
        *,
        keys: Collection[str] = (),
        tags: Collection[str] = (),
        dry_run: bool = False,
        count_max: int = 0,
        only_group: bool = False,
        errors: Collection[str] = (),
    ) -> AsyncIterator[Redriven]:
        """Sends dead letters to their first topic again, and tells of each; ``count_max`` 0 means all.

        Every group of the topic gets them; with ``only_group`` this one alone. ``keys``, ``tags`` and ``errors``
        (classes, with or without their module, or stack hashes) choose some. A message that left several letters is
        sent once, for its oldest. It goes without the story of its failure: that stays in the letter.
        """
        sent = 0
        keys, tags, errors = _several(keys), _several(tags), _several(errors)

        def is_chosen(letter: DeadLetter) -> bool:
            if errors and not _is_one_of(letter.failure, errors):
                return False
            return (not keys or not set(keys).isdisjoint(letter.keys)) and (not tags or letter.tags in tags)

        async for attempt in self.redrive_attempts(group, is_chosen, only_group=only_group):
            if count_max and sent >= count_max:
                return
            outcome = await attempt.carry_out(dry_run=dry_run)
            sent += outcome.status in (RedriveStatus.SENT, RedriveStatus.WOULD_SEND)
            yield outcome

    async def redrive_attempts(
        self, group: str, is_chosen: Callable[[DeadLetter], bool], *, only_group: bool = False
    ) -> AsyncIterator[RedriveAttempt]:
        """Letters that are chosen and not known to be redriven, one after the other; nothing is sent by it.

        ``carry_out`` of an attempt sends its letter, now or never: the one before is over when the next one comes.
        """
        parts = [await self._letters_in(group, queue) for queue in await self._dead_queues(group)]
        if all(part.done >= part.end for part in parts):
            return
        originals = _originals_of(await self._known_letters(group, parts))
        for queue, _, done, end in parts:
            progress = _RedriveProgress(group, queue, self._remember_redriven)
            async for message in self.walk(queue, done, end):
                letter = self._letter_of(group, message)
                if not is_chosen(letter):
                    progress.has_gap = True
                    continue
                redrive = partial(self._redrive_one, letter, message, originals, only_group=only_group)
                attempt = RedriveAttempt(letter, redrive, progress)
                yield attempt
                progress.has_gap = progress.has_gap or not attempt.is_carried_out

    async def _redrive_one(
        self,
        letter: DeadLetter,
        message: ReceivedMessage,
        originals: OriginalMessages,
        *,
        dry_run: bool,
        only_group: bool,
    ) -> Redriven:
        place = letter.offset_message_id
        message_id = redriven_id(place)
        target = retry_topic(letter.group) if only_group else letter.topic
        outcome = Redriven(letter=letter, status=RedriveStatus.SENT, to_topic=target, message_id=message_id)
        try:
            if not letter.topic:
                error = "it does not say which topic it was sent to"
                return msgspec.structs.replace(outcome, status=RedriveStatus.FAILED, error=error)
            role = originals.role(place)
            if role is LetterRole.SAME_MESSAGE:
                same_as = originals.oldest(place)
                return msgspec.structs.replace(
                    outcome, status=RedriveStatus.SAME_MESSAGE, message_id=redriven_id(same_as), same_as=same_as
                )
            if role is LetterRole.SENT_BEFORE or await self._was_sent(letter, originals.ids(place)):
                return msgspec.structs.replace(outcome, status=RedriveStatus.SENT_BEFORE)
            if dry_run:
                return msgspec.structs.replace(outcome, status=RedriveStatus.WOULD_SEND)
            stored = await self._send_again(message, letter, target, message_id)
        except MQError as error:
            if not leaves_doubt(error):
                return msgspec.structs.replace(outcome, status=RedriveStatus.FAILED, error=str(error))
            if await self._has_copy(target, message_id):
                return outcome  # the response got lost, the copy is there; how safe it is was not told
            return msgspec.structs.replace(outcome, status=RedriveStatus.UNKNOWN, error=str(error))
        return msgspec.structs.replace(outcome, stored=stored)

    async def _send_again(
        self, message: ReceivedMessage, letter: DeadLetter, target: str, message_id: str
    ) -> SendStatus:
        properties = self._properties(message, letter, target, message_id)
        return await self._send_stored(message, target, properties, _PRODUCER)

    async def _send_stored(self, message: ReceivedMessage, target: str, properties: str, producer: str) -> SendStatus:
        """A message with other properties, its body as it is stored. Raises TopicNotFoundError."""
        queues = (await self.route(target)).publishable_queues(self.client.wire_name(target))
        if not queues:
            raise TopicNotFoundError(target, f"topic {target} has no queue to write to")
        key = message.sharding_key
        queue = queues[hashed_index(key, len(queues)) if key else self.client.rng.randrange(len(queues))]
        body, flags = message.packed_body, message.sys_flag & _COMPRESSION_FLAGS
        ready = OutgoingMessage(
            SEND, queue.topic, body, properties, "", self.client.clock.now_ms(), 0, message.flag, flags
        )
        ext = header_fields(ready, queue, producer, DEFAULT_TOPIC, "4")
        link = self.client.brokers.link(await self._address(queue.broker))
        response = await self.client.ask(link, RequestCode.SEND_MESSAGE_V2, ext, body, expect=SEND_STATUSES)
        return SEND_STATUSES[response.code]

    async def _has_copy(self, topic: str, message_id: str) -> bool:
        """False when it is not there, or when nobody can be asked."""
        try:
            return bool(await self._copies(self.client.wire_name(topic), message_id))
        except MQError:
            return False

    def _properties(self, message: ReceivedMessage, letter: DeadLetter, target: str, message_id: str) -> str:
        """Those of the application; what the retries left behind is gone."""
        kept = application_properties(message.properties)
        own = [(names.UNIQUE_KEY, message_id), (REDRIVEN_FROM, letter.offset_message_id)]
        if target != letter.topic:
            own.append((names.RETRY_TOPIC, self.client.wire_name(letter.topic)))
        return join_items([*own, *((name, value) for name, value in kept if name != REDRIVEN_FROM)])

    # --- what was done before ---

    async def was_redriven(self, letter: DeadLetter) -> bool:
        """Whether a copy of this letter is stored."""
        return letter.is_redriven or await self._was_sent(letter, (redriven_id(letter.offset_message_id),))

    async def _was_sent(self, letter: DeadLetter, sent_as: Collection[str]) -> bool:
        """To its topic, or to this group alone, under one of these ids."""
        if not letter.topic:
            return False
        for topic in (letter.topic, retry_topic(letter.group)):
            for message_id in sent_as:
                if await self._copies(self.client.wire_name(topic), message_id):
                    return True
        return False

    async def count_dead_letters(self, group: str) -> int:
        """How many dead letters of a group were not redriven yet, by offsets alone. Raises GroupNotFoundError."""
        parts = [await self._letters_in(group, queue) for queue in await self._dead_queues(group)]
        return sum(max(0, part.end - part.done) for part in parts)

    async def _redriven_to(self, group: str, queue: QueueId) -> int:
        try:
            return await self.committed(redrive_group(group), queue) or 0
        except GroupNotFoundError:
            return 0

    async def _remember_redriven(self, group: str, queue: QueueId, offset: int) -> None:
        try:
            await self._commit(redrive_group(group), queue, offset)
        except GroupNotFoundError:
            await self.create_group(redrive_group(group))
            await self._commit(redrive_group(group), queue, offset)

    # --- letters ---

    async def _dead_queues(self, group: str) -> list[QueueId]:
        topic = dead_letter_topic(group)
        try:
            return sorted((await self.route(topic)).readable_queues(self.client.wire_name(topic)))
        except TopicNotFoundError:
            await self.require_group(group)  # a group that does not exist is another thing than one without letters
            return []

    async def _letters_in(self, group: str, queue: QueueId) -> _Letters:
        held, done = await self.queue_range(queue), await self._redriven_to(group, queue)
        return _Letters(queue, held.min_offset, max(held.min_offset, done), held.max_offset)

    async def _known_letters(self, group: str, parts: Iterable[_Letters]) -> list[_KnownLetter]:
        """Oldest first."""
        found = [
            _KnownLetter(self._letter_of(group, message), part.queue, message.get(REDRIVEN_FROM) or "")
            for part in parts
            async for message in self.walk(part.queue, part.begin, part.end)
        ]
        return sorted(found, key=lambda known: known.letter.dead_ms)

    def _letter_of(self, group: str, message: ReceivedMessage) -> DeadLetter:
        topic = message.get(names.RETRY_TOPIC) or message.get(names.DLQ_ORIGIN_TOPIC) or ""
        story = message.failure_story
        return DeadLetter(
            group=group,
            topic=self.client.plain_name(topic),
            message_id=message.message_id,
            broker=message.broker,
            queue=message.queue_id,
            offset=message.offset,
            born_ms=message.born_ms,
            dead_ms=message.stored_ms,
            attempts=message.delivery_attempt,
            keys=message.keys,
            tags=message.tags,
            body_bytes=len(message.packed_body),
            offset_message_id=message.offset_message_id,
            reason=message.get(names.DLQ_ERROR) or (story.newest.text if story is not None else ""),
            story=story,
        )


def _originals_of(letters: Iterable[_KnownLetter]) -> OriginalMessages:
    originals = OriginalMessages()
    for letter, _, redriven_from in letters:
        place, topic = letter.offset_message_id, letter.topic
        originals.add(place, topic=topic, message_id=letter.message_id, redriven_from=redriven_from)
    return originals


def leaves_doubt(error: MQError) -> bool:
    """Whether what was asked for may have been done all the same: the request left, and no response came."""
    never_left = (ConnectFailedError, TooManyRequestsError, NoRouteError)
    return isinstance(error, TransportError) and not isinstance(error, never_left)


def application_properties(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those that a message keeps when it is sent again: what the system did to it is gone."""
    return [(name, value) for name, value in given.items() if name in _KEPT or name not in _LEFT_OUT]


def _is_one_of(failure: Failure, errors: Collection[str]) -> bool:
    return any(failure.is_called(name) for name in errors)


def _several(given: Collection[str]) -> Collection[str]:
    """One text is one of them, not its letters."""
    return (given,) if isinstance(given, str) and given else given
