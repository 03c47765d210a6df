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
from pyromq.operate.consumers.used_settings import SettingsInUse, UsedSetting
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


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A connected consumer; ``agrees`` is null where brokers do not tell whether its subscription is the others'.

    ``consume_ms`` is how long its listener takes, ``lag`` what it has not consumed of its queues, ``difference`` what
    sets its subscriptions apart, ``listening_since_ms`` when its listener began with the message it has had longest.
    ``held_pulls`` is how often flow control held a pull back, by rule; ``uses`` are settings of its own.
    """

    client_id: str
    address: str
    language: str
    version: str
    agrees: bool | None
    queues: int | None
    subscriptions: dict[str, str]
    consume_ms: float
    ok_rate: float
    failed_rate: float
    failed_hour: int
    lag: int | None
    listening_since_ms: int
    difference: str
    held_pulls: dict[str, int]
    uses: SettingsInUse
    problem: str


class GroupQueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of a group: where it stands, its owner, and the message it stands at (``offset`` null: none).

    ``in_flight`` messages are with consumers of a group that pops (null: it pulls), the one it stands at until
    ``invisible_until_ms``.
    """

    topic: str
    broker: str
    queue: int
    committed: int
    end: int
    lag: int
    owner: str
    offset: int | None
    message_id: str
    keys: tuple[str, ...]
    age_ms: int
    attempt: int
    stage: str
    since_ms: int
    error: str
    in_flight: int | None
    invisible_until_ms: int
    stack: str


class GroupDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A group at this moment. Of one that broadcasts, ``lag`` is that of its slowest member."""

    group: str
    is_online: bool
    is_paused: bool
    is_broadcasting: bool
    lag: int
    lag_ms: int | None
    in_flight: int | None
    subscriptions: dict[str, str]
    members: list[MemberView]
    queues: list[GroupQueueView]
    settings: tuple[UsedSetting, ...]


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
async def get(call: Call, path: GroupPath) -> GroupDetails:
    """Members, queues with their owners, and what holds them up."""
    state = await view.group_state(call.desk, path.group)
    return GroupDetails(
        group=state.group,
        is_online=state.is_online,
        is_paused=state.is_paused,
        is_broadcasting=state.is_broadcasting,
        lag=state.lag,
        lag_ms=state.lag_ms,
        in_flight=state.in_flight,
        subscriptions={topic: each.sub_string for topic, each in state.subscriptions.items()},
        members=[
            MemberView(
                client_id=each.client_id,
                address=each.address,
                language=each.language,
                version=each.version_text,
                agrees=each.agrees,
                queues=each.queues,
                subscriptions=each.subscriptions,
                consume_ms=each.consume_ms,
                ok_rate=each.ok_rate,
                failed_rate=each.failed_rate,
                failed_hour=each.failed_hour,
                lag=each.lag,
                listening_since_ms=each.listening_since_ms,
                difference=each.difference,
                held_pulls=each.held_pulls,
                uses=each.uses,
                problem=each.problem,
            )
            for each in state.members
        ],
        queues=[
            GroupQueueView(
                topic=each.queue.topic,
                broker=each.queue.broker,
                queue=each.queue.number,
                committed=each.committed,
                end=each.end,
                lag=each.lag,
                owner=each.client_id,
                offset=each.offset,
                message_id=each.message_id,
                keys=each.keys,
                age_ms=each.age_ms,
                attempt=each.attempt,
                stage=each.stage,
                since_ms=each.since_ms,
                error=each.error,
                in_flight=each.in_flight,
                invisible_until_ms=each.invisible_until_ms,
                stack=each.stack,
            )
            for each in state.queues
        ],
        settings=state.settings,
    )


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
