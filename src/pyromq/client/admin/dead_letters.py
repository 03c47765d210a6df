"""Dead letters: what a group gave up on, and sending it on its way again.

A redriven letter is a new message with an id that follows from the letter alone. So a redrive that is repeated, or goes
on after a failure, finds what was sent before and does not send it again. Of a message that left several letters one is
sent (``original_messages``). How far the letters of a queue are redriven without a gap is kept as the offset of a group
of its own, so that a later run begins there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from pyromq.client.admin.lookup import LookupAdmin
from pyromq.client.admin.offsets import OffsetAdmin
from pyromq.client.admin.original_messages import LetterRole, OriginalMessages, redriven_id
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.selectors import hashed_index
from pyromq.errors import GroupNotFoundError, MQError, TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.model.failure import STORY_NAMES, Failure, FailureStory, failure_told
from pyromq.model.names import DEFAULT_TOPIC, REDRIVE_PREFIX, dead_letter_topic, redrive_group, retry_topic
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.property_text import join_items

_PRODUCER: Final = REDRIVE_PREFIX
_COMPRESSION_FLAGS: Final = 0x1 | 0x700
_KEPT: Final = (names.KEYS, names.TAGS, names.SHARDING_KEY, names.INSTANCE_ID)
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


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one letter; ``same_as`` is the ``offset_message_id`` of an older letter of the same message."""

    letter: DeadLetter
    status: RedriveStatus
    to_topic: str = ""
    message_id: str = ""
    error: str = ""
    same_as: str = ""


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


class DeadLetterAdmin(OffsetAdmin, LookupAdmin):
    """Of ``Admin``: dead letters."""

    async def dead_letters(self, group: str, *, count_max: int = 1_000) -> list[DeadLetter]:
        """The newest, oldest first; none if the group never gave up on a message."""
        parts = [await self._letters_in(group, queue) for queue in await self._dead_queues(group)]
        newest = [part._replace(begin=max(part.begin, part.end - count_max)) for part in parts]
        known = await self._known_letters(group, newest)
        originals, done = _originals_of(known), {part.queue: part.done for part in parts}
        found: list[DeadLetter] = []
        for letter, queue, _ in known[-count_max:]:
            sent_as = originals.ids(letter.offset_message_id)
            is_redriven = letter.offset < done[queue] or await self._was_sent(letter, sent_as)
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
        parts = [await self._letters_in(group, queue) for queue in await self._dead_queues(group)]
        if all(part.done >= part.end for part in parts):
            return
        originals = _originals_of(await self._known_letters(group, parts))
        for queue, _, done, end in parts:
            has_gap = dry_run
            async for message in self.walk(queue, done, end):
                letter = self._letter_of(group, message)
                is_chosen = _is_one_of(letter.failure, errors) if errors else True
                is_chosen = is_chosen and (not keys or bool(set(keys) & set(message.keys)))
                if not is_chosen or (tags and message.tags not in tags):
                    has_gap = True
                    continue
                if count_max and sent >= count_max:
                    return
                outcome = await self._redrive_one(letter, message, originals, dry_run, only_group)
                sent += outcome.status in (RedriveStatus.SENT, RedriveStatus.WOULD_SEND)
                has_gap = has_gap or outcome.status is RedriveStatus.FAILED
                if not has_gap:
                    await self._remember_redriven(group, queue, message.offset + 1)
                yield outcome

    async def _redrive_one(
        self,
        letter: DeadLetter,
        message: ReceivedMessage,
        originals: OriginalMessages,
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
            await self._send_again(message, letter, target, message_id)
        except MQError as error:
            return msgspec.structs.replace(outcome, status=RedriveStatus.FAILED, error=str(error))
        return outcome

    async def _send_again(self, message: ReceivedMessage, letter: DeadLetter, target: str, message_id: str) -> None:
        queues = (await self.route(target)).publishable_queues(self.client.wire_name(target))
        if not queues:
            raise TopicNotFoundError(target, f"topic {target} has no queue to write to")
        key = message.sharding_key
        queue = queues[hashed_index(key, len(queues)) if key else self.client.rng.randrange(len(queues))]
        body, properties = message.packed_body, self._properties(message, letter, target, message_id)
        flags = message.sys_flag & _COMPRESSION_FLAGS
        ready = OutgoingMessage(
            SEND, queue.topic, body, properties, message_id, self.client.clock.now_ms(), 0, message.flag, flags
        )
        ext = header_fields(ready, queue, _PRODUCER, DEFAULT_TOPIC, "4")
        await self._ask(await self._address(queue.broker), RequestCode.SEND_MESSAGE_V2, ext, body)

    def _properties(self, message: ReceivedMessage, letter: DeadLetter, target: str, message_id: str) -> str:
        """Those of the application; what the retries left behind is gone."""
        kept = application_properties(message.properties)
        own = [(names.UNIQUE_KEY, message_id), (REDRIVEN_FROM, letter.offset_message_id)]
        if target != letter.topic:
            own.append((names.RETRY_TOPIC, self.client.wire_name(letter.topic)))
        return join_items([*own, *((name, value) for name, value in kept if name != REDRIVEN_FROM)])

    # --- what was done before ---

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


def application_properties(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those that a message keeps when it is sent again: what the system did to it is gone."""
    return [(name, value) for name, value in given.items() if name in _KEPT or name not in _LEFT_OUT]


def _is_one_of(failure: Failure, errors: Collection[str]) -> bool:
    return any(failure.is_called(name) for name in errors)


def _several(given: Collection[str]) -> Collection[str]:
    """One text is one of them, not its letters."""
    return (given,) if isinstance(given, str) and given else given
