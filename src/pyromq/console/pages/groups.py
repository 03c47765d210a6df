"""Consumer groups: the list, one group, its members, and moving, pausing and deleting it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from pyromq.aio import QueueId
from pyromq.charts import spark
from pyromq.console.history.names import group_lag
from pyromq.console.views import groups as view
from pyromq.console.views.brokers import require_broker
from pyromq.console.views.letters import waiting_retries
from pyromq.console.views.times import read_moment
from pyromq.console.views.trends import trend_chart
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.tables import TableQuery
from pyromq.console.web.visit import BadRequestError, Drawn, Moved, Visit
from pyromq.errors import ConfigError, MQError
from pyromq.model.names import RETRY_PREFIX, dead_letter_topic, retry_topic
from pyromq.model.system_names import is_system_group
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.operate.consumers.group_state import GroupState
from pyromq.operate.dead_letters import LetterCounts
from pyromq.operate.jobs.specs import Delete, Move, NewJob, ResetOffsets

pages = Pages()

_HELD_UP_MS: Final = 10_000  # younger messages are on their way
_HEADS_SHOWN_MAX: Final = 6
_QUEUES_SHOWN_MAX: Final = 500


@pages.page("/groups", title="Groups", nav=Nav("Consume", order=10, key="c"))
async def groups(visit: Visit) -> Drawn:
    query = TableQuery.of(visit.query, sorts=view.SORTS, kept=("all",))
    if "sort" not in visit.query:
        query = replace(query, descending=True)  # those that are furthest behind
    found = await view.list_groups(visit.desk, query, with_system=visit.query.get("all") == "1")
    page = query.page_of(found.rows, found.found, found.skip)
    sparks = {row.group: visit.desk.lags.points(row.group)[-40:] for row in page.rows}
    return Drawn("groups.html", {"found": found, "page": page, "sparks": sparks, "spark": spark})


@pages.page("/groups/{group}", title="Group")
async def group(visit: Visit) -> Drawn:
    name = visit.path["group"]
    state = await view.group_state(visit.desk, name)
    retries = [queue for queue in state.queues if queue.queue.topic.startswith(RETRY_PREFIX)]
    own = [queue for queue in state.queues if not queue.queue.topic.startswith(RETRY_PREFIX)]
    letters, errors, letters_problem = await _letters(visit, name)
    waiting, _ = await or_problem(waiting_retries(visit.desk), None)
    model = {
        "group": name,
        "state": state,
        "queues": own,
        "lag": state.lag,
        "retries_ready": sum(max(0, queue.lag) for queue in retries),
        "retries_waiting": None if waiting is None else sum(each.group == name for each in waiting),
        "blocking": blocking_of(state)[:_HEADS_SHOWN_MAX],
        "trend": trend_chart(visit.desk, visit.span, f"Lag of {name}", {"lag": group_lag(name)}),
        "span": visit.span,
        "letters": letters,
        "errors": errors,
        "letters_problem": letters_problem,
        "topics": sorted({visit.desk.admin.client.plain_name(queue.queue.topic) for queue in own}),
        "is_system": is_system_group(name),
    }
    return Drawn("group.html", model, title=f"Group {name}")


async def _letters(visit: Visit, group: str) -> tuple[LetterCounts | None, Any, str]:
    try:
        found = await visit.desk.letter_counts(group)
        errors = await visit.desk.admin.dead_letters.by_error(group, count_max=1_000) if found.waiting else None
        return found, errors, ""
    except MQError as error:
        return None, None, str(error)


def blocking_of(state: GroupState) -> list[BlockedQueue]:
    """The messages that hold queues up: failed ones at once, others after a while; listeners that run longest first."""
    held = [queue for queue in state.queues if queue.offset is not None and queue.lag > 0]
    old = [queue for queue in held if queue.age_ms >= _HELD_UP_MS or (queue.stage and queue.attempt)]
    return sorted(old, key=lambda queue: (queue.since_ms or 1 << 62, -queue.age_ms))


@pages.page("/groups/{group}/members", title="Member")
async def member(visit: Visit) -> Drawn:
    """A member: what it does, the messages its listener has, and the stacks of its threads, asked for now."""
    name, client_id = visit.path["group"], visit.query.get("client", "")
    state = await view.group_state(visit.desk, name)
    stack, problem = await or_problem(visit.desk.admin.members.stack(name, client_id), "")
    queues = [queue for queue in state.queues if queue.client_id == client_id]
    model = {
        "group": name,
        "client_id": client_id,
        "member": next((each for each in state.members if each.client_id == client_id), None),
        "heads": [queue for queue in blocking_of(state) if queue.client_id == client_id][:_HEADS_SHOWN_MAX],
        "queues": queues[:_QUEUES_SHOWN_MAX],
        "stack": stack,
        "problem": problem,
    }
    return Drawn("member.html", model, title=f"Member {client_id[:60]}")


# --- reset ---------------------------------------------------------------------------------------------------------


@pages.page("/groups/{group}/reset", title="Reset offsets")
async def reset(visit: Visit) -> Drawn:
    """The form, and with a target what it would do; nothing is done here."""
    name, query = visit.path["group"], visit.query
    state = await view.group_state(visit.desk, name)
    plan, problem = None, ""
    topics = sorted(
        {
            visit.desk.admin.client.plain_name(queue.queue.topic)
            for queue in state.queues
            if not queue.queue.topic.startswith(RETRY_PREFIX)
        }
        | {topic for topic in state.subscriptions if not topic.startswith(RETRY_PREFIX)}
    )
    if query.get("to") and query.get("topic"):
        try:
            plan = await view.plan_reset(visit.desk, name, _wish(visit))
        except MQError as error:
            problem = str(error)
    model = {
        "group": name,
        "state": state,
        "given": {each: query.get(each, "") for each in ("topic", "to", "time", "offset", "by", "source", "queues")},
        "plan": plan,
        "moves": msgspec.json.encode(plan.moves).decode() if plan else "",
        "commands": ResetOffsets(group=name, moves=plan.moves).commands() if plan else [],
        "problem": problem,
        "topics": topics,
    }
    return Drawn("group_reset.html", model, title=f"Reset {name}")


def _wish(visit: Visit) -> view.ResetWish:
    query = visit.query
    given: dict[str, Any] = {"topic": query.get("topic", "").strip(), "to": query.get("to", "")}
    if query.get("to") == "time":
        given["time_ms"] = read_moment(query.get("time", ""), visit.now_ms)
    given |= {name: query[name].strip() for name in ("offset", "by") if query.get(name)}
    given["source"] = query.get("source", "").strip()
    given["queues"] = tuple(query.get("queues", "").replace(",", " ").split())
    try:
        return msgspec.convert(given, view.ResetWish, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the reset cannot be read: {error}") from error


@pages.action("/groups/{group}/reset")
async def carry_out_reset(visit: Visit) -> Moved:
    name = visit.path["group"]
    try:
        moves = msgspec.json.decode(visit.form.get("moves", ""), type=tuple[Move, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the moves cannot be read: {error}") from error
    if not moves:
        raise BadRequestError("there is nothing to move")
    spec = ResetOffsets(group=name, moves=moves, is_forced=bool(visit.form.get("is_forced")))
    record = visit.desk.jobs.start(NewJob(spec=spec), by=visit.by)
    view.forget(visit.desk, name)
    return Moved(link("jobs", record.id))


# --- pause, resume, park, delete -----------------------------------------------------------------------------------


@pages.action("/groups/{group}/pause")
async def pause(visit: Visit) -> Moved:
    name = visit.path["group"]
    changed = await visit.desk.admin.groups.pause(name)
    view.forget(visit.desk, name)
    said = f"Group {name} is paused on {len(changed)} brokers: they refuse its pulls; members finish what they have."
    return Moved(link("groups", name), said=said if changed else f"Group {name} was paused already.")


@pages.action("/groups/{group}/resume")
async def resume(visit: Visit) -> Moved:
    name = visit.path["group"]
    changed = await visit.desk.admin.groups.resume(name)
    view.forget(visit.desk, name)
    said = f"Group {name} may consume again on {len(changed)} brokers. Members try again within half a minute."
    return Moved(link("groups", name), said=said if changed else f"Group {name} was not paused.")


@pages.action("/groups/{group}/park")
async def park(visit: Visit) -> Moved:
    """The message that holds a queue up goes to the dead letters, if it still is the one."""
    name, form = visit.path["group"], visit.form
    try:
        queue = QueueId(form["topic"], form["broker"], int(form["queue"]))
        offset = int(form["offset"])
    except (KeyError, ValueError) as error:
        raise BadRequestError("which queue and offset?") from error
    await require_broker(visit.desk, queue.broker)
    parked = await visit.desk.admin.groups.park(name, queue, offset)
    view.forget(visit.desk, name)
    said = f"Message {parked.message_id} is now in {parked.dead_letter_topic}; the queue goes on at {parked.move.new}."
    return Moved(link("groups", name), said=said)


@pages.page("/groups/{group}/delete", title="Delete a group")
async def delete(visit: Visit) -> Drawn:
    """Show what the deletion of a group would lose."""
    name = visit.path["group"]
    state = await view.group_state(visit.desk, name)
    known = set(await visit.desk.topic_names())
    model = {
        "group": name,
        "state": state,
        "left": [topic for topic in (retry_topic(name), dead_letter_topic(name)) if topic in known],
    }
    return Drawn("group_delete.html", model, title=f"Delete {name}")


@pages.action("/groups/{group}/delete")
async def carry_out_delete(visit: Visit) -> Moved:
    name = visit.path["group"]
    if visit.form.get("name", "") != name:
        raise BadRequestError(f"write the name of the group, {name}, to delete it")
    spec = Delete(what="group", names=(name,))
    record = visit.desk.jobs.start(NewJob(spec=spec), by=visit.by)
    view.forget(visit.desk, name)
    return Moved(link("jobs", record.id))
