"""``pyromq message``: one message, wherever it is, and what became of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli import clock
from pyromq.cli.connection import CLUSTER, ClusterFlags
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.nouns.job import JobFlags, run_job
from pyromq.cli.nouns.message_rows import message_row
from pyromq.cli.nouns.trace_rows import TRACE_COLUMNS, trace_row
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import (
    Column,
    Form,
    write_block,
    write_fields,
    write_json,
    write_rows,
    write_text,
)
from pyromq.cli.output.times import parse_time, show_moment, show_time

if TYPE_CHECKING:
    from pyromq.aio import Admin, ReceivedMessage
    from pyromq.operate.consumers.direct_consumption import DirectConsumption
    from pyromq.operate.explaining.explanation import Explanation

app = Commands(help="Messages: get, find, trace, explain, resend, consume-directly.")
IdArgument = Annotated[str, Argument(metavar="ID", help="The id from its receipt, or its offset id.")]
TraceTopicOption = Annotated[str, Option("--trace-topic", help="Topic that traces are written to.")]

_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_FIELDS = (
    Column("message_id", "id"),
    Column("offset_message_id", "offset id"),
    Column("topic", "topic"),
    Column("broker", "broker"),
    Column("queue", "queue"),
    Column("offset", "offset"),
    Column("tags", "tags"),
    Column("keys", "keys"),
    Column("attempt", "failed before", show=lambda count: str(count) if count else ""),
    Column("born_ms", "born", show=show_time, roomy=show_moment),
    Column("born_host", "sent from"),
    Column("stored_ms", "stored", show=show_time, roomy=show_moment),
    Column("body_bytes", "body bytes"),
    Column(
        "properties", "properties", show=lambda table: "  ".join(f"{name}={value}" for name, value in table.items())
    ),
    Column("body", "body"),
    Column("problem", "problem"),
)
_COLUMNS = (
    Column("stored_ms", "stored", show=show_time, roomy=show_moment, whole=True),
    Column("where", "where", only=Form.TABLE),
    Column("broker", "broker", only=Form.CSV),
    Column("queue", "queue", only=Form.CSV),
    Column("offset", "offset", only=Form.CSV),
    Column("message_id", "id"),
    Column("tags", "tags", optional=True),
    Column("keys", "keys", optional=True),
    Column("body", "body", show=lambda text: text if len(text) <= 60 else text[:59] + "…"),
)


@app.command()
def get(
    message_id: IdArgument,
    topic: Annotated[
        str, Option("--topic", "-t", complete="topics", help="Topic of the message; not needed with an offset id.")
    ] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show a message with its properties and body."""

    async def look(admin: Admin) -> ReceivedMessage:
        from pyromq.errors import NotFoundError
        from pyromq.wire.message_id import MalformedMessageIdError

        if topic:
            return await admin.messages.get(topic, message_id)
        try:
            return await admin.messages.by_offset_id(message_id)
        except (MalformedMessageIdError, NotFoundError) as error:
            raise click.BadParameter(f"{message_id} is not an offset id of this cluster: give --topic too") from error

    form = cluster.form
    write_fields(sys.stdout, form, _FIELDS, message_row(cluster.ask(look), form))


