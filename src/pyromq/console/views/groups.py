"""Consumer groups as lists and pages show them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from pyromq.aio import QueueId
from pyromq.console.desk import NAMES_MS, NUMBERS_MS, Desk
from pyromq.console.web.tables import TablePage, TableQuery, sorted_by
from pyromq.errors import ConfigError, GroupOfflineError, MQError
from pyromq.model.names import dead_letter_topic
from pyromq.model.system_names import is_system_group
from pyromq.operate.consumers.group_state import GroupState
from pyromq.operate.jobs.specs import Move
from pyromq.operate.offsets import EARLIEST, LATEST, OffsetMove
from pyromq.operate.sweep import GroupTotals
from pyromq.wire.json.heartbeat import MessageModel

T = TypeVar("T")
SORTS: Final = ("lag", "name", "retries", "rate")
_MEMBERS_MS: Final = 4_000
_ASKED_AT_ONCE: Final = 8


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list. None is what is not known; a group that broadcasts has no lag here (``is_broadcasting``)."""

    group: str
    lag: int | None = None
    retries: int | None = None
    rate: float | None = None
    members: int | None = None
    dead_letters: int | None = None
    mismatched: int = 0
    is_broadcasting: bool = False
    is_paused: bool = False
    topics: tuple[str, ...] = ()


class GroupList(msgspec.Struct, frozen=True, kw_only=True):
    """``problem`` says why numbers are missing."""

    page: TablePage[GroupRow]
    hidden: int
    problem: str = ""


async def totals(desk: Desk) -> dict[str, GroupTotals]:
    return await desk.cache.get("group totals", NUMBERS_MS, desk.admin.groups.totals)


async def list_groups(desk: Desk, query: TableQuery, *, with_system: bool = False) -> GroupList:
    """Names are searched and sorted first; members and dead letters are asked for one page of them."""
    configs = await desk.cache.get("group configs", NAMES_MS, desk.admin.groups.configs)
    problem = ""
    try:
        told = await totals(desk)
    except MQError as error:
        told, problem = {}, f"Lag and rate are not available: {error}"
    names = [name for name in sorted(configs) if with_system or not is_system_group(name)]
    rows = [
        GroupRow(
            group=name,
            lag=told[name].lag if name in told else None,
            retries=told[name].retrying if name in told else None,
            rate=told[name].get_rate if name in told else None,
            is_paused=not configs[name].consume_enable,
            topics=told[name].topics if name in told else (),
        )
        for name in query.found(names)
    ]
    keys: dict[str, Callable[[GroupRow], Any]] = {
        "name": lambda row: row.group,
        "lag": lambda row: -1 if row.lag is None else row.lag,
        "retries": lambda row: -1 if row.retries is None else row.retries,
        "rate": lambda row: -1.0 if row.rate is None else row.rate,
    }
    page = query.cut(sorted_by(rows, query, keys))
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)
    filled = await asyncio.gather(*[_filled(desk, row, limit) for row in page.rows])
    return GroupList(page=page.with_rows(filled), hidden=len(configs) - len(names), problem=problem)


async def _filled(desk: Desk, row: GroupRow, limit: asyncio.Semaphore) -> GroupRow:
    async with limit:
        members, mismatched, is_broadcasting = await desk.cache.get(
            ("members", row.group), _MEMBERS_MS, lambda: _members(desk, row.group)
        )
        letters = await _letters(desk, row.group)
    changes: dict[str, Any] = {"members": members, "mismatched": mismatched, "dead_letters": letters}
    changes["is_broadcasting"] = is_broadcasting
    if is_broadcasting:
        changes |= {"lag": None, "retries": None}
    return msgspec.structs.replace(row, **changes)


async def _members(desk: Desk, group: str) -> tuple[int | None, int, bool]:
    try:
        found = await desk.admin.members.connections(group)
    except GroupOfflineError:
        return 0, 0, False
    except MQError:
        return None, 0, False
    is_broadcasting = found.message_model is MessageModel.BROADCASTING
    return len(found.connection_set), len(found.disagreeing_client_ids or ()), is_broadcasting


