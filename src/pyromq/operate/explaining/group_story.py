"""Delivery status of a message in one group: what the group has done with it, and what it will do.

Committed offsets say what a group has finished, the trace (if there is one) says when; where the two differ, the trace
is the better witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from pyromq.filters import InvalidFilterError, compile_filter
from pyromq.model.failure import Failure
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.operate.explaining.facts import Facts, GroupFacts, PoppedCopy, RedrivenCopy, StoredCopy
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, TraceRecord
from pyromq.wording import counted, shown_time, times, until


class GroupStoryState(StrEnum):
    CONSUMED = "consumed"
    WAITING = "waiting"
    FILTERED = "filtered out"
    RETRYING = "retrying"
    IN_FLIGHT = "in flight"  # with a consumer that pops
    DEAD = "dead letter"
    REDRIVEN = "redriven"  # as a message of its own
    NOT_KNOWN = "not available"  # members that broadcast keep their own progress


class GroupStory(msgspec.Struct, frozen=True, kw_only=True):
    """What one group has done with the message. Times are 0 where they are not known.

    ``attempts`` tells why it failed, attempt by attempt, as far as consumers told and copies of it are still there.
    """

    group: str
    state: GroupStoryState
    text: str
    failures: int = 0
    next_attempt_ms: int = 0
    consumed_ms: int = 0
    is_online: bool = False
    attempts: tuple[Failure, ...] = ()
    deliveries: int = 0  # successful ones that the trace tells of
    members: tuple[str, ...] = ()  # addresses of those that consumed it, from the trace
    redriven_ms: int = 0  # when its dead letter was sent again
    letter: StoredCopy | None = None  # its newest dead letter
    copy_id: str = ""  # id of the message that the letter became
    copy: StoredCopy | None = None
    copy_story: GroupStory | None = None  # what this group has done with that copy
    copy_trace: tuple[TraceRecord, ...] = ()


def story_of(facts: Facts, group: GroupFacts) -> GroupStory:
    """Say what a group did with a message that is stored in its topic, and with what its dead letter became."""
    found = _story_of(facts, group)
    if not group.redriven:
        return found
    copy = group.redriven[-1]
    after = story_of(_facts_of_copy(facts, copy), copy.group)
    found = msgspec.structs.replace(found, copy_id=copy.message_id, copy=copy.place, copy_story=after)
    found = msgspec.structs.replace(found, copy_trace=copy.trace)
    if found.state is not GroupStoryState.REDRIVEN:
        return found
    state = GroupStoryState.CONSUMED if after.state is GroupStoryState.CONSUMED else found.state
    return msgspec.structs.replace(
        found, state=state, text=f"{found.text} That copy: {after.text}", consumed_ms=after.consumed_ms
    )


def _facts_of_copy(facts: Facts, copy: RedrivenCopy) -> Facts:
    return msgspec.structs.replace(
        facts, message_id=copy.message_id, visible=(copy.place,), delayed=(), prepared=(), trace=copy.trace
    )


def _story_of(facts: Facts, group: GroupFacts) -> GroupStory:
    done = _successes(facts.trace, group.group)
    if done:
        return _consumed_by_trace(facts, group, done)
    if group.is_broadcasting:
        text = "Its members broadcast: each keeps its own progress, which brokers do not know."
        return _story(group, GroupStoryState.NOT_KNOWN, text)
    if group.dead:
        return _dead(facts, group)
    if pending := [copy for copy in group.waiting if copy.is_pending]:
        copy = max(pending, key=lambda copy: copy.attempt)
        return _story(
            group,
            GroupStoryState.RETRYING,
            f"Failed {times(copy.attempt)}; comes again at {shown_time(copy.due_ms)}"
            f" ({until(copy.due_ms, facts.now_ms)}).",
            failures=copy.attempt,
            next_attempt_ms=copy.due_ms,
        )
    if group.retries:
        return _in_retry_topic(facts, group)
    return _in_topic(facts, group)


def _consumed_by_trace(facts: Facts, group: GroupFacts, done: Sequence[ConsumeEnded]) -> GroupStory:
    ended = done[-1]
    began = [r for r in facts.trace if isinstance(r, ConsumeBegan) and r.request_id == ended.request_id]
    failures = began[-1].delivery_attempt if began else 0
    tried = f", having failed {times(failures)}" if failures else ""
    members = tuple(dict.fromkeys(each.client_host for each in done if each.client_host))
    often = f" {times(len(done))}" if len(done) > 1 else ""
    by = f"{',' if often else ''} by {_listed(members)}" if members else ""
    last = " the last time at" if often else " at"
    text = f"Consumed{often}{by},{last} {shown_time(ended.time_ms)}{tried};"
    text += f" the listener took {ended.cost_ms} ms (from the trace)."
    if redriven := _redriven(group):
        text += f" {redriven}"
    elif group.dead:
        text += " A dead letter of it is there as well."
    story = _story(group, GroupStoryState.CONSUMED, text, failures=failures, consumed_ms=ended.time_ms)
    return msgspec.structs.replace(story, deliveries=len(done), members=members)


def _dead(facts: Facts, group: GroupFacts) -> GroupStory:
    copy = group.dead[-1]
    tried = f"Given up after {counted(copy.attempt, 'delivery', 'deliveries')}"
    where = f"it lies in {DEAD_LETTER_PREFIX}{group.group} since {shown_time(copy.stored_ms)}"
    text = f"{tried}: {where} ({copy.broker}, queue {copy.queue}, offset {copy.offset})."
    if redriven := _redriven(group):
        text += f" {redriven}"
    return _story(group, GroupStoryState.REDRIVEN if redriven else GroupStoryState.DEAD, text, failures=copy.attempt)


def _redriven(group: GroupFacts) -> str:
    if not group.redriven:
        return ""
    copy = group.redriven[-1].place
    where = f"{copy.topic}, {copy.broker}, queue {copy.queue}, offset {copy.offset}"
    return f"Its dead letter was redriven at {shown_time(copy.stored_ms)}: {where}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _in_retry_topic(facts: Facts, group: GroupFacts) -> GroupStory:
    copy = max(group.retries, key=lambda copy: copy.attempt)
    failed = f"Failed {times(copy.attempt)}"
    if copy.committed is not None and copy.offset < copy.committed:
        text = f"{failed}, then consumed; the last attempt was ready at {shown_time(copy.stored_ms)}."
        return _story(group, GroupStoryState.CONSUMED, text, failures=copy.attempt)
    text = f"{failed}; the next attempt is ready since {shown_time(copy.stored_ms)}{_who_waits(group)}."
    return _story(group, GroupStoryState.RETRYING, text, failures=copy.attempt, next_attempt_ms=copy.stored_ms)


def _in_topic(facts: Facts, group: GroupFacts) -> GroupStory:
    place, reason = facts.visible[-1], mismatch(group.subscription, facts.tags, facts.properties)
    is_passed = group.committed is not None and place.offset < group.committed
    if reason:
        text = f"{'Passed over' if is_passed else 'Will be passed over'}: {reason}."
        return _story(group, GroupStoryState.FILTERED, text)
    if is_passed:
        text = f"Consumed: the group stands at offset {group.committed}, {_behind(group.committed or 0, place.offset)}."
        if group.subscription is None:
            text += " What it subscribes is not known now, so it may have been passed over by a filter."
        return _story(group, GroupStoryState.CONSUMED, text)
    if group.popped is not None:
        return _popped(facts, group, group.popped)
    if group.head is not None and group.head.attempt:
        return _held_up(group, group.head)
    begun = [r for r in facts.trace if isinstance(r, ConsumeBegan) and r.group == group.group]
    if begun:
        text = f"A listener has it since {shown_time(begun[-1].time_ms)} and has not returned."
        return _story(group, GroupStoryState.WAITING, text)
    if group.committed is None:
        text = f"Not consumed: the group has no progress in this queue yet{_who_waits(group)}."
        return _story(group, GroupStoryState.WAITING, text)
    ahead = place.offset - group.committed
    before = f"{counted(ahead, 'message')} before it" if ahead else "it is the next"
    return _story(group, GroupStoryState.WAITING, f"Not consumed yet: {before} in the queue{_who_waits(group)}.")


def _held_up(group: GroupFacts, head: BlockedQueue) -> GroupStory:
    """An orderly member tries it again and again; nothing behind it is consumed before."""
    text = f"Failed {times(head.attempt)}, and holds up its queue: member {head.client_id} tries it again."
    if head.story is not None:
        text += f" The last error was {head.story.newest.line}."
    return _story(group, GroupStoryState.RETRYING, text, failures=head.attempt)


def _popped(facts: Facts, group: GroupFacts, popped: PoppedCopy) -> GroupStory:
    """The group receives messages one by one, so the broker knows this one."""
    if popped.is_settled:
        text = "Acknowledged; an older message of the queue is not, so the committed offset stands before it."
        return _story(group, GroupStoryState.CONSUMED, text)
    failures, until_ms = max(0, popped.attempts - 1), popped.invisible_until_ms
    delivered = f"Delivered {times(popped.attempts)}"
    if until_ms > facts.now_ms:
        text = f"{delivered}; invisible to others until {shown_time(until_ms)} ({until(until_ms, facts.now_ms)})."
        return _story(group, GroupStoryState.IN_FLIGHT, text, failures=failures, next_attempt_ms=until_ms)
    text = f"{delivered}, never acknowledged; the next receiver gets it{_who_waits(group)}."
    return _story(group, GroupStoryState.RETRYING, text, failures=popped.attempts, next_attempt_ms=until_ms)


def _story(
    group: GroupFacts,
    state: GroupStoryState,
    text: str,
    *,
    failures: int = 0,
    next_attempt_ms: int = 0,
    consumed_ms: int = 0,
) -> GroupStory:
    return GroupStory(
        group=group.group,
        state=state,
        text=text,
        failures=failures,
        next_attempt_ms=next_attempt_ms,
        consumed_ms=consumed_ms,
        redriven_ms=group.redriven[-1].place.stored_ms if group.redriven else 0,
        letter=group.dead[-1] if group.dead else None,
        is_online=group.is_online,
        attempts=attempts_of(group),
    )


def attempts_of(group: GroupFacts) -> tuple[Failure, ...]:
    """Every copy tells of the attempt before it, and of the first one; the whole text wins over its beginning."""
    stories = [copy.failure for copy in (*group.waiting, *group.retries, *group.dead) if copy.failure is not None]
    if group.head is not None and group.head.story is not None:
        stories.append(group.head.story)
    found = {story.first.attempt: story.first for story in stories}
    found |= {story.newest.attempt: story.newest for story in stories}
    return tuple(found[attempt] for attempt in sorted(found))


def mismatch(subscription: Subscription | None, tags: str, properties: bytes) -> str:
    """Why a subscription does not want a message; empty when it does, or when that is not known."""
    if subscription is None or subscription.sub_string.strip() in ("", "*"):
        return ""
    expression = subscription.sub_string
    if subscription.expression_type == "TAG":
        wanted = {word.strip() for word in expression.split("||") if word.strip()}
        has = f"its tag {tags!r}" if tags else "it has no tag, and that"
        return "" if tags in wanted else f"{has} is not among those that the group subscribes: {expression}"
    try:
        passes = compile_filter(expression).matches(properties)
    except InvalidFilterError:
        return ""
    return "" if passes else f"its properties do not match the group's filter {expression}"


def _successes(trace: Sequence[TraceRecord], group: str) -> list[ConsumeEnded]:
    groups = {r.request_id: r.group for r in trace if isinstance(r, ConsumeBegan)}
    ended = [r for r in trace if isinstance(r, ConsumeEnded) and r.is_success]
    return [r for r in ended if (r.group or groups.get(r.request_id, "")) == group]


def _behind(committed: int, offset: int) -> str:
    return "just behind it" if committed == offset + 1 else f"{committed - offset - 1} further on"


def _who_waits(group: GroupFacts) -> str:
    return "" if group.is_online else ", and no member of the group is connected"
