"""Dead letters and retries as pages and the API show them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.console.web.tables import TablePage, TableQuery, sorted_by
from pyromq.errors import MQError, NotFoundError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.model.system_names import is_system_group
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.letter_filter import DeadLetter, LetterFilter, LetterRow
from pyromq.operate.reading.message_rows import row_of
from pyromq.operate.resend.outgoing import first_topic

READ_MAX: Final = 10_000  # letters of a group that are looked at, the newest ones
SORTS: Final = ("dead", "topic", "attempts")
_LETTERS_MS: Final = 4_000
_WAITING_MAX: Final = 5_000
_ASKED_AT_ONCE: Final = 8


class LetterList(msgspec.Struct, frozen=True, kw_only=True):
    """``read`` letters were looked at; ``is_cut``: there are older ones."""

    page: TablePage[LetterRow]
    read: int
    is_cut: bool


async def letters_of(desk: Desk, group: str) -> list[DeadLetter]:
    """Dead letters of a group. Raises GroupNotFoundError."""
    return await desk.cache.get(
        ("letters", group), _LETTERS_MS, lambda: desk.admin.dead_letters.list(group, count_max=READ_MAX, checked=False)
    )


async def list_letters(
    desk: Desk, group: str, query: TableQuery, which: LetterFilter, *, hides_redriven: bool = False
) -> LetterList:
    """Choose and sort first; whether each was redriven is looked up for one page. Raises GroupNotFoundError."""
    letters, is_chosen = await letters_of(desk, group), which.matcher()
    chosen = [each for each in letters if is_chosen(each) and not (hides_redriven and each.is_redriven)]
    keys: dict[str, Any] = {
        "dead": lambda letter: letter.dead_ms,
        "topic": lambda letter: letter.topic,
        "attempts": lambda letter: letter.attempts,
    }
    page = query.cut(sorted_by(chosen, query, keys))
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)
    rows = await asyncio.gather(*[_row(desk, letter, limit) for letter in page.rows])
    return LetterList(page=page.with_rows(rows), read=len(letters), is_cut=len(letters) >= READ_MAX)


async def _row(desk: Desk, letter: DeadLetter, limit: asyncio.Semaphore) -> LetterRow:
    if not letter.is_redriven:
        async with limit:
            with suppress(MQError):
                is_redriven = await desk.admin.dead_letters.was_redriven(letter)
                letter = msgspec.structs.replace(letter, is_redriven=is_redriven)
    return LetterRow.of(letter)


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with dead letters: how many wait to be redriven, how many there are; None where nobody answers."""

    group: str
    waiting: int | None
    total: int | None
    problem: str = ""


async def groups_with_letters(desk: Desk) -> list[LetterGroup]:
    """Those that gave up on something, the most letters first."""
    topics = [name for name in await desk.topic_names() if name.startswith(DEAD_LETTER_PREFIX)]
    names = [name for topic in topics if not is_system_group(name := topic.removeprefix(DEAD_LETTER_PREFIX))]
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def count(group: str) -> LetterGroup:
        async with limit:
            try:
                counts = await desk.letter_counts(group)
            except MQError as error:
                return LetterGroup(group=group, waiting=None, total=None, problem=str(error))
            return LetterGroup(group=group, waiting=counts.waiting, total=counts.total)

    async def load() -> Sequence[LetterGroup]:
        return await asyncio.gather(*[count(name) for name in names])

    found = await desk.cache.get("groups with letters", _LETTERS_MS, load)
    return sorted(found, key=lambda each: (-(each.waiting or 0), each.group))


def forget(desk: Desk, group: str) -> None:
    """Forget what is known of a group's letters, after a redrive began."""
    desk.cache.forget(("letters", group), "groups with letters", ("dead letters", group))


async def letter_lines(desk: Desk, group: str, which: LetterFilter) -> AsyncIterator[bytes]:
    """Give lines of JSON of chosen letters; ``topic`` is where each was sent first, one that is gone is left out."""
    is_chosen = which.matcher()
    for letter in filter(is_chosen, await letters_of(desk, group)):
        try:
            message = await desk.admin.messages.by_offset_id(letter.offset_message_id)
        except NotFoundError:
            continue
        line = msgspec.structs.replace(row_of(message), topic=first_topic(desk.admin.client, message))
        yield msgspec.json.encode(line) + b"\n"


async def waiting_retries(desk: Desk) -> list[DelayedMessage]:
    """Failed messages that wait for their next attempt, soonest first. Raises BrokerError where brokers refuse."""

    async def load() -> list[DelayedMessage]:
        return [each for each in await desk.admin.delays.list(count_max=_WAITING_MAX) if each.group]

    return await desk.cache.get("waiting retries", _LETTERS_MS, load)