async def _letters(desk: Desk, group: str) -> int | None:
    try:
        if dead_letter_topic(group) not in await desk.topic_names():
            return 0
        return (await desk.letter_counts(group)).waiting
    except MQError:
        return None


async def group_state(desk: Desk, group: str) -> GroupState:
    """State of a group. Raises GroupNotFoundError."""
    return await desk.cache.get(("group", group), NUMBERS_MS, lambda: desk.admin.groups.describe(group))


def forget(desk: Desk, group: str) -> None:
    """After a change of a group."""
    desk.cache.forget(
        ("group", group), ("members", group), ("dead letters", group), "group configs", "group totals", "groups"
    )


# --- resets --------------------------------------------------------------------------------------------------------


class ResetWish(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group shall go on in a topic. ``queues`` (``broker:number``) are all when it is empty.

    ``time_ms`` is for ``to="time"``, ``offset`` for ``to="offset"``, ``by`` for ``to="shift"``, ``source`` (a group)
    for ``to="group"``.
    """

    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    to: Literal["earliest", "latest", "time", "offset", "shift", "group"]
    time_ms: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] | None = None
    by: Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)] | None = None
    source: Annotated[str, msgspec.Meta(max_length=255)] = ""
    queues: tuple[str, ...] = ()


class ResetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset would do; the moves go into a job as they are."""

    group: str
    moves: tuple[Move, ...]
    delivered_again: int
    skipped: int
    is_online: bool


async def plan_reset(desk: Desk, group: str, wish: ResetWish) -> ResetPlan:
    """Plan where a reset would move each queue. Raises GroupNotFoundError, TopicNotFoundError, ConfigError also for a
    group that broadcasts.
    """
    admin = desk.admin
    await admin.groups.require(group)
    chosen = [_queue(desk, wish.topic, text) for text in wish.queues]
    match wish.to:
        case "shift":
            moves = await admin.offsets.plan_shift(group, wish.topic, _given(wish.by, "by how many messages"), chosen)
        case "group":
            moves = await admin.offsets.plan_copy(group, wish.topic, _given(wish.source or None, "which group"), chosen)
        case _:
            to_ms = {"earliest": EARLIEST, "latest": LATEST}.get(wish.to, 0)
            offset = _given(wish.offset, "which offset") if wish.to == "offset" else None
            if wish.to == "time":
                to_ms = max(1, _given(wish.time_ms, "which time"))
            moves = await admin.offsets.plan_reset(group, wish.topic, to_ms=to_ms, offset=offset)
            moves = [move for move in moves if not chosen or move.queue in chosen]
    if not moves:
        raise ConfigError(f"topic {wish.topic} has none of the queues {', '.join(wish.queues)}")
    return plan_of(desk, group, moves, is_online=await _is_online(desk, group))


def plan_of(desk: Desk, group: str, moves: Sequence[OffsetMove], *, is_online: bool) -> ResetPlan:
    return ResetPlan(
        group=group,
        moves=tuple(
            Move(
                topic=desk.admin.client.plain_name(move.queue.topic),
                broker=move.queue.broker,
                queue=move.queue.number,
                old=move.old,
                new=move.new,
            )
            for move in moves
        ),
        delivered_again=sum(-move.difference for move in moves if move.old is not None and move.difference < 0),
        skipped=sum(move.difference for move in moves if move.old is not None and move.difference > 0),
        is_online=is_online,
    )


async def _is_online(desk: Desk, group: str) -> bool:
    try:
        await desk.admin.members.connections(group)
    except GroupOfflineError:
        return False
    return True


def _queue(desk: Desk, topic: str, text: str) -> QueueId:
    broker, colon, number = text.rpartition(":")
    if not (broker and colon and number.isdecimal() and len(number) < 10):
        raise ConfigError(f"{text[:80]!r} is not a queue: write broker:number")
    return QueueId(desk.admin.client.wire_name(topic), broker, int(number))


def _given(value: T | None, what: str) -> T:
    if value is None:
        raise ConfigError(f"the reset does not say {what}")
    return value
