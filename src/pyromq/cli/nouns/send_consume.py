"""``pyromq send`` and ``pyromq consume``: a producer and a consumer on the command line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, TopicArgument
from pyromq.cli.nouns.message_rows import body_text
from pyromq.cli.output.tables import Form, FormOption, form_for, shown, write_json

if TYPE_CHECKING:
    from pyromq.aio import ReceivedMessage


def add_to(app: typer.Typer) -> None:
    app.command("send")(send)
    app.command("consume")(consume)


def send(
    topic: TopicArgument,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="Body; by default each line of standard input is a message.")
    ] = None,
    tags: Annotated[str, typer.Option(help="Tag of the messages.")] = "",
    keys: Annotated[str, typer.Option(help="Keys, separated by spaces.")] = "",
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Send a message, or each line of standard input as one, and show where it was stored."""
    from pyromq import Message, Producer

    form = form_for(output, sys.stdout)
    lines = [body] if body is not None else (line.rstrip("\n") for line in sys.stdin)
    with Producer(nameserver, group="pyromq-cli") as producer:
        for line in lines:
            receipt = producer.send(Message(topic, line.encode(), tags=tags, keys=keys))
            queue = receipt.queue
            if form is Form.TABLE:
                typer.echo(f"{receipt.message_id}  {queue.broker} queue {queue.number} offset {receipt.offset}")
            else:
                where = {"broker": queue.broker, "queue": queue.number, "offset": receipt.offset}
                write_json(sys.stdout, {"message_id": receipt.message_id, "topic": topic, **where})


def consume(
    topic: TopicArgument,
    group: Annotated[str, typer.Option(help="Consumer group; its progress is kept.")] = "pyromq-cli",
    tags: Annotated[str, typer.Option(help="Only messages with these tags, such as 'TagA || TagB'.")] = "*",
    sql: Annotated[str, typer.Option(help="SQL92 expression instead of tags, such as 'price > 10'.")] = "",
    count: Annotated[int, typer.Option(min=0, help="Stop after this many messages; 0: never.")] = 0,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Consume a topic as a member of a group and show each message, until Ctrl-C."""
    from pyromq.aio import PushConsumer

    form = form_for(output, sys.stdout)

    async def run() -> None:
        done, seen = asyncio.Event(), 0

        async def show(message: ReceivedMessage) -> None:
            nonlocal seen
            if count and seen >= count:
                return
            seen += 1
            _write(message, form)
            if seen == count:
                done.set()

        consumer = PushConsumer(nameserver, group=group, listener=show)
        consumer.subscribe(topic, sql or tags, sql=bool(sql))
        async with consumer:
            await done.wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _write(message: ReceivedMessage, form: Form) -> None:
    queue, text = message.queue, body_text(message)
    if form is Form.TABLE:
        typer.echo(f"{queue.broker} queue {queue.number} offset {message.offset}  {shown(message.tags)}  {shown(text)}")
        return
    row = {
        "topic": message.topic,
        "broker": queue.broker,
        "queue": queue.number,
        "offset": message.offset,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "body": text,
    }
    write_json(sys.stdout, row)
    sys.stdout.flush()
