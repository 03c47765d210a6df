"""``pyromq group``: consumer groups, who is in them and how far they are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.cluster import DEFAULT_NAMESERVER, NameServerOption, with_admin
from pyromq.cli.output import Column, FormOption, form_for, write_rows

if TYPE_CHECKING:
    from pyromq.aio import Admin

app = typer.Typer(help="Consumer groups: list, lag, describe, reset, delete.", no_args_is_help=True)
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("ls")
def list_groups(nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None) -> None:
    """List the consumer groups of the cluster."""
    names = with_admin(nameserver, lambda admin: admin.groups())
    rows = [{"group": name} for name in sorted(names)]
    write_rows(sys.stdout, form_for(output, sys.stdout), (Column("group", "group"),), rows)


@app.command()
def lag(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="Only this topic.")] = "",
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Show how far a group is behind, queue by queue."""

    async def look(admin: Admin) -> list[dict[str, Any]]:
        progress = await admin.lag(group, topic)
        return [
            {
                "topic": queue.topic,
                "broker": queue.broker,
                "queue": queue.number,
                "committed": held.consumer_offset,
                "end": held.broker_offset,
                "lag": held.broker_offset - held.consumer_offset,
            }
            for queue, held in sorted(progress.items())
        ]

    columns = (
        Column("topic", "topic"),
        Column("broker", "broker"),
        Column("queue", "queue", right=True),
        Column("committed", "committed", right=True),
        Column("end", "end", right=True),
        Column("lag", "lag", right=True),
    )
    write_rows(sys.stdout, form_for(output, sys.stdout), columns, with_admin(nameserver, look))


@app.command()
def describe(
    group: GroupArgument, nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None
) -> None:
    """Show the connected members of a group and what they subscribe to."""

    async def look(admin: Admin) -> list[dict[str, Any]]:
        found = await admin.group_connections(group)
        subscriptions = ", ".join(f"{name} ({each.sub_string})" for name, each in found.subscription_table.items())
        disagreeing = set(getattr(found, "disagreeing_client_ids", None) or ())
        return [
            {
                "client": member.client_id,
                "address": member.client_addr,
                "language": member.language,
                "subscribes_to": subscriptions,
                "agrees": "no" if member.client_id in disagreeing else "yes",
            }
            for member in found.connection_set
        ]

    columns = (
        Column("client", "client"),
        Column("address", "address"),
        Column("language", "language"),
        Column("subscribes_to", "subscribes to"),
        Column("agrees", "agrees with the others", styles={"no": "bold red"}),
    )
    write_rows(sys.stdout, form_for(output, sys.stdout), columns, with_admin(nameserver, look))


@app.command()
def delete(
    group: GroupArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete a group and its progress."""
    if not yes:
        typer.confirm(f"Delete group {group} and its progress?", abort=True)
    with_admin(nameserver, lambda admin: admin.delete_group(group))
    typer.echo(f"group {group} is deleted", err=True)
