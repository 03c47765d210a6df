"""Rate-limited sender of ``replay`` and ``redrive``, with an outcome for each message.

A failed send is tried again for a while, then reported; the others go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import msgspec

from pyromq.client.admin import Admin
from pyromq.client.core.client import Client
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.selectors import hashed_index
from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError, NotFoundError, TopicNotFoundError
from pyromq.model.names import DEFAULT_TOPIC
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.connections import Connected, connect
from pyromq.pipeline.core.options import Use, parse_options
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.resending.outgoing import Outgoing, Resent, SendOutcome
from pyromq.pipeline.jobs.resending.pacing import CHUNK_MAX, Pacer
from pyromq.wire.codes import RequestCode
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.property_text import join_items
from pyromq.wire.send_statuses import STORED_CODES

PRODUCER: Final = "PYROMQ_PIPELINE"


class PacedSender:
    """Sends in chunks at a rate. ``check_sent``: look first whether the id is in the topic already."""

    def __init__(
        self,
        nameserver: str,
        options: Mapping[str, str],
        *,
        rate: float | None = None,
        check_sent: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        given = {"topic": "any", **({"nameserver": nameserver} if nameserver else {}), **options}
        self._options = parse_options(given, Use.BATCH)
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._check_sent = check_sent
        self._pacer = Pacer(rate, self._clock)
        self._connected: Connected | None = None
        self._missing: dict[str, str] = {}  # topics that were waited for in vain, once for all their messages

    @property
    def connected(self) -> Connected:
        if self._connected is None or not self._connected.is_usable:
            self._connected = connect(self._options)
        return self._connected

    def send_all(
        self, messages: Iterable[Outgoing | Resent], *, done: int = 0, total: int | None = None, tell: Tell = silent
    ) -> Iterator[Resent]:
        """In order, chunk by chunk; what is no message to send passes through. ``done`` were done before."""
        for chunk in _chunks(messages, self._pacer.chunk):
            if wait_ms := self._pacer.wait_ms(sum(isinstance(each, Outgoing) for each in chunk)):
                self._sleep(wait_ms / 1000)
            yield from self._each(chunk, self._send)
            done += len(chunk)
            tell(done, total)

    def look_all(self, messages: Iterable[Outgoing | Resent]) -> Iterator[Resent]:
        """What ``send_all`` would do, without doing it."""
        for chunk in _chunks(messages, CHUNK_MAX):
            yield from self._each(chunk, self._look)

    def _each(
        self, chunk: Sequence[Outgoing | Resent], work: Callable[[Outgoing], Awaitable[Resent]]
    ) -> Iterator[Resent]:
        """All at once, but for messages with the same sharding key: those go one after the other."""
        found: dict[int, Resent] = {}

        async def one_after_the_other(numbered: Iterable[tuple[int, Outgoing]]) -> None:
            for number, message in numbered:
                found[number] = await self._surely(message, work)

        async def all_of(lanes: Iterable[Iterable[tuple[int, Outgoing]]]) -> None:
            await asyncio.gather(*map(one_after_the_other, lanes))

        if lanes := _lanes(chunk):
            self.connected.call(all_of(lanes))
        for number, each in enumerate(chunk):
            yield each if isinstance(each, Resent) else found[number]

    def committed(self, group: str, queue: QueueId) -> int | None:
        """Where a group stands."""
        return self.connected.call(Admin(client=self.connected.client).committed(group, queue))

    async def _surely(self, message: Outgoing, work: Callable[[Outgoing], Awaitable[Resent]]) -> Resent:
        window = RetryWindow(f"sending to topic {message.topic}", self._options.retry_ms, self._clock)
        while message.topic not in self._missing:
            try:
                return await work(message)
            except MQError as error:
                try:
                    wait_ms = window.failed(error)
                except MQError as last:
                    if not isinstance(error, TopicNotFoundError):
                        return msgspec.structs.replace(message.source, outcome=SendOutcome.FAILED, error=str(last))
                    self._missing[message.topic] = str(last)
                    break
                await asyncio.sleep(wait_ms / 1000)
        error_text = self._missing[message.topic]
        return msgspec.structs.replace(message.source, outcome=SendOutcome.FAILED, error=error_text)

    async def _look(self, message: Outgoing) -> Resent:
        was_sent = self._check_sent and await _is_there(self.connected.client, message)
        outcome = SendOutcome.SENT_BEFORE if was_sent else SendOutcome.WOULD_SEND
        return msgspec.structs.replace(message.source, outcome=outcome)

    async def _send(self, message: Outgoing) -> Resent:
        client = self.connected.client
        if self._check_sent and await _is_there(client, message):
            return msgspec.structs.replace(message.source, outcome=SendOutcome.SENT_BEFORE)
        queue = await self._queue_for(client, message)
        outgoing = OutgoingMessage(
            SEND, queue.topic, message.body, join_items(message.properties), message.message_id,
            client.clock.now_ms(), 0, message.flag, 0,
        )  # fmt: skip
        ext = header_fields(outgoing, queue, PRODUCER, DEFAULT_TOPIC, "4")
        link = client.master_link(queue.broker)
        response = await client.ask(link, RequestCode.SEND_MESSAGE_V2, ext, message.body, expect=STORED_CODES)
        told = response.header_as(SendResponseHeader)
        place = f"{queue.broker}:{told.queue_id}"
        return msgspec.structs.replace(message.source, queue=place, offset=told.queue_offset)

    async def _queue_for(self, client: Client, message: Outgoing) -> QueueId:
        name = client.wire_name(message.topic)
        route = await client.routes.get(name, timeout_ms=self._options.request_ms)
        queues = route.publishable_queues(name)
        if not queues:
            raise TopicNotFoundError(message.topic, f"topic {message.topic} has no queue to write to")
        key = message.sharding_key
        return queues[hashed_index(key, len(queues)) if key else client.rng.randrange(len(queues))]


async def _is_there(client: Client, message: Outgoing) -> bool:
    for topic, message_id in product(message.sent_to or (message.topic,), message.sent_as or (message.message_id,)):
        try:
            await Admin(client=client).message_by_unique_key(topic, message_id)
        except (NotFoundError, TopicNotFoundError):
            continue
        return True
    return False


def _lanes(chunk: Sequence[Outgoing | Resent]) -> list[list[tuple[int, Outgoing]]]:
    """Messages and their numbers in the chunk, together where their order matters."""
    lanes: dict[str | int, list[tuple[int, Outgoing]]] = {}
    for number, each in enumerate(chunk):
        if isinstance(each, Outgoing):
            lanes.setdefault(each.sharding_key or number, []).append((number, each))
    return list(lanes.values())


def _chunks(messages: Iterable[Outgoing | Resent], size: int) -> Iterator[list[Outgoing | Resent]]:
    chunk: list[Outgoing | Resent] = []
    for message in messages:
        chunk.append(message)
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
