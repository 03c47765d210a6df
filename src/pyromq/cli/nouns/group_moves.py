"""``pyromq group reset`` and ``park``: moving a group, or one of its queues past the message at its head."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli import clock
from pyromq.cli.connection import CLUSTER, ClusterFlags, GroupArgument
from pyromq.cli.declared import Option
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, write_structs
from pyromq.cli.output.times import parse_time
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.operate.consumers.blocked_queues import Parked
    from pyromq.operate.offsets import OffsetMove


def parse_queue(text: str, topic: str) -> QueueId:
    """``broker-a:3`` of a topic. Raises BadParameter."""
    from pyromq.aio import QueueId

    broker, colon, number = text.rpartition(":")
    if not (broker and colon and number.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a queue: write BROKER:ID, such as broker-a:3")
    return QueueId(topic, broker, int(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """Where a group is moved to; exactly one field is given."""

    to_time: Annotated[
        str, Option(help="To the first message stored at this time or later: 2026-11-15T07:30, 2h ago, today.")
    ] = ""
    to_offset: Annotated[int | None, Option(min=0, help="To this offset.")] = None
    to_begin: Annotated[bool, Option("--to-begin", help="To the first message that is still stored.")] = False
    to_end: Annotated[bool, Option("--to-end", help="To the end: messages stored so far are skipped.")] = False

    def time_ms(self) -> int:
        """Target as ``admin.offsets.plan_reset`` takes it. Raises click.BadParameter unless one field is given."""
        from pyromq.operate.offsets import EARLIEST, LATEST

        if sum((bool(self.to_time), self.to_offset is not None, self.to_begin, self.to_end)) != 1:
            raise click.BadParameter("give one of --to-time, --to-offset, --to-begin, --to-end")
        if self.to_time:
            return parse_time(self.to_time, clock.now_ms())
        return EARLIEST if self.to_begin else LATEST


def reset(
    group: GroupArgument,
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Topic to move in.")],
    *,
    to: ResetTarget,
    queue: Annotated[str, Option(metavar="BROKER:ID", help="Only this queue.")] = "",
    preview: Annotated[bool, Option("--preview", help="Only show what would happen.")] = False,
    yes: YesOption = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Move a group to another place in a topic; connected members follow at once."""
    to_ms = to.time_ms()
    chosen = parse_queue(queue, topic) if queue else None

    from pyromq.operate.offsets import MoveRow

    async def plan(admin: Admin) -> list[OffsetMove]:
        await admin.groups.require(group)
        return await admin.offsets.plan_reset(group, topic, to_ms=to_ms, offset=to.to_offset, queue=chosen)

    moves = cluster.ask(plan)
    form = cluster.form
    write_structs(sys.stdout, form, _MOVE_COLUMNS, [MoveRow.of(move, topic) for move in moves])
    if preview:
        return
    again, passed = sum(move.delivered_again for move in moves), sum(move.skipped for move in moves)
    effect = f"{counted(again, 'message')} will be delivered again, {passed} will be skipped"
    confirm(f"Move group {group}? {effect}.", yes)
    cluster.ask(lambda admin: admin.offsets.carry_out(group, moves))
    click.echo(f"group {group} was moved: {effect}", err=True)


_MOVE_COLUMNS = (
    Column("broker", "broker"),
    Column("queue", "queue", right=True),
    Column("old", "old", right=True),
    Column("new", "new", right=True),
    Column("difference", "difference", right=True, show=lambda count: f"{count:+d}" if count else "0"),
    Column("delivered_again", "delivered again", right=True),
    Column("skipped", "skipped", right=True),
    Column("left", "left then", right=True, optional=True),
)


def park(
    group: GroupArgument,
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Topic of the queue.")],
    queue: Annotated[str, Option(metavar="BROKER:ID", help="Queue that is held up.")],
    offset: Annotated[int | None, Option(min=0, help="Only if this offset is at the head of the queue.")] = None,
    yes: YesOption = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Move the message at the head of a queue to the dead letters, so that the queue goes on with the next one.

    A member that is working on the message may still finish it: then it is both consumed and a dead letter.
    """
    from msgspec.structs import asdict

    from pyromq.operate.offsets import MoveRow

    chosen = parse_queue(queue, topic)
    message, move = cluster.ask(lambda admin: admin.groups.plan_park(group, chosen, offset))
    age = shown_span(clock.now_ms() - message.stored_ms)
    click.echo(
        f"head of queue {queue} of {topic}: offset {move.new - 1}, message {message.message_id}, {age} old", err=True
    )
    confirm(f"Move this message to the dead letters of {group}?", yes)
    parked: Parked = cluster.ask(lambda admin: admin.groups.park(group, chosen, move.new - 1))
    ids = {"message_id": parked.message_id, "dead_letter_topic": parked.dead_letter_topic}
    row = {**asdict(MoveRow.of(parked.move, topic)), **ids}
    columns = (
        Column("message_id", "message"),
        Column("dead_letter_topic", "is now in"),
        Column("new", "queue continues at"),
    )
    cluster.write_rows(columns, [row])
