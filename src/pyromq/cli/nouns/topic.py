"""``pyromq topic``: the topics of a cluster, their queues and what these hold."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli import clock
from pyromq.cli.connection import (
    CLUSTER,
    DEFAULT_NAMESERVER,
    ClusterFlags,
    NameServerOption,
    TopicArgument,
    cluster_name,
    with_admin,
)
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.nouns.listing import ListOptions, report_page, show_count, show_rate
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column
from pyromq.cli.output.times import parse_time, show_moment, show_time
from pyromq.cli.output.watching import watched
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin

_NAMES_MAX = 5  # of one queue

app = Commands(help="Topics: ls, create, describe, schema, history, senders, retention, letters, delete.")
schemas = Commands(help="Schemas of topics: set, show, check, delete.")
app.add_command(schemas, "schema")


class MessageTypeWord(StrEnum):
    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"
    MIXED = "mixed"
    PRIORITY = "priority"


_COLUMNS = (
    Column("topic", "topic"),
    Column("kind", "kind", show=lambda kind: "" if kind == "normal" else str(kind), optional=True),
    Column("message_type", "type", optional=True),
    Column("queues", "queues", right=True),
    Column("put_rate", "in/s", right=True, show=show_rate),
    Column("get_rate", "out/s", right=True, show=show_rate),
    Column("groups", "groups", right=True, show=show_count),
    Column("lag", "lag", right=True),
)


@app.command("ls")
@watched
def list_topics(*, listing: ListOptions, cluster: ClusterFlags = CLUSTER) -> None:
    """List topics with queues, rates of the last minute, groups and their lag together."""
    page = cluster.ask(lambda admin: admin.topics.list(listing.question()))
    cluster.write_structs(_COLUMNS, page.rows)
    report_page("topic", listing.question(), len(page.rows), page.found, page.problems)


@app.command()
def create(
    topic: TopicArgument,
    queues: Annotated[int, Option("--queues", "-Q", min=1, max=65_536, help="Queues on each broker.")] = 8,
    message_type: Annotated[
        MessageTypeWord | None, Option("--type", help="What kind of messages it is for; by default it does not say.")
    ] = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Create a topic on every master, or change its number of queues."""
    from pyromq.model.system_names import MESSAGE_TYPE

    attributes = {MESSAGE_TYPE: message_type.value.upper()} if message_type else None
    with_admin(nameserver, lambda admin: admin.topics.create(topic, queues=queues, attributes=attributes))
    click.echo(f"topic {topic} has {queues} queues", err=True)


@app.command()
@watched
def describe(topic: TopicArgument, cluster: ClusterFlags = CLUSTER) -> None:
    """Show the queues of a topic: where they are, what they hold, and what their newest messages say they are."""

    async def look(admin: Admin) -> list[dict[str, Any]]:
        stats = await admin.topics.stats(topic)
        seen = await admin.topics.schemas(topic)
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
        Column("last_stored_ms", "last stored", show=show_time, roomy=show_moment, whole=True),
        Column("content_types", "content types", optional=True),
        Column("schemas", "schemas", optional=True),
    )
    cluster.write_rows(columns, cluster.ask(look))


def _names(given: Iterable[str]) -> str:
    """The most frequent first, each once."""
    names = [name for name in dict.fromkeys(given) if name]
    return ", ".join([*names[:_NAMES_MAX], *(["…"] if len(names) > _NAMES_MAX else [])])


