"""Consumer groups: list, look, plan a reset, pause and resume."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pyromq.aio import QueueId
from pyromq.console.views import groups as view
from pyromq.console.views.brokers import require_broker
from pyromq.console.views.groups import ResetPlan, ResetWish
from pyromq.console.web.api import Api, Call
from pyromq.console.web.tables import SIZES, TableQuery
from pyromq.operate.consumers.group_state import GroupDescription
from pyromq.operate.jobs.record import JobRecord
from pyromq.operate.jobs.specs import NewJob, ResetOffsets
from pyromq.operate.lists import GroupRow

functions = Api("groups")

GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, description="The name of a consumer group")]


class GroupPath(msgspec.Struct, frozen=True):
    group: GroupName


class MemberPath(msgspec.Struct, frozen=True):
    group: GroupName
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000, description="The id of a client")]


class GroupsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups; those of the system only with ``all``."""

    q: Annotated[str, msgspec.Meta(max_length=200, description="What the name contains")] = ""
    all: bool = False
    sort: Literal["lag", "name", "retrying", "rate"] = "lag"
    order: Literal["asc", "desc"] = "desc"
    page: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    size: Annotated[int, msgspec.Meta(ge=1, le=SIZES[-1])] = 50


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of groups. ``problems`` say why numbers are missing, where they are."""

    groups: list[GroupRow]
    total: int
    page: int
    problems: tuple[str, ...] = ()


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    stack: str


class ChangedBrokers(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of brokers whose configuration changed."""

    brokers: list[str]


class QueueHead(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a queue stands at."""

    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    broker: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    queue: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class ParkedMessage(msgspec.Struct, frozen=True, kw_only=True):
    message_id: str
    topic: str
    goes_on_at: int


class LagPoint(msgspec.Struct, frozen=True, kw_only=True):
    time_ms: int
    lag: int


class LagTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Lag of a group as this console saw it, oldest first."""

    points: list[LagPoint]


@functions.get("/groups", summary="List consumer groups")
async def list_groups(call: Call, query: GroupsQuery) -> GroupPage:
    """A page of them with lag, rate, members and dead letters; the largest numbers first."""
    asked = TableQuery(
        page=query.page, size=query.size, sort=query.sort, descending=query.order == "desc", search=query.q
    )
    found = await view.list_groups(call.desk, asked, with_system=query.all)
    page = asked.page_of(found.rows, found.found, found.skip)
    return GroupPage(groups=page.rows, total=page.total, page=page.query.page, problems=found.problems)


@functions.get("/groups/{group}", summary="One consumer group")
async def get(call: Call, path: GroupPath) -> GroupDescription:
    """Members, queues with their owners, and what holds them up."""
    return GroupDescription.of(await view.group_state(call.desk, path.group))


@functions.get("/groups/{group}/trend", summary="The lag of a group over time")
async def trend(call: Call, path: GroupPath) -> LagTrend:
    """Since this console runs, for two hours at most."""
    points = [LagPoint(time_ms=at, lag=lag) for at, lag in call.desk.lags.points(path.group)]
    return LagTrend(points=points)


@functions.get("/groups/{group}/members/{client}/stack", summary="Stacks of a member")
async def stack(call: Call, path: MemberPath) -> Stack:
    """What its threads are doing; empty for clients that do not tell."""
    return Stack(stack=await call.desk.admin.members.stack(path.group, path.client))


@functions.post("/groups/{group}/pause", summary="Pause a group")
async def pause(call: Call, path: GroupPath) -> ChangedBrokers:
    """Brokers refuse its pulls until it is resumed; its offsets stay."""
    changed = await call.desk.admin.groups.pause(path.group)
    view.forget(call.desk, path.group)
    return ChangedBrokers(brokers=changed)


@functions.post("/groups/{group}/resume", summary="Resume a group")
async def resume(call: Call, path: GroupPath) -> ChangedBrokers:
    """Let a paused group consume again."""
    changed = await call.desk.admin.groups.resume(path.group)
    view.forget(call.desk, path.group)
    return ChangedBrokers(brokers=changed)


@functions.post("/groups/{group}/park", summary="Move the message at the head of a queue to the dead letters")
async def park(call: Call, path: GroupPath, body: QueueHead) -> ParkedMessage:
    """Only if it still is the head. A member that works on it may finish it all the same."""
    queue = QueueId(call.desk.admin.client.wire_name(body.topic), body.broker, body.queue)
    await require_broker(call.desk, body.broker)
    parked = await call.desk.admin.groups.park(path.group, queue, body.offset)
    view.forget(call.desk, path.group)
    return ParkedMessage(message_id=parked.message_id, topic=parked.dead_letter_topic, goes_on_at=parked.move.new)


@functions.post("/groups/{group}/reset/preview", summary="What a reset would do")
async def preview(call: Call, path: GroupPath, body: ResetWish) -> ResetPlan:
    """Queue by queue; nothing is done. Its moves make a job of kind ``reset``."""
    return await view.plan_reset(call.desk, path.group, body)


@functions.post("/groups/{group}/reset", summary="Reset a group", status=201)
async def reset(call: Call, path: GroupPath, body: ResetWish) -> JobRecord:
    """A job that moves each queue and reads it back; queues that move on meanwhile are moved all the same."""
    plan = await view.plan_reset(call.desk, path.group, body)
    spec = ResetOffsets(group=path.group, moves=plan.moves, is_forced=True)
    record = call.desk.jobs.start(NewJob(spec=spec), by=call.who.name)
    view.forget(call.desk, path.group)
    return record
