"""``pyromq tx``: transactions that are neither committed nor rolled back."""

from __future__ import annotations

from typing import Annotated

import click

from pyromq.cli import clock
from pyromq.cli.connection import CLUSTER, ClusterFlags
from pyromq.cli.declared import Commands, Option
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import Column, Form
from pyromq.cli.output.times import show_time
from pyromq.cli.output.watching import watched
from pyromq.wording import shown_span

app = Commands(help="Transactions: list open ones.")

_COLUMNS = (
    Column("born_ms", "sent", show=show_time, whole=True),
    Column(
        "born_ms",
        "open for",
        show=lambda at: shown_span(max(0, clock.now_ms() - at)),
        whole=True,
        only=Form.TABLE,
    ),
    Column("topic", "topic"),
    Column("producer_group", "producers"),
    Column("message_id", "id"),
    Column("keys", "keys", optional=True),
    Column("checks", "checks", right=True),
)


@app.command("ls")
@watched
def list_open(
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Only this topic.")] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """List prepared messages that are neither committed nor rolled back, oldest first."""
    with progress("reading prepared messages"):
        found = cluster.ask(lambda admin: admin.transactions.list(topic))
    cluster.write_structs(_COLUMNS, found)
    if not found:
        click.echo("no transaction is open", err=True)