@app.command()
def find(
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Topic to search.")],
    key: Annotated[str, Option("--key", "-k", help="Key to look for.")],
    begin: Annotated[str, Option(help="Stored at this time or later: 2026-11-15T07:30, 2h ago.")] = "",
    end: Annotated[str, Option(help="Stored at this time or earlier.")] = "now",
    count: Annotated[int, Option("--max", "-l", min=1, max=64, help="Show at most this many.")] = 32,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Find messages by a key, oldest first."""
    now_ms = clock.now_ms()
    begin_ms, end_ms = parse_time(begin, now_ms) if begin else 0, parse_time(end, now_ms + 1_000)
    found = cluster.ask(
        lambda admin: admin.messages.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, count_max=count)
    )
    write_rows(sys.stdout, form := cluster.form, _COLUMNS, [message_row(each, form) for each in found])
    if not found:
        click.echo(f"no message of topic {topic} has the key {key} in that time", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)


@app.command()
def trace(
    message_id: Annotated[str, Argument(metavar="ID", help="The id from its receipt, or one of its keys.")],
    topic: Annotated[str, Option("--topic", help="Topic that traces are written to.")] = _TRACE_TOPIC,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show what the producer and the consumers of a message recorded about it, in order of time."""
    records = cluster.ask(lambda admin: admin.messages.trace(message_id, topic=topic))
    cluster.write_rows(TRACE_COLUMNS, map(trace_row, records))


@app.command()
def explain(
    message_id: IdArgument,
    topic: Annotated[str, Option(help="Topic it was sent to.")],
    trace_topic: TraceTopicOption = _TRACE_TOPIC,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Explain where a message is now, and why: stored, delayed, prepared; consumed, waiting, retrying, dead."""
    with progress(f"looking for {message_id}"):
        explanation = cluster.ask(lambda admin: admin.messages.explain(topic, message_id, trace_topic=trace_topic))
    form = cluster.form
    if form is Form.TABLE:
        _show_explanation(explanation)
    elif form is Form.CSV:
        write_rows(sys.stdout, form, _GROUP_COLUMNS, _group_rows(explanation))
    else:
        write_json(sys.stdout, explanation, indent=2 if form is Form.JSON else 0)


_DIRECT_FIELDS = (
    Column("outcome", "outcome", styles={"success": "green", "exception": "bold red"}),
    Column("client_id", "member"),
    Column("spent_ms", "took", show=lambda spent_ms: f"{spent_ms} ms"),
    Column("is_orderly", "orderly", show=lambda is_orderly: "yes" if is_orderly else ""),
    Column("remark", "remark"),
)


@app.command("consume-directly")
def consume_directly(
    message_id: IdArgument,
    group: Annotated[str, Option("--group", "-g", complete="groups", help="Consumer group whose listener gets it.")],
    client: Annotated[str, Option(help="Member of the group; by default the first. See group describe.")] = "",
    topic: Annotated[
        str, Option("--topic", "-t", complete="topics", help="Topic of the message; not needed with an offset id.")
    ] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Hand a message to the listener of a connected member now, and show what it made of it.

    Offsets and retries stay as they are. Exit code 5 if the listener did not consume it.
    """
    import msgspec

    async def work(admin: Admin) -> DirectConsumption:
        return await admin.members.consume_directly(group, message_id, topic=topic, client_id=client)

    with progress(f"waiting for a listener of {group}"):
        done = cluster.ask(work)
    write_fields(sys.stdout, cluster.form, _DIRECT_FIELDS, msgspec.structs.asdict(done))
    if not done.is_consumed:
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command()
def resend(
    message_ids: Annotated[list[str], Argument(metavar="ID...", help="Offset ids of messages, or ids with --topic.")],
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Topic that has the messages.")] = "",
    to_topic: Annotated[str, Option("--to-topic", complete="topics", help="Send to this topic instead.")] = "",
    to_group: Annotated[str, Option("--to-group", complete="groups", help="Send to this group alone.")] = "",
    *,
    how: JobFlags,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Send stored messages again: to the topic they were sent to, to another one, or to one group alone."""
    if to_topic and to_group:
        raise click.UsageError("--to-topic and --to-group: a copy goes to one of them")
    from pyromq.operate.jobs.specs import Resend

    async def look(admin: Admin) -> tuple[str, ...]:
        return tuple([(await admin.messages.get(topic, each)).offset_message_id for each in message_ids])

    places = cluster.ask(look) if topic else tuple(message_ids)
    new = how.new(Resend(messages=places, to_topic=to_topic, to_group=to_group))
    run_job(cluster, how.data, lambda jobs: jobs.start(new, by="command line"))


_STYLES = {"consumed": "green", "dead letter": "bold red", "retrying": "yellow", "filtered out": "dim"}
_GROUP_COLUMNS = (
    Column("group", "group"),
    Column("state", "state", styles=_STYLES, whole=True),
    Column("members", "members", styles={"offline": "yellow"}),
    Column("text", "what happened"),
)


def _group_rows(explanation: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "group": story.group,
            "state": story.state.value,
            "members": "online" if story.is_online else "offline",
            "text": story.text,
        }
        for story in explanation.groups
    ]


_ATTEMPTS = (
    Column("group", "group"),
    Column("attempt", "attempt", right=True),
    Column("time_ms", "failed", show=show_time, whole=True),
    Column("error_class", "error"),
    Column("text", "why", optional=True),
    Column("stack", "hash", whole=True),
    Column("version", "version", optional=True),
    Column("host", "host", optional=True),
)


def _attempt_rows(explanation: Explanation) -> list[dict[str, Any]]:
    """Why each attempt of each group failed."""
    import msgspec

    return [
        {"group": story.group, **msgspec.structs.asdict(failure)}
        for story in explanation.groups
        for failure in story.attempts
    ]


def _show_explanation(explanation: Explanation) -> None:
    marks = [f"message {explanation.message_id}", f"topic {explanation.topic}"]
    marks += [f"tag {explanation.tags}"] if explanation.tags else []
    marks += [f"keys {' '.join(explanation.keys)}"] if explanation.keys else []
    write_text(sys.stdout, ", ".join(marks))
    write_text(sys.stdout, explanation.text)
    if explanation.groups:
        click.echo()
        write_rows(sys.stdout, Form.TABLE, _GROUP_COLUMNS, _group_rows(explanation))
    if attempts := _attempt_rows(explanation):
        click.echo()
        write_rows(sys.stdout, Form.TABLE, _ATTEMPTS, attempts)
        for each in attempts:
            if each["traceback"]:
                write_block(sys.stdout, f"traceback of attempt {each['attempt']} of {each['group']}", each["traceback"])
    if explanation.trace:
        click.echo()
        write_rows(sys.stdout, Form.TABLE, TRACE_COLUMNS, map(trace_row, explanation.trace))
