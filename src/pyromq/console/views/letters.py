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
from pyromq.operate.error_groups import ErrorGroup, ErrorGroups
from pyromq.operate.letter_filter import DeadLetter, LetterFilter, LetterRow
from pyromq.operate.reading.message_rows import row_of
from pyromq.operate.resend.outgoing import first_topic

READ_MAX: Final = 10_000  # letters of a group that are looked at, the newest ones
SORTS: Final = ("dead", "topic", "attempts")
_LETTERS_MS: Final = 4_000
_WAITING_MAX: Final = 5_000
_ASKED_AT_ONCE: Final = 8
_INDEXED_MAX: Final = 50  # groups whose letters the index reads
_INDEX_READ_MAX: Final = 500  # letters of each, the newest ones
_ERRORS_SHOWN: Final = 3
_ERRORS_MS: Final = 20_000
_HOURS_MIN: Final = 1  # from less no rate an hour can be told


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


class LetterIndexRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the index of dead letters: its counts, and what its newest letters say.

    ``errors`` are its most frequent ones, of ``kinds``; ``hour_rate`` is letters an hour from the first to the last.
    """

    counts: LetterGroup
    errors: tuple[ErrorGroup, ...] = ()
    kinds: int = 0
    topics: tuple[str, ...] = ()
    first_ms: int = 0
    last_ms: int = 0
    hour_rate: float | None = None
    trend: tuple[int, ...] = ()
    is_cut: bool = False


async def letter_index(desk: Desk) -> list[LetterIndexRow]:
    """Return groups with letters, the most first; of the first ``_INDEXED_MAX`` the newest letters are read."""
    groups, limit = await groups_with_letters(desk), asyncio.Semaphore(_ASKED_AT_ONCE)

    async def row(counts: LetterGroup) -> LetterIndexRow:
        if not counts.total:
            return LetterIndexRow(counts=counts)
        async with limit:
            try:
                return index_row(counts, await _errors(desk, counts.group))
            except MQError as error:
                return LetterIndexRow(counts=msgspec.structs.replace(counts, problem=str(error)))

    read = await asyncio.gather(*[row(each) for each in groups[:_INDEXED_MAX]])
    return [*read, *(LetterIndexRow(counts=each) for each in groups[_INDEXED_MAX:])]


async def _errors(desk: Desk, group: str) -> ErrorGroups:
    async def load() -> ErrorGroups:
        return await desk.admin.dead_letters.by_error(group, count_max=_INDEX_READ_MAX)

    return await desk.cache.get(("letter errors", group), _ERRORS_MS, load)


def index_row(counts: LetterGroup, found: ErrorGroups) -> LetterIndexRow:
    """Sum up what the letters of a group say."""
    if not found.errors:
        return LetterIndexRow(counts=counts)
    first_ms, last_ms = min(each.first_ms for each in found.errors), max(each.last_ms for each in found.errors)
    hours = (last_ms - first_ms) / 3_600_000
    return LetterIndexRow(
        counts=counts,
        errors=found.errors[:_ERRORS_SHOWN],
        kinds=len(found.errors),
        topics=tuple(sorted({topic for each in found.errors for topic in each.topics})[:_ERRORS_SHOWN]),
        first_ms=first_ms,
        last_ms=last_ms,
        hour_rate=found.messages / hours if hours >= _HOURS_MIN else None,
        trend=tuple(map(sum, zip(*[each.trend for each in found.errors], strict=True))),
        is_cut=found.is_cut,
    )


def forget(desk: Desk, group: str) -> None:
    """Forget what is known of a group's letters, after a redrive began."""
    desk.cache.forget(("letters", group), "groups with letters", ("dead letters", group), ("letter errors", group))


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
