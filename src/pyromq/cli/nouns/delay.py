"""``pyromq delay``: messages that wait for their time."""

from __future__ import annotations

from typing import Annotated

import click

from pyromq.cli import clock
from pyromq.cli.connection import CLUSTER, DEFAULT_NAMESERVER, ClusterFlags, NameServerOption, with_admin
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.output.prompts import YesOption, confirm, progress
from pyromq.cli.output.tables import Column, Form, shown
from pyromq.cli.output.times import show_moment, show_time
from pyromq.cli.output.watching import watched
from pyromq.wording import shown_span

app = Commands(help="Delayed messages: list, cancel.")
TopicOption = Annotated[str, Option("--topic", "-t", complete="topics", help="Only this topic.")]

_COLUMNS = (
    Column("due_ms", "due", show=show_time, whole=True),
    Column("due_ms", "in", show=lambda at: shown_span(max(0, at - clock.now_ms())), whole=True, only=Form.TABLE),
    Column("topic", "topic"),
    Column("message_id", "id"),
    Column("keys", "keys", optional=True),
    Column("level", "level", right=True, show=lambda level: str(level) if level else "", optional=True),
    Column("group", "retry of", optional=True),
)


@app.command("ls")
@watched
def list_delayed(
    topic: TopicOption = "",
    count: Annotated[
        int, Option("--max", "-l", min=1, help="List at most this many per broker and kind of delay.")
    ] = 1_000,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """List messages that are not due yet, soonest first, also failed ones that wait for their next attempt."""
    with progress("reading delayed messages"):
        found = cluster.ask(lambda admin: admin.delays.list(topic, count_max=count))
    cluster.write_structs(_COLUMNS, found)
    if not found:
        click.echo("no message is delayed", err=True)


@app.command()
def cancel(
    message_id: Annotated[str, Argument(metavar="ID", help="The id of the message.")] = "",
    handle: Annotated[str, Option(help="The recall handle from its receipt, instead of an id.")] = "",
    topic: TopicOption = "",
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Cancel a delayed message, so that it is never delivered."""
    if bool(message_id) == bool(handle):
        raise click.BadParameter("give either the id of a message or --handle")
    if handle:
        confirm("Cancel the message of this handle? It will never be delivered.", yes)
        cancelled = with_admin(nameserver, lambda admin: admin.delays.recall(handle))
    else:
        found = with_admin(nameserver, lambda admin: admin.delays.find(message_id, topic))
        click.echo(f"message {message_id} to topic {shown(found.topic)}, due {show_moment(found.due_ms)}", err=True)
        confirm("Cancel it? It will never be delivered.", yes)
        with_admin(nameserver, lambda admin: admin.delays.recall(found.handle))
        cancelled = message_id
    click.echo(f"message {cancelled} is cancelled", err=True)
