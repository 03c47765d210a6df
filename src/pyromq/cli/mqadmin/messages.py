"""mqadmin's sub-commands about messages: find, print, send, consume."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import click

from pyromq.cli import clock
from pyromq.cli.connection import DEFAULT_NAMESERVER, explained
from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import (
    BeginOption,
    EndOption,
    NamesrvOption,
    RouteOption,
    TopicOption,
    switch,
)
from pyromq.cli.mqadmin.printing import body_shown, exact_time_text, line, message_text, properties_text, time_in
from pyromq.cli.output.tables import shown
from pyromq.errors import MQError

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId, ReceivedMessage, SendReceipt

_GROUP: Final = "pyromq-mqadmin"
_TRACKS: Final = {
    "consumed": "CONSUMED",
    "waiting": "NOT_CONSUME_YET",
    "filtered out": "CONSUMED_BUT_FILTERED",
    "retrying": "NOT_CONSUME_YET",
    "dead letter": "CONSUMED",
}
_PLACED: Final = "%-32s  %-4s  %-20s    %s"
QueueIdOption = Annotated[int, Option("-i", "--queueId", min=0, help="Queue Id.")]
BodyOption = Annotated[str, Option("-d", "--printBody", help="Print body (true|false).")]
CharsetOption = Annotated[str, Option("-c", "--charsetName", help="CharsetName(eg: UTF-8,GBK).")]
TagsOption = Annotated[str, Option("-s", "--subExpression", help="Subscribe Expression(eg: TagA || TagB).")]
FormatOption = Annotated[str, Option("-f", "--bodyFormat", help="Character set of the body.")]


# --- one message -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectly:
    """To hand a message to a member of a group."""

    group: Annotated[str, Option("-g", "--consumerGroup", complete="groups", help="Consumer group name.")] = ""
    client: Annotated[str, Option("-d", "--clientId", help="The consumer's client id.")] = ""

    async def carry_out(self, admin: Admin, topic: str, message_id: str) -> bool:
        """Whether there was something to do."""
        if bool(self.group) != bool(self.client):
            raise click.UsageError("a message is consumed directly with -g and -d together")
        if not self.group:
            return False
        done = await admin.members.consume_directly(self.group, message_id, topic=topic, client_id=self.client)
        line(
            "ConsumeMessageDirectlyResult [consumeResult=%s, remark=%s, spentTimeMills=%d]",
            done.outcome,
            done.remark or "null",
            done.spent_ms,
        )
        return True


async def query_msg_by_id(
    admin: Admin,
    *,
    topic: TopicOption,
    message_id: Annotated[str, Option("-i", "--msgId", help="Message Id; several are separated by commas.")],
    directly: ConsumeDirectly,
    charset: FormatOption = "UTF-8",
    resend: Annotated[str, Option("-s", "--sendMessage", hidden=True, help="Resend message.")] = "",
    cluster: RouteOption = "",
) -> None:
    """Query Message by Id."""
    if switch(resend):
        raise click.UsageError("-s true is not supported: pyromq message get ID -o jsonl | pyromq send --jsonl")
    for each in filter(None, message_id.split(",")):
        if not await directly.carry_out(admin, topic, each):
            await _show_message(admin, await admin.messages.get(topic, each), charset)


async def query_msg_by_unique_key(
    admin: Admin,
    *,
    topic: TopicOption,
    message_id: Annotated[str, Option("-i", "--msgId", help="Message Id.")],
    directly: ConsumeDirectly,
    show_all: Annotated[bool, Option("-a", "--showAll", help="Print all message, the limit is 32.")] = False,
    start: Annotated[str, Option("-s", "--startTime", hidden=True, help="startTime")] = "",
    end: Annotated[str, Option("-e", "--endTime", hidden=True, help="endTime")] = "",
    cluster: RouteOption = "",
) -> None:
    """Query Message by Unique key."""
    if not await directly.carry_out(admin, topic, message_id):
        await _show_message(admin, await admin.messages.by_unique_key(topic, message_id))


async def query_msg_by_key(
    admin: Admin,
    topic: TopicOption,
    key: Annotated[str, Option("-k", "--msgKey", help="Message Key.")],
    begin: Annotated[str, Option("-b", "--beginTimestamp", help="Begin timestamp(ms). default:0.")] = "0",
    end: Annotated[str, Option("-e", "--endTimestamp", help="End timestamp(ms). default:Long.MAX_VALUE.")] = "",
    count: Annotated[int, Option("-m", "--maxNum", min=1, max=64, help="The maximum number of messages.")] = 64,
    cluster: RouteOption = "",
) -> None:
    """Query Message by Key."""
    begin_ms, end_ms = time_in(begin), time_in(end) if end else (1 << 63) - 1
    found = await admin.messages.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, count_max=count)
    line("%-50s %4s %40s", "#Message ID", "#QID", "#Offset")
    for message in found:
        line("%-50s %4d %40d", message.message_id, message.queue_id, message.offset)


async def query_msg_by_offset(
    admin: Admin,
    topic: TopicOption,
    broker: Annotated[str, Option("-b", "--brokerName", complete="brokers", help="Broker Name.")],
    queue: QueueIdOption,
    offset: Annotated[int, Option("-o", "--offset", min=0, help="Queue Offset.")],
    charset: FormatOption = "UTF-8",
) -> None:
    """Query Message by offset."""
    from pyromq.aio import QueueId

    place = QueueId(admin.client.wire_name(topic), broker, queue)
    await _show_message(admin, await admin.messages.at(place, offset), charset)


async def query_msg_trace_by_id(
    admin: Admin,
    message_id: Annotated[str, Option("-i", "--msgId", help="Message Id.")],
    topic: Annotated[
        str, Option("-t", "--traceTopic", help="The name value of message trace topic.")
    ] = "RMQ_SYS_TRACE_TOPIC",
) -> None:
    """Query a message trace."""
    from pyromq.cli.nouns.trace_rows import trace_row

    form = "%-10s %-20s %-20s %-20s %-10s %-10s"
    line(form, "#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
    for row in map(trace_row, (await admin.messages.trace(message_id, topic=topic))):
        times = exact_time_text(row.get("time_ms") or 0).partition(",")[0]
        status = {"ok": "success", "failed": "failed"}.get(row["result"], row["result"])
        line(
            form,
            row["event"],
            row.get("group") or "",
            row.get("client_host") or "",
            times,
            row.get("cost_ms") or 0,
            status,
        )


async def _show_message(admin: Admin, message: ReceivedMessage, charset: str = "UTF-8") -> None:
    facts = {
        "OffsetID": message.offset_message_id,
        "Topic": message.topic,
        "Tags": f"[{message.tags}]",
        "Keys": f"[{' '.join(message.keys)}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.offset,
        "CommitLog Offset": message.position,
        "Reconsume Times": message.delivery_attempt,
        "Born Timestamp": exact_time_text(message.born_ms),
        "Store Timestamp": exact_time_text(message.stored_ms),
        "Born Host": str(message.born_host),
        "Store Host": str(message.store_host),
        "System Flag": message.sys_flag,
        "Properties": properties_text(dict(message.properties)),
        "Message Body": body_shown(message, charset),
    }
    for name, value in facts.items():
        line("%-20s %s", f"{name}:", str(value))
    line("")
    try:
        explanation = await admin.messages.explain(message.topic, message.message_id)
    except MQError as error:  # the message is there; what became of it is not known
        click.echo(f"no track of it: {shown(error)}", err=True)
        return
    for group in explanation.groups:
        track = _TRACKS[group.state.value]
        line("MessageTrack [consumerGroup=%s, trackType=%s, exceptionDesc=%s]", group.group, track, "null")


# --- many messages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """Which messages, and how much of them."""

    begin: BeginOption = ""
    end: EndOption = ""
    charset: CharsetOption = "UTF-8"
    tags: TagsOption = "*"

    def wanted(self) -> frozenset[str]:
        return frozenset(tag.strip() for tag in self.tags.split("||")) - {"", "*"}

    async def walk(self, admin: Admin, queue: QueueId) -> AsyncIterator[ReceivedMessage]:
        held = await admin.offsets.range(queue)
        begin = await admin.offsets.at(queue, time_in(self.begin)) if self.begin else held.min_offset
        end = await admin.offsets.at(queue, time_in(self.end)) if self.end else held.max_offset
        wanted = self.wanted()
        async for message in admin.messages.walk(queue, begin, end):
            if not wanted or message.tags in wanted:
                yield message


def _print(message: ReceivedMessage, with_body: bool, charset: str) -> None:
    line("%s BODY: %s", message_text(message), body_shown(message, charset) if with_body else "NOT PRINT BODY")


async def print_msg(admin: Admin, *, topic: TopicOption, options: PrintOptions, body: BodyOption = "true") -> None:
    """Print Message Detail."""
    for queue in sorted((await admin.topics.route(topic)).readable_queues(admin.client.wire_name(topic))):
        held = await admin.offsets.range(queue)
        place = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.number}]"
        line("minOffset=%d, maxOffset=%d, %s", held.min_offset, held.max_offset, place)
        async for message in options.walk(admin, queue):
            _print(message, switch(body, default=True), options.charset)
        line("--------------------------------------------------------")


async def print_msg_by_queue(
    admin: Admin,
    *,
    topic: TopicOption,
    broker: Annotated[str, Option("-a", "--brokerName", complete="brokers", help="Broker name.")],
    queue: QueueIdOption,
    options: PrintOptions,
    printing: Annotated[str, Option("-p", "--print", help="Print msg. eg: true | false(default).")] = "",
    body: BodyOption = "",
    by_tag: Annotated[str, Option("-f", "--calculate", help="Calculate by tag. eg: true | false(default).")] = "",
) -> None:
    """Print Message Detail by queueId."""
    from collections import Counter

    from pyromq.aio import QueueId

    counts: Counter[str] = Counter()
    async for message in options.walk(admin, QueueId(admin.client.wire_name(topic), broker, queue)):
        counts[message.tags] += 1
        if switch(printing):
            _print(message, switch(body), options.charset)
    for tag, count in counts.most_common() if switch(by_tag) else ():
        line("Tag: %-30s Count: %d", tag, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedStretch:
    """Where ``consumeMessage`` reads; without options everything."""

    broker: Annotated[str, Option("-b", "--brokerName", complete="brokers", help="Broker name.")] = ""
    queue: Annotated[int | None, Option("-i", "--queueId", min=0, help="Queue Id.")] = None
    offset: Annotated[int | None, Option("-o", "--offset", min=0, help="Queue offset.")] = None
    begin: Annotated[str, Option("-s", "--beginTimestamp", help="Begin timestamp.")] = ""
    end: EndOption = ""
    group: Annotated[str, Option("-g", "--consumerGroup", hidden=True, help="No group moves by it.")] = ""

    def takes(self, queue: QueueId) -> bool:
        return self.broker in ("", queue.broker) and self.queue in (None, queue.number)

    async def bounds(self, admin: Admin, queue: QueueId) -> tuple[int, int]:
        held = await admin.offsets.range(queue)
        first = await admin.offsets.at(queue, time_in(self.begin)) if self.begin else held.min_offset
        last = await admin.offsets.at(queue, time_in(self.end)) if self.end else held.max_offset
        return first if self.offset is None else self.offset, last


async def consume_message(
    admin: Admin,
    *,
    topic: TopicOption,
    count: Annotated[int, Option("-c", "--MessageNumber", min=1, help="Number of message to be consumed.")] = 128,
    stretch: ConsumedStretch,
) -> None:
    """Consume message; no group moves by it."""
    if stretch.offset is not None and (not stretch.broker or stretch.queue is None):
        raise click.UsageError("-o needs the queue: -b and -i")
    left = count
    for queue in sorted((await admin.topics.route(topic)).readable_queues(admin.client.wire_name(topic))):
        if not stretch.takes(queue):
            continue
        async for message in admin.messages.walk(queue, *await stretch.bounds(admin, queue)):
            if not left:
                return
            if left == count:
                line("Consume ok")
            _print(message, True, "UTF-8")
            left -= 1


# --- sending ---------------------------------------------------------------------------------------------------------


def send_message(
    topic: TopicOption,
    body: Annotated[str, Option("-p", "--body", help="UTF-8 string format of the message body.")],
    keys: Annotated[str, Option("-k", "--key", help="Message keys.")] = "",
    tags: Annotated[str, Option("-c", "--tags", help="Message tags.")] = "",
    broker: Annotated[str, Option("-b", "--broker", complete="brokers", help="Send message to target broker.")] = "",
    queue: Annotated[int | None, Option("-i", "--qid", min=0, help="Send message to target queue.")] = None,
    trace: Annotated[str, Option("-m", "--msgTraceEnable", hidden=True, help="Message Trace Enable.")] = "",
    namesrv: NamesrvOption = DEFAULT_NAMESERVER,
) -> None:
    """Send a message."""
    import asyncio

    from pyromq.aio import Message, Producer, QueueId

    if bool(broker) != (queue is not None):
        raise click.UsageError("a queue is chosen with -b and -i together")

    async def run() -> SendReceipt:
        async with Producer(namesrv, group=_GROUP) as producer, explained(producer.client):
            chosen = QueueId(topic, broker, queue) if queue is not None else None
            return await producer.send(Message(topic, body.encode(), tags=tags, keys=keys), queue=chosen)

    sent = asyncio.run(run())
    line(_PLACED, "#Broker Name", "#QID", "#Send Result", "#MsgId")
    line(_PLACED, sent.queue.broker, sent.queue.number, sent.status.name, sent.message_id)


def check_msg_send_rt(
    topic: TopicOption,
    amount: Annotated[int, Option("-a", "--amount", min=1, max=100_000, help="Message amount | default 100.")] = 100,
    size: Annotated[int, Option("-s", "--size", min=1, help="Message size | default 128 Byte.")] = 128,
    namesrv: NamesrvOption = DEFAULT_NAMESERVER,
) -> None:
    """Check message send response time."""
    import asyncio

    from pyromq.aio import Message, Producer

    async def run() -> None:
        spent = []
        async with Producer(namesrv, group=_GROUP) as producer, explained(producer.client):
            line("%-32s  %-4s  %-20s    %s", "#Broker Name", "#QID", "#Send Result", "#RT")
            for _ in range(amount):
                begun_s = clock.in_use.monotonic_s()
                sent = await producer.send(Message(topic, b"a" * size))
                spent.append((clock.in_use.monotonic_s() - begun_s) * 1000)
                line("%-32s  %-4d  %-20s    %d", sent.queue.broker, sent.queue.number, "true", round(spent[-1]))
        later = spent[1:] or spent  # the first one also connects
        line("Avg RT: %.2f", sum(later) / len(later))

    asyncio.run(run())


async def query_cq(
    admin: Admin,
    topic: TopicOption,
    queue: Annotated[int, Option("-q", "--queue", min=0, help="Queue num, ie. 1.")],
    index: Annotated[int, Option("-i", "--index", min=0, help="Start queue index.")],
    count: Annotated[int, Option("-c", "--count", min=1, max=1_000, help="How many.")] = 10,
    broker: Annotated[str, Option("-b", "--broker", metavar="ADDR", help="Broker addr.")] = "",
    group: Annotated[str, Option("-g", "--consumer", complete="groups", help="Consumer group.")] = "",
) -> None:
    """Query cq command."""
    from pyromq.aio import QueueId

    where = broker or (await admin.topics.route(topic)).broker_datas[0].broker_name
    found = await admin.stores.queue_entries(QueueId(topic, where, queue), index, count, group=group)
    line("Queue data: ")
    line("max: %d, min: %d", found.max_queue_index, found.min_queue_index)
    for number, entry in enumerate(found.queue_data, index):
        line("======================================\nidx: %d", number)
        line(
            "ConsumeQueueData{physicOffset=%d, physicSize=%d, tagsCode=%d, eval=%s}",
            *(entry.physic_offset, entry.physic_size, entry.tags_code, str(entry.eval).lower()),
        )
    line("======================================")
