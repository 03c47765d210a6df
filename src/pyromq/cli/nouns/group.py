"""``pyromq group``: consumer groups, their members, progress and lag, what holds them up, and moving them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import clock
from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, with_admin
from pyromq.cli.nouns.group_view import HEAD_COLUMNS, LAG_COLUMNS, describe_group, lag_row, show_group
from pyromq.cli.option_records import unfolded
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, Form, FormOption, form_for, write_json, write_rows
from pyromq.cli.output.times import parse_time
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.client.admin.blocked_queues import Parked
    from pyromq.client.admin.offsets import OffsetMove

app = typer.Typer(help="Consumer groups: list, create, lag, describe, reset, park, delete.", no_args_is_help=True)
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP")]
QueueOption = Annotated[str, typer.Option(metavar="BROKER:ID", help="Only this queue.")]


def parse_queue(text: str, topic: str) -> QueueId:
    """``broker-a:3`` of a topic. Raises BadParameter."""
    from pyromq.aio import QueueId

    broker, colon, number = text.rpartition(":")
    if not (broker and colon and number.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not a queue: write BROKER:ID, such as broker-a:3")
    return QueueId(topic, broker, int(number))


@app.command("ls")
def list_groups(nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None) -> None:
    """List the consumer groups of the cluster."""
    names = with_admin(nameserver, lambda admin: admin.groups())
    rows = [{"group": name} for name in sorted(names)]
    write_rows(sys.stdout, form_for(output, sys.stdout), (Column("group", "group"),), rows)


@app.command()
def create(
    group: GroupArgument,
    retries: Annotated[int | None, typer.Option(min=0, help="Retries before a message becomes a dead letter.")] = None,
    delays: Annotated[
        str | None, typer.Option(help="Delay before each retry; the last one repeats: '1s 10s 1m'.")
    ] = None,
    retry_queues: Annotated[int | None, typer.Option(min=0, help="Queues of the retry topic; 0: no retries.")] = None,
    broadcast: Annotated[bool | None, typer.Option(help="Whether members may each consume all messages.")] = None,
    enabled: Annotated[bool | None, typer.Option(help="Whether the group may consume at all.")] = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Create a group on every master, or change the settings that are given; the others stay as they are."""
    import msgspec

    from pyromq.errors import ConfigError
    from pyromq.model.topic import GroupConfig
    from pyromq.store.settings import parse_ladder

    said = {
        "retry_max_times": retries,
        "retry_queue_nums": retry_queues,
        "consume_broadcast_enable": broadcast,
        "consume_enable": enabled,
    }
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if delays is not None:
        try:
            ladder = {"customizedRetryPolicy": {"next": list(parse_ladder(delays))}} if delays else {}
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from error
        changes["group_retry_policy"] = {"type": "CUSTOMIZED", **ladder}

    async def put(admin: Admin) -> GroupConfig:
        known = await admin.group_config(group) if group in await admin.groups() else GroupConfig(group_name=group)
        config = msgspec.structs.replace(known, group_name=group, **changes)
        await admin.create_group(config)
        return config

    config = with_admin(nameserver, put)
    row = {
        "group": group,
        "retries": config.retry_max_times,
        "delays": _shown_ladder(config.group_retry_policy),
        "retry_queues": config.retry_queue_nums,
        "broadcast": config.consume_broadcast_enable,
        "enabled": config.consume_enable,
    }
    columns = tuple(Column(name, name.replace("_", " ")) for name in row)
    write_rows(sys.stdout, form_for(output, sys.stdout), columns, [row])


def _shown_ladder(policy: dict[str, Any]) -> str:
    steps = (policy.get("customizedRetryPolicy") or {}).get("next") or []
    return ", ".join(shown_span(step) for step in steps) or "broker's default"


