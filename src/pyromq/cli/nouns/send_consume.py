"""``pyromq send`` and ``pyromq consume``: a producer and a consumer on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import click

from pyromq.cli.connection import CLUSTER, ClusterFlags, TopicArgument, explained
from pyromq.cli.declared import Argument, Option
from pyromq.cli.error_texts import advise, in_options
from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.cli.nouns.message_lines import (
    LINE_BYTES_MORE,
    LINE_BYTES_PER_BODY_BYTE,
    message_of_line,
)
from pyromq.cli.nouns.message_rows import body_text, message_row
from pyromq.cli.output.prompts import counting
from pyromq.cli.output.quiet import QuietOption
from pyromq.cli.output.tables import Form, shown, write_json
from pyromq.cli.output.times import span_ms
from pyromq.errors import MessageRefusedError, MQError, TopicNotFoundError

if TYPE_CHECKING:
    from pyromq.aio import Admin, Message, Producer, ReceivedMessage, SendReceipt
    from pyromq.cli.nouns.send_lines import LineReport
    from pyromq.operate.reading.typed_views import DecodedBody
    from pyromq.typed.schemas.topic_bodies import TopicBodies

_GROUP: Final = "pyromq-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFlags:
    """What all messages of a command have in common."""

    tags: Annotated[str, Option("--tags", "-t", help="Tag of the messages.")] = ""
    keys: Annotated[str, Option("--keys", "-k", help="Keys, separated by spaces.")] = ""
    properties: Annotated[
        list[str] | None, Option("--property", "-p", metavar="NAME=VALUE", help="Property; may be repeated.")
    ] = None
    sharding_key: Annotated[str, Option(help="Messages with the same one go to one queue, in order.")] = ""
    priority: Annotated[int | None, Option(min=0, help="Larger is more urgent, on topics of type PRIORITY.")] = None
    delay: Annotated[str, Option(help="Deliver them this much later: 30s, 10m, 1h30m.")] = ""

    def message(self, topic: str, body: bytes, bodies: TopicBodies | None = None) -> Message:
        """Make a message with these options, by the schema of the topic if there is one. Raises MessageRefusedError,
        BadParameter.
        """
        from pyromq.aio import Message

        marks: dict[str, str] = {}
        if bodies is not None:
            from pyromq.operate.reading.typed_views import body_of_text

            body, content_type, schema = body_of_text(bodies, body)
            marks = {"content_type": content_type, **({"schema": schema} if schema else {})}

        return Message(
            topic,
            body,
            tags=self.tags,
            keys=self.keys,
            properties={**marks, **self._properties()},
            sharding_key=self.sharding_key,
            priority=self.priority,
            delay_ms=self._delay_ms(),
        )

    def is_empty(self) -> bool:
        chosen = self.sharding_key or self.delay or self.priority is not None
        return not (self.tags or self.keys or self.properties or chosen)

    def _properties(self) -> dict[str, str]:
        pairs = [text.partition("=") for text in self.properties or ()]
        for name, equals, value in pairs:
            if not (name and equals and value):
                raise click.BadParameter(f"{name + equals + value!r}: write --property NAME=VALUE")
        return {name: value for name, _, value in pairs}

    def _delay_ms(self) -> int:
        if not self.delay:
            return 0
        if (found := span_ms(self.delay)) is None:
            raise click.BadParameter(f"{self.delay!r} is not a span: write --delay 10m, or 1h30m")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """How standard input is read."""

    jsonl: Annotated[bool, Option("--jsonl", "-j", help="Lines are JSON, as consume -o jsonl writes it.")] = False
    from_line: Annotated[int, Option(min=1, help="Begin at this line of standard input.")] = 1
    skip_blank: Annotated[bool, Option("--skip-blank", help="Pass over blank lines; else they fail.")] = False
    raw: Annotated[bool, Option("--raw", help="Send bodies as they are, whatever schema the topic has.")] = False


def send(
    *,
    topic: Annotated[
        str, Argument(metavar="TOPIC", complete="topics", help="Topic; with --jsonl in place of what the lines say.")
    ] = "",
    body: Annotated[
        str | None, Argument(metavar="BODY", help="Body; by default each line of standard input is a message.")
    ] = None,
    options: MessageFlags,
    lines: LineOptions,
    quiet: QuietOption = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Send a message, or each line of standard input as one, and show where it was stored.

    Lines are sent in order, many at a time. The first one that fails ends the command, which then says how many lines
    were sent and with which --from-line to go on. Where the topic has a schema (pyromq topic schema), a body is JSON
    that fits it, and is written as the schema says.
    """
    import asyncio

    from pyromq.cli.nouns.send_lines import LineReport

    if not topic and not lines.jsonl:
        raise click.UsageError("name a TOPIC, or give --jsonl: its lines say theirs")
    if lines.jsonl and (body is not None or not options.is_empty()):
        raise click.UsageError("--jsonl reads messages from standard input, with their tags, keys and properties")
    form = cluster.form

    async def make(producer: Producer) -> Callable[[bytes], Message]:
        if lines.jsonl:
            return lambda line: message_of_line(line, topic)
        bodies = None if lines.raw else await producer.client.schemas.find(topic)
        return lambda line: options.message(topic, line, bodies)

    async def run_one(text: str) -> None:
        from pyromq.aio import Producer

        async with Producer(cluster.nameserver, group=_GROUP) as producer, explained(producer.client):
            message_of = await make(producer)
            _write_receipt(topic, await producer.send(message_of(text.encode())), form)

    if body is not None:
        asyncio.run(run_one(body))
    else:
        report = LineReport(first=lines.from_line, resume_at=lines.from_line)
        _send_lines(cluster.nameserver, make, form, report, lines)


