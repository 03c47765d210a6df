"""``pyromq send`` and ``pyromq consume``: a producer and a consumer on the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, TopicArgument, explained
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.cli.nouns.message_rows import body_text
from pyromq.cli.nouns.send_lines import LineReport, LineSender, lines_from
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import Form, FormOption, form_for, shown, write_json
from pyromq.errors import MessageRefusedError, MQError, TopicNotFoundError

if TYPE_CHECKING:
    from pyromq.aio import Admin, Message, ReceivedMessage, SendReceipt

_GROUP: Final = "pyromq-cli"
_TELL_EVERY: Final = 1_000


def add_to(app: Commands) -> None:
    app.command("send")(send)
    app.command("consume")(consume)


def send(
    topic: TopicArgument,
    body: Annotated[
        str | None, Argument(metavar="BODY", help="Body; by default each line of standard input is a message.")
    ] = None,
    tags: Annotated[str, Option(help="Tag of the messages.")] = "",
    keys: Annotated[str, Option(help="Keys, separated by spaces.")] = "",
    from_line: Annotated[int, Option(min=1, help="Begin at this line of standard input.")] = 1,
    skip_blank: Annotated[bool, Option("--skip-blank", help="Pass over blank lines; else they fail.")] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Send a message, or each line of standard input as one, and show where it was stored.

    Lines are sent in order, many at a time. The first one that fails ends the command, which then says how many lines
    were sent and with which --from-line to go on.
    """
    from pyromq.aio import Message, Producer

    form = form_for(output, sys.stdout)

    def message_of(line: bytes) -> Message:
        return Message(topic, line, tags=tags, keys=keys)

    async def run_one(text: str) -> None:
        async with Producer(nameserver, group=_GROUP) as producer, explained(producer.client):
            _write_receipt(topic, await producer.send(message_of(text.encode())), form)

    if body is not None:
        asyncio.run(run_one(body))
    else:
        _send_lines(nameserver, message_of, form, LineReport(first=from_line, resume_at=from_line), skip_blank)


def _send_lines(
    nameserver: str, message_of: Callable[[bytes], Message], form: Form, report: LineReport, skip_blank: bool
) -> None:
    from pyromq.aio import Producer

    async def run(tell: Callable[[str], None]) -> None:
        def show(number: int, receipt: SendReceipt) -> None:
            _write_receipt(receipt.queue.topic, receipt, form)
            if report.sent % _TELL_EVERY == 0:
                tell(f"{report.sent} lines sent")

        async with Producer(nameserver, group=_GROUP) as producer:
            lines = lines_from(sys.stdin.fileno(), producer.settings.body_bytes_max)
            await LineSender(producer, message_of, show).send(lines, report, skip_blank=skip_blank)
            if report.error is not None:
                async with explained(producer.client):
                    raise report.error

    try:
        with progress("sending") if not sys.stdout.isatty() else nullcontext(_say_nothing) as tell:
            asyncio.run(run(tell))
    except MQError as error:
        sys.stdout.flush()
        hint = "; --skip-blank passes over blank lines" if type(error) is MessageRefusedError else ""
        where = f"line {report.failed_line}: " if report.failed_line else ""
        click.echo(f"pyromq: {where}{shown(error)}{hint}\npyromq: {report.text()}", err=True)
        raise click.exceptions.Exit(exit_code_of(error)) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo(f"pyromq: interrupted: {report.text()}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _say_nothing(text: str) -> None:
    """Where receipts scroll by, nothing else need be told."""


def _write_receipt(topic: str, receipt: SendReceipt, form: Form) -> None:
    queue = receipt.queue
    if form is Form.TABLE:
        click.echo(f"{receipt.message_id}  {queue.broker} queue {queue.number} offset {receipt.offset}")
    else:
        where = {"broker": queue.broker, "queue": queue.number, "offset": receipt.offset}
        write_json(sys.stdout, {"message_id": receipt.message_id, "topic": topic, **where})


def consume(
    topic: TopicArgument,
    group: Annotated[str, Option(help="Consumer group; its progress is kept.")] = "pyromq-cli",
    tags: Annotated[str, Option(help="Only messages with these tags, such as 'TagA || TagB'.")] = "*",
    sql: Annotated[str, Option(help="SQL92 expression instead of tags, such as 'price > 10'.")] = "",
    count: Annotated[int, Option(min=0, help="Stop after this many messages; 0: never.")] = 0,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    output: FormOption = None,
) -> None:
    """Consume a topic as a member of a group and show each message, until Ctrl-C."""
    from pyromq.aio import Admin, PushConsumer

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
            await _look_at(Admin(client=consumer.client), topic)
            await done.wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


async def _look_at(admin: Admin, topic: str) -> None:
    """A consumer waits for servers and for its topic; who typed a command hears of it at once.

    Raises TransportError, WrongServerError.
    """
    try:
        async with explained(admin.client):
            await admin.route(topic)
    except TopicNotFoundError:
        click.echo(f"topic {topic} does not exist yet: waiting for its first message", err=True)


def _write(message: ReceivedMessage, form: Form) -> None:
    queue, text = message.queue, body_text(message)
    if form is Form.TABLE:
        click.echo(f"{queue.broker} queue {queue.number} offset {message.offset}  {shown(message.tags)}  {shown(text)}")
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
