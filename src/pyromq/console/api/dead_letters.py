"""Dead letters and retries."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pyromq.console.api.groups import GroupPath
from pyromq.console.views import letters as view
from pyromq.console.views.letters import LetterGroup
from pyromq.console.web.api import Api, Call
from pyromq.console.web.tables import SIZES, TableQuery
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.error_groups import ErrorGroups
from pyromq.operate.letter_filter import LetterFilter, LetterRow

functions = Api("dead-letters")

Text = Annotated[str, msgspec.Meta(max_length=4_096)]


class LettersQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters; all that is given must hold. ``error``: a class, the hash of a stack, or the text of an error."""

    error: Text = ""
    key: Text = ""
    tag: Text = ""
    topic: Text = ""
    redriven: Literal["", "no"] = ""
    q: Annotated[str, msgspec.Meta(max_length=200)] = ""
    page: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    size: Annotated[int, msgspec.Meta(ge=1, le=SIZES[-1])] = 50


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first. ``read`` letters were looked at; ``is_cut``: there are older ones."""

    letters: list[LetterRow]
    total: int
    page: int
    read: int
    is_cut: bool


class LetterGroups(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[LetterGroup]


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Failed messages that wait for their next attempt, soonest first."""

    retries: list[DelayedMessage]


@functions.get("/dead-letters", summary="Groups with dead letters")
async def groups(call: Call) -> LetterGroups:
    """How many letters of each group wait to be redriven, and how many there are."""
    return LetterGroups(groups=await view.groups_with_letters(call.desk))


@functions.get("/groups/{group}/dead-letters", summary="Dead letters of a group")
async def letters(call: Call, path: GroupPath, query: LettersQuery) -> DeadLetterPage:
    """A page of them, with the error that each failed with. To send them again, start a job of kind ``redrive``."""
    which = LetterFilter.of(
        {"errors": query.error, "keys": query.key, "tags": query.tag, "topics": query.topic, "search": query.q}
    )
    asked = TableQuery(page=query.page, size=query.size, sort=view.SORTS[0], descending=True)
    hides = query.redriven == "no"
    found = await view.list_letters(call.desk, path.group, asked, which, hides_redriven=hides)
    page = found.page
    return DeadLetterPage(
        letters=page.rows, total=page.total, page=page.query.page, read=found.read, is_cut=found.is_cut
    )


@functions.get("/groups/{group}/dead-letters/by-error", summary="Dead letters of a group by error")
async def by_error(call: Call, path: GroupPath) -> ErrorGroups:
    """The most frequent error first."""
    return await call.desk.admin.dead_letters.by_error(path.group, count_max=view.READ_MAX)


@functions.get("/groups/{group}/retries/by-error", summary="Retries of a group by error")
async def retries_by_error(call: Call, path: GroupPath) -> ErrorGroups:
    """Messages that failed and come again."""
    return await call.desk.admin.dead_letters.retries_by_error(path.group, count_max=2_000)


@functions.get("/retries", summary="Retries that wait for their time")
async def retries(call: Call) -> Retries:
    """Waiting retries of all groups, five thousand per broker at most."""
    return Retries(retries=await view.waiting_retries(call.desk))
