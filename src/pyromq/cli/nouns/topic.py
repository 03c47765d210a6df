"""``pyromq topic``: the topics of a cluster, their queues and what these hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, TopicArgument, with_admin
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, FormOption, form_for, write_rows
from pyromq.cli.output.times import show_time

if TYPE_CHECKING:
    from pyromq.aio import Admin

_NAMES_MAX = 5  # of one queue

app = typer.Typer(help="Topics: list, create, describe, delete.", no_args_is_help=True)


@app.command("ls")
def list_topics(nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None) -> None:
    """List the topics of the cluster."""
    names = with_admin(nameserver, lambda admin: admin.topics())
    rows = [{"topic": name} for name in sorted(names)]
    write_rows(sys.stdout, form_for(output, sys.stdout), (Column("topic", "topic"),), rows)


@app.command()
def create(
    topic: TopicArgument,
    queues: Annotated[int, typer.Option(min=1, max=65_536, help="Queues on each broker.")] = 8,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Create a topic on every master, or change its number of queues."""
    with_admin(nameserver, lambda admin: admin.create_topic(topic, queues=queues))
    typer.echo(f"topic {topic} has {queues} queues", err=True)


@app.command()
def describe(
    topic: TopicArgument, nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None
) -> None:
    """Show the queues of a topic: where they are, what they hold, and what their newest messages say they are."""

    async def look(admin: Admin) -> list[dict[str, Any]]:
        stats = await admin.topic_stats(topic)
        seen = await admin.schemas(topic)
        return [
            {
                "broker": queue.broker,
                "queue": queue.number,
                "first": held.min_offset,
                "end": held.max_offset,
                "messages": held.max_offset - held.min_offset,
                "last_stored_ms": held.last_update_timestamp or None,
                "content_types": _names(each.content_type for each in seen.get(queue, ())),
                "schemas": _names(each.schema for each in seen.get(queue, ())),
            }
            for queue, held in sorted(stats.items())
        ]

    columns = (
        Column("broker", "broker"),
        Column("queue", "queue", right=True),
        Column("first", "first", right=True),
        Column("end", "end", right=True),
        Column("messages", "messages", right=True),
        Column("last_stored_ms", "last stored", show=show_time, whole=True),
        Column("content_types", "content types", optional=True),
        Column("schemas", "schemas", optional=True),
    )
    write_rows(sys.stdout, form_for(output, sys.stdout), columns, with_admin(nameserver, look))


def _names(given: Iterable[str]) -> str:
    """The most frequent first, each once."""
    names = [name for name in dict.fromkeys(given) if name]
    return ", ".join([*names[:_NAMES_MAX], *(["…"] if len(names) > _NAMES_MAX else [])])


@app.command()
def delete(
    topic: TopicArgument,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete a topic with its messages and the progress of groups in it."""
    confirm(f"Delete topic {topic} and everything in it?", yes)
    with_admin(nameserver, lambda admin: admin.delete_topic(topic))
    typer.echo(f"topic {topic} was deleted", err=True)