def _send_lines(
    nameserver: str,
    make: Callable[[Producer], Awaitable[Callable[[bytes], Message]]],
    form: Form,
    report: LineReport,
    options: LineOptions,
) -> None:
    import asyncio

    from pyromq.aio import Producer
    from pyromq.cli.nouns.send_lines import LineSender, lines_from

    async def run(tell: Callable[[int], None]) -> None:
        def show(number: int, receipt: SendReceipt) -> None:
            _write_receipt(receipt.queue.topic, receipt, form)
            tell(report.sent)

        async with Producer(nameserver, group=_GROUP) as producer:
            body_bytes = producer.settings.body_bytes_max
            line_bytes = body_bytes * LINE_BYTES_PER_BODY_BYTE + LINE_BYTES_MORE if options.jsonl else body_bytes
            lines = lines_from(sys.stdin.fileno(), line_bytes)
            await LineSender(producer, await make(producer), show).send(lines, report, skip_blank=options.skip_blank)
            if report.error is not None:
                async with explained(producer.client):
                    raise report.error

    try:
        with counting("sending") if not sys.stdout.isatty() else nullcontext(_say_nothing) as tell:
            asyncio.run(run(tell))
    except MQError as error:
        sys.stdout.flush()
        is_blank = type(error) is MessageRefusedError and "empty body" in str(error)
        hint = "; --skip-blank passes over blank lines" if is_blank else ""
        where = f"line {report.failed_line}: " if report.failed_line else ""
        advise(error, os.environ)
        click.echo(f"pyromq: {where}{shown(in_options(error))}{hint}\npyromq: {report.text()}", err=True)
        raise click.exceptions.Exit(exit_code_of(error)) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo(f"pyromq: interrupted: {report.text()}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _say_nothing(done: int) -> None:
    """Where receipts scroll by, nothing else need be reported."""


def _write_receipt(topic: str, receipt: SendReceipt, form: Form) -> None:
    queue = receipt.queue
    if form is Form.TABLE:
        click.echo(f"{receipt.message_id}  {queue.broker} queue {queue.number} offset {receipt.offset}")
    else:
        where = {"broker": queue.broker, "queue": queue.number, "offset": receipt.offset}
        write_json(sys.stdout, {"message_id": receipt.message_id, "topic": topic, **where})


def consume(
    topic: TopicArgument,
    group: Annotated[
        str,
        Option("--group", "-g", complete="groups", help="Consumer group; its progress is kept, a new one reads all."),
    ] = "pyromq-cli",
    tags: Annotated[str, Option("--tags", "-t", help="Only messages with these tags, such as 'TagA || TagB'.")] = "*",
    sql: Annotated[str, Option(help="SQL92 expression instead of tags, such as 'price > 10'.")] = "",
    count: Annotated[int, Option("--count", "-c", min=0, help="Stop after this many messages; 0: never.")] = 0,
    quiet: QuietOption = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Consume a topic as a member of a group and show each message, until Ctrl-C."""
    import asyncio

    from pyromq.aio import Admin, PushConsumer
    from pyromq.operate.reading.typed_views import decoded_body

    form = cluster.form

    async def run(tell: Callable[[int], None]) -> None:
        seen = 0

        async def show(message: ReceivedMessage) -> None:
            nonlocal seen
            if count and seen >= count:
                return
            seen += 1
            _write(message, form, await decoded_body(consumer.client, topic, message))
            tell(seen)
            if seen == count:
                consumer.stop()

        consumer = PushConsumer(cluster.nameserver, group=group, listener=show, start="earliest")
        consumer.subscribe(topic, sql or tags, sql=bool(sql))
        async with consumer:
            await _look_at(Admin(client=consumer.client), topic)
            await consumer.run_open(None, None)

    try:
        with (
            counting("consuming", total=count or None) if not sys.stdout.isatty() else nullcontext(_say_nothing) as tell
        ):
            asyncio.run(run(tell))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


async def _look_at(admin: Admin, topic: str) -> None:
    """A consumer waits for servers and for its topic; who typed a command hears of it at once.

    Raises TransportError, WrongServerError.
    """
    try:
        async with explained(admin.client):
            await admin.topics.route(topic)
    except TopicNotFoundError:
        click.echo(f"topic {topic} does not exist yet: waiting for its first message", err=True)


def _write(message: ReceivedMessage, form: Form, decoded: DecodedBody | None) -> None:
    if form is Form.TABLE:
        queue, text = message.queue, body_text(message, decoded)
        click.echo(f"{queue.broker} queue {queue.number} offset {message.offset}  {shown(message.tags)}  {shown(text)}")
        return
    write_json(sys.stdout, message_row(message, form, decoded))
    sys.stdout.flush()
