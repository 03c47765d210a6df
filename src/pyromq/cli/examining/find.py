"""``pyromq find``: one text, looked for in the whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.connection import CLUSTER, ClusterFlags
from pyromq.cli.declared import Argument, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import Column

if TYPE_CHECKING:
    from pyromq.operate.reading.cluster_search import ClusterHit

_COLUMNS = (
    Column("kind", "what", whole=True),
    Column("title", "name"),
    Column("text", "about it", optional=True),
)


def find(
    text: Annotated[str, Argument(metavar="TEXT", help="An id or a key as a whole, or a part of a name.")],
    names_only: Annotated[bool, Option("--names", help="Look at names of topics and groups alone.")] = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Find messages, topics, groups, clients and users by one text.

    Messages are found by id or key in all topics, the others by a part of their name. What was searched is said on
    standard error. Exit code 2 if nothing was found.
    """
    with progress(f"looking for {text}"):
        found = cluster.ask(lambda admin: admin.search.find(text, names_only=names_only))
    cluster.write_rows(_COLUMNS, map(_row, found.hits))
    click.echo(f"searched: {'; '.join(found.searched)}", err=True)
    if found.skipped:
        click.echo(f"not searched: {'; '.join(found.skipped)}", err=True)
    if not found.hits:
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)


def _row(hit: ClusterHit) -> dict[str, Any]:
    subject = hit.subject
    return {
        "kind": subject.kind.value,
        "name": subject.name,
        "within": subject.within,
        "title": hit.title,
        "text": hit.text,
    }
