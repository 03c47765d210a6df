"""Work: the items of each kind of job, and how each is attempted. One function for each specification.

Reading goes on while a job runs: what is read are messages and offsets that were there when it began. An item is
confirmed when a server said so. When no response came, the work looks whether it was done all the same, and says
unknown if it cannot find out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from pyromq.errors import ConfigError, GroupNotFoundError, MQError, NotFoundError, ProtocolError, TopicNotFoundError
from pyromq.model.message import SendStatus
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin
from pyromq.operate.dead_letters import RedriveAttempt
from pyromq.operate.jobs.outcomes import ItemResult, Outcome
from pyromq.operate.jobs.run import ItemAttempt
from pyromq.operate.jobs.specs import CopyTopic, Delete, JobSpec, Move, Redrive, Resend, ResetOffsets
from pyromq.operate.offsets import OffsetMove
from pyromq.operate.reading.search import MessageQuery, SearchFilter
from pyromq.operate.resend.edits import LetterEdit
from pyromq.operate.resend.engine import Resender, copy_of, leaves_doubt
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Outgoing


def attempts_of(admin: Admin, spec: JobSpec, *, is_continued: bool = False) -> AsyncIterator[ItemAttempt]:
    """Return the items of a job; with ``is_continued`` a job before it may have done some under the same ``run_id``."""
    match spec:
        case Redrive():
            return _redrives(admin, spec)
        case CopyTopic():
            return _copies(admin, spec, is_continued)
        case Resend():
            return _resends(admin, spec, is_continued)
        case ResetOffsets():
            return _moves(admin, spec)
        case Delete():
            return _deletions(admin, spec)


# --- messages sent again -------------------------------------------------------------------------------------------


async def _redrives(admin: Admin, spec: Redrive) -> AsyncIterator[ItemAttempt]:
    seen: set[str] = set()
    async for attempt in admin.dead_letters.attempts(spec.group, spec.which, only_group=spec.only_group):
        place = attempt.letter.offset_message_id
        if spec.letters:
            seen.add(place)
        run = partial(_redrive, attempt, spec.edit)
        yield ItemAttempt(place, partial(run, dry_run=False), partial(run, dry_run=True))
    for missing in sorted(set(spec.letters) - seen):  # what was chosen and is not told of would seem to be done
        yield _fixed(missing, "it was redriven before, or is no longer stored", is_problem=False)


async def _redrive(attempt: RedriveAttempt, edit: LetterEdit | None, *, dry_run: bool) -> ItemResult:
    try:
        return result_of(await attempt.carry_out(dry_run=dry_run, edit=edit))
    except MQError as error:  # it was sent; how far the redrive went could not be kept
        text = f"whether it was sent is not known: {error}"
        return ItemResult(item=attempt.letter.offset_message_id, outcome=Outcome.UNKNOWN, text=text, is_problem=True)


async def _copies(admin: Admin, spec: CopyTopic, is_continued: bool) -> AsyncIterator[ItemAttempt]:
    if spec.topic == spec.to_topic:
        raise ConfigError(f"topic {spec.topic} cannot be copied to itself: the copy would never end")
    query = MessageQuery(topic=spec.topic, tag=spec.tag, sql=spec.sql, begin_ms=spec.begin_ms, end_ms=spec.end_ms)
    wanted, count, resender = SearchFilter(query), 0, Resender(admin.client, admin.messages)
    await admin.topics.route(spec.to_topic)
    for queue, end in (await admin.offsets.ends(spec.topic)).items():
        held = await admin.offsets.range(queue)
        begin = max(held.min_offset, await admin.offsets.at(queue, spec.begin_ms)) if spec.begin_ms else held.min_offset
        async for message in admin.messages.walk(queue, begin, end):
            if message.stored_ms > spec.end_ms:
                break
            if not wanted.takes(message):
                continue
            if spec.count_max and count >= spec.count_max:
                return
            count += 1
            copy = copy_of(admin.client, message, topic=spec.to_topic, run_id=spec.run_id, is_checked=is_continued)
            yield _send(resender, copy)


async def _resends(admin: Admin, spec: Resend, is_continued: bool) -> AsyncIterator[ItemAttempt]:
    resender = Resender(admin.client, admin.messages)
    for item in dict.fromkeys(spec.messages):
        try:
            message = await admin.messages.by_offset_id(item)
        except (NotFoundError, ProtocolError) as error:
            yield _fixed(item, str(error), is_problem=True)
            continue
        where = {"topic": spec.to_topic, "group": spec.to_group}
        yield _send(resender, copy_of(admin.client, message, run_id=spec.run_id, is_checked=is_continued, **where))


def _send(resender: Resender, copy: Outgoing) -> ItemAttempt:
    async def run(*, dry_run: bool) -> ItemResult:
        return result_of(await resender.resend(copy, dry_run=dry_run))

    return ItemAttempt(copy.source.offset_message_id, partial(run, dry_run=False), partial(run, dry_run=True))


def result_of(done: ItemOutcome) -> ItemResult:
    """Return the result of a resent item; where a broker has the copy it is confirmed, however safely that is."""
    outcome, text = _RESULTS[done.status]
    text = done.error or text.format(done)
    if done.status is ItemStatus.SENT and done.stored is not SendStatus.SEND_OK:
        text = "its response got lost, and the copy was found in its topic"
        if done.stored is not None:
            text = f"sent; {done.stored.name}: the broker has it, but not as safely as its settings demand"
    return ItemResult(
        item=done.offset_message_id,
        outcome=outcome,
        text=text,
        target=f"{done.to_topic} {done.new_message_id}",
        is_problem=done.status.is_problem,
    )


_RESULTS = {
    ItemStatus.SENT: (Outcome.CONFIRMED, "sent"),
    ItemStatus.WOULD_SEND: (Outcome.NOT_ATTEMPTED, "would be sent to {0.to_topic}"),
    ItemStatus.SENT_BEFORE: (Outcome.UNCHANGED, "it was sent before"),
    ItemStatus.SAME_MESSAGE: (Outcome.UNCHANGED, "its message has an older letter, {0.same_as}, which stands for it"),
    ItemStatus.HELD_BACK: (Outcome.NOT_ATTEMPTED, "it was held back"),
    ItemStatus.UNKNOWN: (Outcome.UNKNOWN, ""),
    ItemStatus.FAILED: (Outcome.UNCHANGED, ""),
}


# --- offsets -------------------------------------------------------------------------------------------------------


async def _moves(admin: Admin, spec: ResetOffsets) -> AsyncIterator[ItemAttempt]:
    await admin.groups.require(spec.group)
    brokers = (await admin.brokers.cluster()).broker_addr_table
    for move in spec.moves:
        if move.broker not in brokers:  # a name must not become an address that is connected to
            raise ConfigError(f"name servers know no broker {move.broker[:80]}")
        item = f"{move.topic}@{move.broker}:{move.queue}"
        yield ItemAttempt(
            item,
            partial(_move, admin, spec, move, item, dry_run=False),
            partial(_move, admin, spec, move, item, dry_run=True),
        )


async def _move(admin: Admin, spec: ResetOffsets, move: Move, item: str, *, dry_run: bool) -> ItemResult:
    queue = QueueId(admin.client.wire_name(move.topic), move.broker, move.queue)
    target = str(move.new)
    try:
        now = await admin.offsets.committed(spec.group, queue)
        undo = "" if now is None else str(now)
        if now == move.new:
            return ItemResult(item=item, outcome=Outcome.UNCHANGED, text="it stands there already", target=target)
        if now != move.old and not spec.is_forced:
            text = f"it stands at {now}, not at {move.old} as the preview showed: it was left alone"
            return ItemResult(item=item, outcome=Outcome.UNCHANGED, text=text, target=target, is_problem=True)
        if dry_run:
            text = f"would move from {now} to {move.new}"
            return ItemResult(item=item, outcome=Outcome.NOT_ATTEMPTED, text=text, target=target, undo=undo)
        await admin.offsets.carry_out(spec.group, [OffsetMove(queue, now, move.new)])
    except MQError as error:
        if not leaves_doubt(error):
            return ItemResult(item=item, outcome=Outcome.UNCHANGED, text=str(error), target=target, is_problem=True)
        return ItemResult(item=item, outcome=Outcome.UNKNOWN, text=str(error), target=target, is_problem=True)
    return await _verified(admin, spec.group, OffsetMove(queue, now, move.new), item, undo)


async def _verified(admin: Admin, group: str, move: OffsetMove, item: str, undo: str) -> ItemResult:
    """Read back: it stands there, or further on by what its members consumed since.

    A group that was moved back and stands where it was is a doubt: it consumed all that again, or the move was lost.
    """
    try:
        now = await admin.offsets.committed(group, move.queue)
    except MQError as error:
        text = f"moved, but it could not be read back: {error}"
        return ItemResult(
            item=item, outcome=Outcome.UNKNOWN, text=text, target=str(move.new), undo=undo, is_problem=True
        )
    is_back = move.old is not None and move.new < move.old
    if now is not None and now >= move.new and not (is_back and now >= (move.old or 0)):
        text = f"from {undo or 'nowhere'} to {move.new}" + ("" if now == move.new else f"; it stands at {now} by now")
        return ItemResult(item=item, outcome=Outcome.CONFIRMED, text=text, target=str(move.new), undo=undo)
    text = f"the broker took it, but the group stands at {now}"
    return ItemResult(item=item, outcome=Outcome.UNKNOWN, text=text, target=str(move.new), undo=undo, is_problem=True)


# --- deletions -----------------------------------------------------------------------------------------------------


async def _deletions(admin: Admin, spec: Delete) -> AsyncIterator[ItemAttempt]:
    delete: Callable[[str], Awaitable[None]] = admin.topics.delete if spec.what == "topic" else admin.groups.delete
    for name in dict.fromkeys(spec.names):
        yield ItemAttempt(
            name,
            partial(_delete, admin, spec.what, name, delete),
            partial(_would_delete, admin, spec.what, name),
        )


async def _delete(admin: Admin, what: str, name: str, delete: Callable[[str], Awaitable[None]]) -> ItemResult:
    try:
        if not await _exists(admin, what, name):
            return ItemResult(item=name, outcome=Outcome.UNCHANGED, text="it does not exist")
    except MQError as error:
        return ItemResult(item=name, outcome=Outcome.UNCHANGED, text=str(error), is_problem=True)
    try:
        await delete(name)
        if await _exists(admin, what, name):
            text = "the brokers took it, but it is still listed: brokers that were away may bring it back"
            return ItemResult(item=name, outcome=Outcome.UNKNOWN, text=text, is_problem=True)
    except MQError as error:  # all brokers were asked: some may have deleted it
        text = f"{error}; other brokers may have deleted it"
        return ItemResult(item=name, outcome=Outcome.UNKNOWN, text=text, is_problem=True)
    return ItemResult(item=name, outcome=Outcome.CONFIRMED, text="deleted")


async def _would_delete(admin: Admin, what: str, name: str) -> ItemResult:
    if not await _exists(admin, what, name):
        return ItemResult(item=name, outcome=Outcome.UNCHANGED, text="it does not exist")
    return ItemResult(item=name, outcome=Outcome.NOT_ATTEMPTED, text="would be deleted")


async def _exists(admin: Admin, what: str, name: str) -> bool:
    try:
        await (admin.topics.route(name) if what == "topic" else admin.groups.require(name))
    except (TopicNotFoundError, GroupNotFoundError):
        return False
    return True


def _fixed(item: str, text: str, *, is_problem: bool) -> ItemAttempt:
    """An item with nothing to attempt."""

    async def tell() -> ItemResult:
        return ItemResult(item=item, outcome=Outcome.UNCHANGED, text=text, is_problem=is_problem)

    return ItemAttempt(item, tell, tell)
