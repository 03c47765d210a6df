"""Dead letters and retries as pages and the API show them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from pyromq.client.admin.dead_letters import DeadLetter
from pyromq.client.admin.delays import DelayedMessage
from pyromq.console.desk import Desk
from pyromq.console.jobs.work import is_error
from pyromq.console.views.messages import line_of
from pyromq.console.web.tables import TablePage, TableQuery, sorted_by
from pyromq.errors import MQError, NotFoundError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.model.system_names import is_system_group

READ_MAX: Final = 10_000  # letters of a group that are looked at, the newest ones
SORTS: Final = ("dead", "topic", "attempts")
_LETTERS_MS: Final = 4_000
_WAITING_MAX: Final = 5_000
_ASKED_AT_ONCE: Final = 8


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters; all that is given must hold. ``error`` is a class, the hash of a stack, or the error's text."""

    error: str = ""
    key: str = ""
    tag: str = ""
    topic: str = ""
    redriven: str = ""  # "no" hides those that were sent again
    q: str = ""  # searched in ids, keys, tags and errors, whatever its case

    def takes(self, letter: DeadLetter) -> bool:
        return (
            (not self.error or is_error(letter, self.error))
            and (not self.key or self.key in letter.keys)
            and (not self.tag or letter.tags == self.tag)
            and (not self.topic or letter.topic == self.topic)
            and (self.redriven != "no" or not letter.is_redriven)
            and (not self.q or _mentions(letter, self.q.strip().casefold()))
        )


class LetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter in a list."""

    offset_message_id: str
    message_id: str
    topic: str
    broker: str
    queue: int
    offset: int
    dead_ms: int
    born_ms: int
    attempts: int
    keys: tuple[str, ...]
    tags: str
    body_bytes: int
    error_class: str
    stack: str
    text: str
    version: str
    is_redriven: bool


class LetterList(msgspec.Struct, frozen=True, kw_only=True):
    """``read`` letters were looked at; ``is_cut``: there are older ones."""

    page: TablePage[LetterRow]
    read: int
    is_cut: bool


async def letters_of(desk: Desk, group: str) -> list[DeadLetter]:
    """Raises GroupNotFoundError."""
    return await desk.cache.get(
        ("letters", group), _LETTERS_MS, lambda: desk.admin.dead_letters(group, count_max=READ_MAX, checked=False)
    )


async def list_letters(desk: Desk, group: str, query: TableQuery, wanted: LetterFilter) -> LetterList:
    """Chosen and sorted first; whether each was redriven is looked up for one page. Raises GroupNotFoundError."""
    letters = await letters_of(desk, group)
    chosen = [letter for letter in letters if wanted.takes(letter)]
    keys: dict[str, Any] = {
        "dead": lambda letter: letter.dead_ms,
        "topic": lambda letter: letter.topic,
        "attempts": lambda letter: letter.attempts,
    }
    page = query.cut(sorted_by(chosen, query, keys))
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)
    rows = await asyncio.gather(*[_row(desk, letter, limit) for letter in page.rows])
    return LetterList(page=page.with_rows(rows), read=len(letters), is_cut=len(letters) >= READ_MAX)


def _mentions(letter: DeadLetter, needle: str) -> bool:
    texts = (letter.message_id, letter.reason, letter.failure.error_class, letter.tags, *letter.keys)
    return any(needle in text.casefold() for text in texts)


async def _row(desk: Desk, letter: DeadLetter, limit: asyncio.Semaphore) -> LetterRow:
    is_redriven = letter.is_redriven
    if not is_redriven:
        async with limit:
            try:
                is_redriven = await desk.admin.was_redriven(letter)
            except MQError:
                is_redriven = False
    failure = letter.failure
    return LetterRow(
        offset_message_id=letter.offset_message_id,
        message_id=letter.message_id,
        topic=letter.topic,
        broker=letter.broker,
        queue=letter.queue,
        offset=letter.offset,
        dead_ms=letter.dead_ms,
        born_ms=letter.born_ms,
        attempts=letter.attempts,
        keys=letter.keys,
        tags=letter.tags,
        body_bytes=letter.body_bytes,
        error_class=failure.error_class,
        stack=failure.stack,
        text=failure.text or letter.reason,
        version=failure.version,
        is_redriven=is_redriven,
    )


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with dead letters."""

    group: str
    letters: int | None
    problem: str = ""


async def groups_with_letters(desk: Desk) -> list[LetterGroup]:
    """Those that gave up on something, the most letters first."""
    topics = [name for name in await desk.topic_names() if name.startswith(DEAD_LETTER_PREFIX)]
    names = [name for topic in topics if not is_system_group(name := topic.removeprefix(DEAD_LETTER_PREFIX))]
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def count(group: str) -> LetterGroup:
        async with limit:
            try:
                return LetterGroup(group=group, letters=await desk.admin.dead_letter_count(group))
            except MQError as error:
                return LetterGroup(group=group, letters=None, problem=str(error))

    async def load() -> Sequence[LetterGroup]:
        return await asyncio.gather(*[count(name) for name in names])

    found = await desk.cache.get("groups with letters", _LETTERS_MS, load)
    return sorted(found, key=lambda each: (-(each.letters or 0), each.group))


async def letter_lines(desk: Desk, group: str, wanted: LetterFilter, places: Sequence[str]) -> AsyncIterator[bytes]:
    """Lines of JSON of chosen letters, or of those with these offset ids; ``topic`` is where each was sent first.

    One that is gone meanwhile is left out.
    """
    if places:
        chosen = list(dict.fromkeys(places))
    else:
        chosen = [letter.offset_message_id for letter in await letters_of(desk, group) if wanted.takes(letter)]
    for place in chosen:
        try:
            message = await desk.admin.message_by_offset_id(place)
        except NotFoundError:
            continue
        line = msgspec.structs.replace(line_of(message), topic=desk.admin.first_topic(message))
        yield msgspec.json.encode(line) + b"\n"


async def waiting_retries(desk: Desk) -> list[DelayedMessage]:
    """Failed messages that wait for their next attempt, soonest first. Raises BrokerError where brokers refuse."""

    async def load() -> list[DelayedMessage]:
        return [each for each in await desk.admin.delayed(count_max=_WAITING_MAX) if each.group]

    return await desk.cache.get("waiting retries", _LETTERS_MS, load)