@app.command()
def history(
    topic: TopicArgument,
    since: Annotated[str, Option(help="Begin of the time: 2026-11-15T07:30, 2h ago, today.")] = "24h ago",
    steps: Annotated[int, Option(min=1, max=500, help="Steps at most; with many queues there are fewer.")] = 24,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show how many messages and bytes were stored in each step of a time, of what is still there."""
    begin_ms = parse_time(since, clock.now_ms())
    found = cluster.ask(lambda admin: admin.contents.history(topic, begin_ms=begin_ms, steps=steps))
    columns = (
        Column("begin_ms", "from", show=show_time, roomy=show_moment, whole=True),
        Column("messages", "messages", right=True),
        Column("bytes", "bytes", right=True),
    )
    cluster.write_structs(columns, found.steps)
    if found.is_cut:
        click.echo("cut: the topic has more queues than were read", err=True)


@app.command()
def senders(topic: TopicArgument, cluster: ClusterFlags = CLUSTER) -> None:
    """Show who sent the newest messages of a topic, and which of these producers are connected."""
    found = cluster.ask(lambda admin: admin.contents.senders(topic))
    columns = (
        Column("address", "address"),
        Column("group", "group"),
        Column("client_id", "client"),
        Column("language", "language", optional=True),
        Column("messages", "messages", right=True),
        Column("last_ms", "last", show=show_time, roomy=show_moment, whole=True),
    )
    cluster.write_structs(columns, found)
    if not found:
        click.echo(f"topic {topic} has no messages", err=True)


@app.command()
def retention(topic: TopicArgument, cluster: ClusterFlags = CLUSTER) -> None:
    """Show the oldest message of a topic, what the topic takes on disk, and how long messages are kept at this rate."""
    found = cluster.ask(lambda admin: admin.contents.retention(topic))
    columns = (
        Column("topic", "topic"),
        Column("messages", "messages", right=True),
        Column("bytes", "bytes, about", right=True),
        Column("oldest_ms", "oldest", show=show_time, roomy=show_moment, whole=True),
        Column("kept_ms", "kept for", show=lambda ms: "" if ms is None else shown_span(ms), right=True),
        Column("limit", "ended by"),
    )
    cluster.write_structs(columns, [found])


@app.command()
def letters(topic: TopicArgument, cluster: ClusterFlags = CLUSTER) -> None:
    """Show dead letters that were sent to this topic first, the newest of each group."""
    found = cluster.ask(lambda admin: admin.contents.letters(topic))
    columns = (
        Column("group", "group"),
        Column("dead_ms", "given up", show=show_time, roomy=show_moment, whole=True),
        Column("keys", "keys", show=lambda keys: " ".join(keys)),
        Column("message_id", "message"),
        Column("attempts", "attempts", right=True),
        Column("reason", "reason"),
    )
    rows = [letter for each in found for letter in each.letters]
    cluster.write_structs(columns, rows)
    if not rows:
        click.echo(f"no group that consumes topic {topic} gave up on a message of it", err=True)
    for each in (each for each in found if each.is_cut):
        click.echo(f"cut: group {each.group} has more letters than were read", err=True)


@app.command()
def delete(
    topic: TopicArgument,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete a topic with its messages and the progress of groups in it; first it shows what that is."""

    async def look(admin: Admin) -> str:
        stats = await admin.topics.stats(topic)
        messages = sum(held.max_offset - held.min_offset for held in stats.values())
        groups = await admin.topics.groups(topic)
        readers = f", consumed by {', '.join(groups[:_NAMES_MAX])}" if groups else ""
        more = f" and {len(groups) - _NAMES_MAX} more" if len(groups) > _NAMES_MAX else ""
        return f"{counted(len(stats), 'queue')} with {counted(messages, 'message')}{readers}{more}"

    click.echo(f"topic {topic} in {cluster_name(nameserver)}: {with_admin(nameserver, look)}", err=True)
    confirm(f"Delete topic {topic} and everything in it?", yes)
    with_admin(nameserver, lambda admin: admin.topics.delete(topic))
    click.echo(f"topic {topic} was deleted", err=True)


# --- schemas ---------------------------------------------------------------------------------------------------------


class CompatibilityWord(StrEnum):
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    NONE = "none"


class PayloadWord(StrEnum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    MSGPACK = "msgpack"
    TEXT = "text"


SchemaArgument = Annotated[
    str, Argument(metavar="SCHEMA", help="DDL, JSON Schema, Avro, a file with one of these, or a class.")
]
CompatibilityOption = Annotated[
    CompatibilityWord | None,
    Option("--compatibility", help="What a later version may not break; by default as before, or backward."),
]
_SCHEMA_COLUMNS = (
    Column("version", "version", right=True),
    Column("payload", "payload"),
    Column("compatibility", "compatibility"),
    Column("set_ms", "set", show=show_time, whole=True),
    Column("schema", "schema"),
)


@schemas.command("set")
def set_schema(
    topic: TopicArgument,
    schema: SchemaArgument,
    payload: Annotated[
        PayloadWord | None, Option("--payload", help="How bodies are written; by default as before, or json.")
    ] = None,
    compatibility: CompatibilityOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Keep a schema with a topic, as its next version.

    One that would break readers of the version before it is refused.
    """
    from pyromq.typed.schemas.compatibility import Compatibility

    promise = Compatibility(compatibility.value) if compatibility else None
    kind = payload.value if payload else ""
    text = _inlined(schema)
    kept = with_admin(nameserver, lambda admin: admin.schemas.set(topic, text, payload=kind, compatibility=promise))
    click.echo(f"topic {topic} has version {kept.version} of its schema", err=True)


@schemas.command("show")
def show_schema(
    topic: TopicArgument,
    version: Annotated[int, Option("--version", min=0, metavar="NUMBER", help="Only this version.")] = 0,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show the versions of a topic's schema, the newest first."""
    found = cluster.ask(lambda admin: admin.schemas.versions(topic))
    rows = [
        {
            "version": each.version, "payload": each.payload, "compatibility": each.compatibility.value,
            "set_ms": each.set_ms, "schema": each.text,
        }
        for each in found if version in (0, each.version)
    ]  # fmt: skip
    cluster.write_rows(_SCHEMA_COLUMNS, rows)
    if not rows:
        which = f"no version {version} of its schema" if version else "no schema"
        click.echo(f"topic {topic} has {which}", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)


@schemas.command("check")
def check_schema(
    topic: TopicArgument,
    schema: SchemaArgument,
    compatibility: CompatibilityOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Say what a schema would break, without setting it; exit code 5 if anything."""
    from pyromq.typed.schemas.compatibility import Compatibility

    promise = Compatibility(compatibility.value) if compatibility else None
    problems = with_admin(nameserver, lambda admin: admin.schemas.check(topic, _inlined(schema), promise))
    for problem in problems:
        click.echo(problem)
    if problems:
        raise click.exceptions.Exit(ExitCode.PARTIAL)
    click.echo(f"the schema can follow that of topic {topic}", err=True)


@schemas.command("delete")
def delete_schema(
    topic: TopicArgument, yes: YesOption = False, nameserver: NameServerOption = DEFAULT_NAMESERVER
) -> None:
    """Forget all versions of a topic's schema."""
    confirm(f"Forget the schema of topic {topic}?", yes)
    count = with_admin(nameserver, lambda admin: admin.schemas.delete(topic))
    click.echo(f"{count} versions deleted", err=True)


def _inlined(schema: str) -> str:
    """The text of a file of DDL or JSON: others who read the schema do not have the file."""
    from pathlib import Path

    path = Path(schema.removeprefix("file://")).expanduser()
    if path.suffix in (".json", ".avsc", ".ddl", ".sql", ".txt") and path.is_file():
        return path.read_text(encoding="utf-8").strip()
    return schema