@app.command()
def lag(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="Only this topic.")] = "",
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Show how far a group is behind, queue by queue."""
    progress = with_admin(nameserver, lambda admin: admin.lag(group, topic))
    rows = [lag_row(queue, held) for queue, held in sorted(progress.items())]
    write_rows(sys.stdout, form_for(output, sys.stdout), LAG_COLUMNS, rows)


@app.command()
def describe(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="Only queues of this topic.")] = "",
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Show the stacks of listeners that hold a queue up.")
    ] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Show the members of a group, its queues, and the message at the head of each queue."""
    form = form_for(output, sys.stdout)
    told = with_admin(nameserver, lambda admin: describe_group(admin, group, topic))
    if form is Form.TABLE:
        show_group(sys.stdout, told, stacks=stacks)
    elif form is Form.CSV:
        write_rows(sys.stdout, form, HEAD_COLUMNS, told["queues"])
    else:
        write_json(sys.stdout, told, indent=2 if form is Form.JSON else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """Where a group is moved to; exactly one field is given."""

    to_time: Annotated[
        str, typer.Option(help="To the first message stored at this time or later: 2026-11-15T07:30, 2h ago.")
    ] = ""
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None
    to_begin: Annotated[bool, typer.Option("--to-begin", help="To the first message that is still stored.")] = False
    to_end: Annotated[bool, typer.Option("--to-end", help="To the end: messages stored so far are skipped.")] = False

    def time_ms(self) -> int:
        """As ``Admin.plan_reset`` takes it. Raises typer.BadParameter unless one field is given."""
        from pyromq.client.admin.offsets import EARLIEST, LATEST

        if sum((bool(self.to_time), self.to_offset is not None, self.to_begin, self.to_end)) != 1:
            raise typer.BadParameter("give one of --to-time, --to-offset, --to-begin, --to-end")
        if self.to_time:
            return parse_time(self.to_time, clock.now_ms())
        return EARLIEST if self.to_begin else LATEST


@app.command()
@unfolded
def reset(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="Topic to move in.")],
    *,
    to: ResetTarget,
    queue: QueueOption = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would happen.")] = False,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Move a group to another place in a topic; connected members follow at once."""
    to_ms = to.time_ms()
    chosen = parse_queue(queue, topic) if queue else None

    async def plan(admin: Admin) -> list[OffsetMove]:
        await admin.require_group(group)
        return await admin.plan_reset(group, topic, to_ms=to_ms, offset=to.to_offset, queue=chosen)

    moves = with_admin(nameserver, plan)
    form = form_for(output, sys.stdout)
    write_rows(sys.stdout, form, _MOVE_COLUMNS, map(_move_row, moves))
    if preview:
        return
    again = sum(-move.difference for move in moves if move.difference < 0)
    passed = sum(move.difference for move in moves if move.difference > 0)
    effect = f"{counted(again, 'message')} will be delivered again, {passed} will be skipped"
    confirm(f"Move group {group}? {effect}.", yes)
    with_admin(nameserver, lambda admin: admin.carry_out(group, moves))
    typer.echo(f"group {group} was moved: {effect}", err=True)


_MOVE_COLUMNS = (
    Column("broker", "broker"),
    Column("queue", "queue", right=True),
    Column("old", "old", right=True),
    Column("new", "new", right=True),
    Column("difference", "difference", right=True, show=lambda count: f"{count:+d}" if count else "0"),
)


def _move_row(move: OffsetMove) -> dict[str, Any]:
    return {
        "topic": move.queue.topic,
        "broker": move.queue.broker,
        "queue": move.queue.number,
        "old": move.old,
        "new": move.new,
        "difference": move.difference,
    }


@app.command()
def park(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="Topic of the queue.")],
    queue: Annotated[str, typer.Option(metavar="BROKER:ID", help="Queue that is held up.")],
    offset: Annotated[int | None, typer.Option(min=0, help="Only if this offset is at the head of the queue.")] = None,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Move the message at the head of a queue to the dead letters, so that the queue goes on with the next one.

    A member that is working on the message may still finish it: then it is both consumed and a dead letter.
    """
    chosen = parse_queue(queue, topic)
    message, move = with_admin(nameserver, lambda admin: admin.plan_park(group, chosen, offset))
    age = shown_span(clock.now_ms() - message.stored_ms)
    typer.echo(
        f"head of queue {queue} of {topic}: offset {move.new - 1}, message {message.message_id}, {age} old", err=True
    )
    confirm(f"Move this message to the dead letters of {group}?", yes)
    parked: Parked = with_admin(nameserver, lambda admin: admin.park(group, chosen, move.new - 1))
    row = {**_move_row(parked.move), "message_id": parked.message_id, "dead_letter_topic": parked.dead_letter_topic}
    columns = (
        Column("message_id", "message"),
        Column("dead_letter_topic", "is now in"),
        Column("new", "queue continues at"),
    )
    write_rows(sys.stdout, form_for(output, sys.stdout), columns, [row])


@app.command()
def delete(
    group: GroupArgument,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete a group and its progress."""
    confirm(f"Delete group {group} and its progress?", yes)
    with_admin(nameserver, lambda admin: admin.delete_group(group))
    typer.echo(f"group {group} was deleted", err=True)
