"""Consumer groups as lists and pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from pyromq.aio import QueueId
from pyromq.console.desk import NUMBERS_MS, Desk
from pyromq.console.web.tables import TableQuery
from pyromq.errors import ConfigError, GroupOfflineError
from pyromq.operate.consumers.group_state import GroupState
from pyromq.operate.jobs.specs import Move
from pyromq.operate.lists import GroupPage
from pyromq.operate.offsets import EARLIEST, LATEST, MoveRow, OffsetMove

T = TypeVar("T")
SORTS: Final = ("lag", "name", "retrying", "rate")


async def list_groups(desk: Desk, query: TableQuery, *, with_system: bool = False) -> GroupPage:
    """Return a page of groups. Raises TransportError if no broker answers."""
    question = query.question(with_system=with_system)
    return await desk.listed("groups", question, lambda: desk.admin.groups.list(question))


async def group_state(desk: Desk, group: str) -> GroupState:
    """State of a group. Raises GroupNotFoundError."""
    return await desk.cache.get(("group", group), NUMBERS_MS, lambda: desk.admin.groups.describe(group))


def forget(desk: Desk, group: str) -> None:
    """After a change of a group."""
    desk.changed(("group", group), ("dead letters", group), "groups")


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
    """What a reset would do, queue by queue; the moves go into a job as they are."""

    group: str
    moves: tuple[Move, ...]
    queues: tuple[MoveRow, ...]
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
    planned = tuple(MoveRow.of(move, desk.admin.client.plain_name(move.queue.topic)) for move in moves)
    return ResetPlan(
        group=group,
        moves=tuple(
            Move(topic=each.topic, broker=each.broker, queue=each.queue, old=each.old, new=each.new) for each in planned
        ),
        queues=planned,
        delivered_again=sum(each.delivered_again for each in planned),
        skipped=sum(each.skipped for each in planned),
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
