"""``pyromq tail``: the newest messages of a topic and those that follow; it moves no group."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, TopicArgument, with_admin
from pyromq.cli.declared import Option
from pyromq.cli.nouns.message_rows import message_row
from pyromq.cli.output.tables import Form, FormOption, form_for, shown, write_json
from pyromq.cli.output.times import show_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyromq.aio import Admin, ReceivedMessage
    from pyromq.operate.reading.typed_views import DecodedBody

_POLL_S = 0.5
_NameServerOption = Annotated[
    str,
    Option(
        "--nameserver",
        envvar=["PYROMQ_NAMESERVER", "NAMESRV_ADDR"],
        metavar="HOST:PORT[;…]",
        help="Name servers of the cluster, or the URL of an address server; here -n is the number of messages.",
    ),
]


def tail(
    topic: TopicArgument,
    count: Annotated[int, Option("-n", "--count", min=0, max=10_000, help="Start with this many messages.")] = 10,
    follow: Annotated[bool, Option("-f", "--follow", help="Go on with new messages, until Ctrl-C.")] = False,
    tags: Annotated[str, Option("--tags", "-t", help="Only messages with these tags, such as 'TagA || TagB'.")] = "",
    nameserver: _NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Show the newest messages of a topic, over all its queues."""
    form = form_for(output, sys.stdout)
    if form is Form.CSV:
        raise click.BadParameter("tail does not write CSV: use table, json or jsonl")
    wanted = {tag.strip() for tag in tags.split("||") if tag.strip() not in ("", "*")}

    def show(message: ReceivedMessage, decoded: DecodedBody | None) -> None:
        if not wanted or message.tags in wanted:
            _write(message, form, decoded)

    try:
        with_admin(nameserver, lambda admin: _tail(admin, topic, count, follow, show))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


Show: TypeAlias = "Callable[[ReceivedMessage, DecodedBody | None], None]"


async def _tail(admin: Admin, topic: str, count: int, follow: bool, show: Show) -> None:
    import asyncio

    from pyromq.operate.reading.typed_views import decoded_body

    queues = (await admin.topics.route(topic)).readable_queues(admin.client.wire_name(topic))
    ends = {queue: (await admin.offsets.range(queue)).max_offset for queue in queues}
    for message in await admin.messages.newest(topic, count) if count else ():
        show(message, await decoded_body(admin.client, topic, message))
        ends[message.queue] = max(ends[message.queue], message.offset + 1)
    while follow:
        await asyncio.sleep(_POLL_S)
        for queue, begin in ends.items():
            end = (await admin.offsets.range(queue)).max_offset
            async for message in admin.messages.walk(queue, begin, end):
                show(message, await decoded_body(admin.client, topic, message))
            ends[queue] = end


def _write(message: ReceivedMessage, form: Form, decoded: DecodedBody | None) -> None:
    row = message_row(message, form, decoded)
    if form is Form.TABLE:
        marks = " ".join(part for part in (row["tags"], *row["keys"]) if part)
        parts = (show_time(row["stored_ms"]), row["where"], shown(marks), shown(row["body"]))
        click.echo("  ".join(part for part in parts if part))
        return
    write_json(sys.stdout, row, indent=2 if form is Form.JSON else 0)
    sys.stdout.flush()
