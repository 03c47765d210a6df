"""Tracing: producers and consumers tell the trace topic what became of their messages.

    hook ──record──▶ bounded queue ──packs──▶ a producer of its own ──▶ RMQ_SYS_TRACE_TOPIC

Tracing never holds up and never fails what it traces: a full queue drops records and counts them, a pack that cannot be
sent is given up. The own producer has no hooks, so traces are not traced. ``TraceDispatcher`` belongs to one loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from pyromq.client.core.client import Client
from pyromq.client.core.hooks import ConsumeHook, SendHook
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.transaction import PreparedPlace, TransactionOutcome
from pyromq.errors import MQError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.model.names import GROUP_CHARACTERS_MAX
from pyromq.waiting import set_within
from pyromq.wire.message_id import MalformedMessageIdError, decode_offset_id
from pyromq.wire.trace import (
    DEFAULT_REGION,
    PACK_RECORDS_MAX,
    TRACE_TOPIC,
    ConsumeBegan,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Pack,
    Published,
    TraceRecord,
    TransactionEnded,
    kind_of,
    pack_records,
)

logger = logging.getLogger(__name__)

QUEUE_MAX: Final = 2_048
FLUSH_MS: Final = 5_000
_PACKS_AT_ONCE: Final = 8
_STATES: Final = {
    TransactionOutcome.COMMIT: "COMMIT_MESSAGE",
    TransactionOutcome.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionOutcome.UNKNOWN: "UNKNOW",  # sic
}
_GROUP: Final = "_INNER_TRACE_PRODUCER-"


def trace_topic_of(trace: bool | str) -> str:
    """``True`` means RocketMQ's trace topic, a text another one; empty for no tracing."""
    if isinstance(trace, str):
        return trace
    return TRACE_TOPIC if trace else ""


def tracing_group(group: str) -> str:
    """That of the producer which sends the traces of a group."""
    return (_GROUP + group.replace("%", "_"))[:GROUP_CHARACTERS_MAX]


class TraceSender(Protocol):
    """What of a producer is needed here."""

    async def open(self) -> object: ...

    async def close(self) -> None: ...

    async def send(self, message: Message) -> object: ...


class TraceDispatcher:
    """Takes records from hooks on the loop and sends them in packs. ``dropped`` counts those that are lost."""

    def __init__(self, sender: TraceSender, client: Client, topic: str = TRACE_TOPIC, *, flush_ms: int = FLUSH_MS):
        self._sender = sender
        self._client = client
        self._flush_ms = flush_ms
        self.topic = topic
        self._queue: deque[TraceRecord] = deque()
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.sent = 0
        self.dropped = 0

    async def open(self) -> None:
        """The client must be open."""
        await self._sender.open()
        self._task = self._client.tasks.start(self._run(), name="trace")

    async def close(self) -> None:
        """Sends what there is, for as long as clients may take to close."""
        task, self._task = self._task, None
        if task is None:
            return
        self._is_closing = True
        self._is_due.set()
        if (await asyncio.wait([task], timeout=self._client.settings.close_timeout_ms / 1000))[1]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._queue:
            logger.warning("trace records lost at the end: topic=%s count=%d", self.topic, len(self._queue))
            self.dropped += len(self._queue)
            self._queue.clear()
        await self._sender.close()

    def add(self, record: TraceRecord) -> None:
        """Add a trace record; it never waits and never raises."""
        if len(self._queue) >= QUEUE_MAX or self._is_closing:
            if not self.dropped:
                logger.warning("trace records are dropped: topic=%s waiting=%d", self.topic, len(self._queue))
            self.dropped += 1
            return
        self._queue.append(record)
        if len(self._queue) >= PACK_RECORDS_MAX:
            self._is_due.set()

    async def _run(self) -> None:
        is_last = False
        while not is_last:
            await set_within(self._is_due, self._flush_ms / 1000)
            is_last = self._is_closing
            self._is_due.clear()
            while self._queue:
                await self._send_some()

    async def _send_some(self) -> None:
        packs = pack_records(islice(self._queue, PACK_RECORDS_MAX * _PACKS_AT_ONCE))
        await asyncio.gather(*[self._send(pack) for pack in packs])
        for _ in range(sum(pack.records for pack in packs)):
            self._queue.popleft()

    async def _send(self, pack: Pack) -> None:
        try:
            await self._sender.send(Message(self.topic, pack.body, keys=pack.keys))
            self.sent += pack.records
        except Exception as error:  # a mistake of ours must not cost what is traced
            self.dropped += pack.records
            facts = (self.topic, pack.records, error)
            expected = isinstance(error, MQError)
            logger.warning("trace records lost: topic=%s count=%d error=%r", *facts, exc_info=not expected)


