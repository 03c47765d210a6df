"""``pyromq dlq``: dead letters, the messages a group gave up on, and sending them again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, GroupArgument, NameServerOption, with_admin
from pyromq.cli.declared import Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import DryRunOption, counting, progress
from pyromq.cli.output.tables import Column, FormOption, form_for, write_rows
from pyromq.cli.output.times import show_time
from pyromq.cli.output.watching import watched

if TYPE_CHECKING:
    from pyromq.aio import Admin
    from pyromq.client.admin.dead_letters import DeadLetter, Redriven

app = Commands(help="Dead letters: list, redrive.")

_COLUMNS = (
    Column("dead_ms", "dead since", show=show_time, whole=True),
    Column("topic", "topic"),
    Column("message_id", "id"),
    Column("keys", "keys", optional=True),
    Column("tags", "tags", optional=True),
    Column("attempts", "deliveries", right=True),
    Column(
        "is_redriven",
        "redriven",
        show=lambda is_redriven: "yes" if is_redriven else "",
        styles={"yes": "green"},
        optional=True,
    ),
    Column("reason", "why", optional=True),
)
_REDRIVEN = (
    Column("message_id", "dead letter"),
    Column("keys", "keys", optional=True),
    Column("status", "status", styles={"sent": "green", "failed": "bold red"}, whole=True),
    Column("to_topic", "to"),
    Column("new_message_id", "new id"),
    Column("error", "why", optional=True),
)


@app.command("ls")
@watched
def list_letters(
    group: GroupArgument,
    count: Annotated[int, Option("--max", min=1, help="List at most this many, the newest ones.")] = 100,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """List the dead letters of a group, oldest first."""

    with progress(f"reading dead letters of {group}"):
        found = with_admin(nameserver, lambda admin: admin.dead_letters(group, count_max=count))
    write_rows(sys.stdout, form_for(output, sys.stdout), _COLUMNS, map(_letter_row, found))
    if not found:
        click.echo(f"group {group} has no dead letters", err=True)


@app.command()
def redrive(
    group: GroupArgument,
    key: Annotated[list[str] | None, Option(help="Only letters with this key; may be repeated.")] = None,
    tag: Annotated[list[str] | None, Option(help="Only letters with this tag; may be repeated.")] = None,
    dry_run: DryRunOption = False,
    count: Annotated[int, Option("--max", min=0, help="Send at most this many; 0: no limit.")] = 0,
    only_group: Annotated[
        bool, Option("--only-group", help="Send to this group alone, not to every group of the topic.")
    ] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Send dead letters to the topic they came from, each message once, however many letters it left."""

    async def work(admin: Admin) -> list[Redriven]:
        found = []
        with counting("redriving", total=count or None) as tell:
            async for each in admin.redriving(
                group, keys=key or (), tags=tag or (), dry_run=dry_run, count_max=count, only_group=only_group
            ):
                found.append(each)
                tell(len(found))
        return found

    found = with_admin(nameserver, work)
    write_rows(sys.stdout, form_for(output, sys.stdout), _REDRIVEN, map(_redriven_row, found))
    if not found:
        click.echo(f"group {group} has no dead letters left to redrive", err=True)
    if any(each.error for each in found):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


def _letter_row(letter: DeadLetter) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(letter), "keys": " ".join(letter.keys)}


def _redriven_row(each: Redriven) -> dict[str, Any]:
    letter = each.letter
    return {
        "message_id": letter.message_id,
        "keys": " ".join(letter.keys),
        "tags": letter.tags,
        "broker": letter.broker,
        "queue": letter.queue,
        "offset": letter.offset,
        "status": each.status.value,
        "to_topic": each.to_topic,
        "new_message_id": each.message_id,
        "error": each.error or (f"the message has an older letter, {each.same_as}" if each.same_as else ""),
    }