# --- hooks ---------------------------------------------------------------------------------------------------------


class ProducerTrace(SendHook):
    """What a producer sent, and what it said about its transactions."""

    def __init__(
        self, dispatcher: TraceDispatcher, client: Client, group: str, *, sends_prepared: bool = False
    ) -> None:
        self._dispatcher = dispatcher
        self._client = client
        self._clock = client.clock
        self._group = group
        self._sends_prepared = sends_prepared

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        """A send that no broker confirmed has no id to be found by, and leaves no record, as with RocketMQ."""
        if receipt is None or receipt.queue.topic == self._dispatcher.topic:
            return
        record = Published(
            time_ms=self._clock.now_ms() - elapsed_ms,
            region=receipt.region or DEFAULT_REGION,
            group=self._group,
            topic=self._client.plain_name(receipt.queue.topic),
            message_id=receipt.message_id,
            tags=message.tags,
            keys=" ".join(message.keys),
            store_host=_host_of(receipt.offset_message_id),
            body_bytes=len(message.body),
            cost_ms=elapsed_ms,
            kind=MessageKind.PREPARED if self._sends_prepared else kind_of(message),
            offset_message_id=receipt.offset_message_id,
            is_success=True,  # there is a receipt: the broker has it, however safely
        )
        self._dispatcher.add(record)

    def transaction_ended(
        self, place: PreparedPlace, outcome: TransactionOutcome, message: Message | ReceivedMessage
    ) -> None:
        """The broker has the outcome."""
        self._dispatcher.add(
            TransactionEnded(
                time_ms=self._clock.now_ms(),
                group=self._group,
                topic=self._client.plain_name(place.topic),
                message_id=place.message_id,
                transaction_id=place.transaction_id,
                state=_STATES[outcome],
                tags=message.tags,
                keys=" ".join(message.keys),
                store_host=str(message.store_host) if isinstance(message, ReceivedMessage) else "",
                is_from_check=place.is_from_check,
            )
        )


class ConsumerTrace(ConsumeHook):
    """What listeners got, and how they ended."""

    def __init__(self, dispatcher: TraceDispatcher, client: Client, group: str) -> None:
        self._dispatcher = dispatcher
        self._client = client
        self._group = group

    def before_consume(self, messages: Sequence[ReceivedMessage]) -> object:
        """Returns what pairs the two records of a call."""
        now_ms = self._client.clock.now_ms()
        request_id = self._client.message_ids.next(now_ms)
        for message in filter(self._is_traced, messages):
            self._dispatcher.add(
                ConsumeBegan(
                    time_ms=now_ms,
                    region=message.get(names.REGION) or DEFAULT_REGION,
                    group=self._group,
                    request_id=request_id,
                    message_id=message.message_id,
                    delivery_attempt=message.delivery_attempt,
                    keys=" ".join(message.keys),
                )
            )
        return request_id

    def after_consume(self, messages: Sequence[ReceivedMessage], began: object, code: int, elapsed_ms: int) -> None:
        now_ms = self._client.clock.now_ms()
        for message in filter(self._is_traced, messages):
            self._dispatcher.add(
                ConsumeEnded(
                    request_id=str(began),
                    message_id=message.message_id,
                    cost_ms=elapsed_ms // max(1, len(messages)),  # each message's share, as RocketMQ reports it
                    is_success=code == ConsumeCode.SUCCESS,
                    keys=" ".join(message.keys),
                    code=ConsumeCode(code),
                    time_ms=now_ms,
                    group=self._group,
                )
            )

    def _is_traced(self, message: ReceivedMessage) -> bool:
        return message.get(names.TRACE_ON) != "false" and message.stored_topic != self._dispatcher.topic


def _host_of(offset_message_id: str) -> str:
    try:
        return str(decode_offset_id(offset_message_id.partition(",")[0])[0])
    except MalformedMessageIdError:
        return ""
