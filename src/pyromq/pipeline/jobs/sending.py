"""Sending messages again: with ids that follow from the message, at a set rate, with a word on each.

The ids are the same whoever sends when, so what was sent before can be found, and consumers can recognise what comes
twice. A failed send is tried again for a while, then told of; the others go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from pyromq.client.admin import Admin
from pyromq.client.admin.dead_letters import application_properties
from pyromq.client.client import Client
from pyromq.client.errors import NotFoundError, TopicNotFoundError
from pyromq.client.letters import SEND, Letter, header_fields, system_text
from pyromq.client.selectors import hashed_index
from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError
from pyromq.model import property_names as names
from pyromq.model.names import DEFAULT_TOPIC
from pyromq.model.queue import QueueId
from pyromq.pipeline.connections import Connected, connect
from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.pacing import Pacer
from pyromq.pipeline.options import Use, parse_options
from pyromq.pipeline.patience import Patience
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader

PRODUCER: Final = "PYROMQ_PIPELINE"
_STORED: Final = (
    0,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
COLUMNS: Final = ("topic", "message_id", "offset_message_id", "keys", "tags", "flag", "properties", "body")
"""What of a message it takes to send it again."""


class MessageRow(Protocol):
    """Of a DataFrame, or a plain dict."""

    def __getitem__(self, column: str, /) -> Any: ...


class SendOutcome(StrEnum):
    SENT = "sent"
    WOULD_SEND = "would send"
    SENT_BEFORE = "sent before"
    FAILED = "failed"
    HELD_BACK = "held back"


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message; ``offset_message_id`` is where it stands in the log it was read from."""

    message_id: str
    offset_message_id: str
    keys: str
    outcome: SendOutcome
    to_topic: str = ""
    new_message_id: str = ""
    queue: str = ""
    offset: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way; ``source`` tells of where it comes from."""

    source: Resent
    topic: str
    message_id: str
    body: bytes
    properties: tuple[tuple[str, str], ...]
    flag: int = 0

    @property
    def sharding_key(self) -> str:
        return dict(self.properties).get(names.SHARDING_KEY, "")


def source_of(row: MessageRow, outcome: SendOutcome, **more: Any) -> Resent:
    """``row`` has the columns above."""
    return Resent(
        message_id=row["message_id"] or "",
        offset_message_id=row["offset_message_id"],
        keys=row["keys"] or "",
        outcome=outcome,
        **more,
    )


def outgoing(row: MessageRow, topic: str, message_id: str, marks: Sequence[tuple[str, str]]) -> Outgoing | Resent:
    """The message to send for a row; what the system did to it is gone, ``marks`` are added. Resent if it cannot be."""
    body = row["body"]
    if not body:
        reason = "its body is empty" if body is not None else "its body cannot be decompressed"
        return source_of(row, SendOutcome.FAILED, to_topic=topic, error=reason)
    marked = {name for name, _ in marks}
    kept = [(name, value) for name, value in application_properties(row["properties"]) if name not in marked]
    properties = ((names.UNIQUE_KEY, message_id), *marks, *kept)
    source = source_of(row, SendOutcome.SENT, to_topic=topic, new_message_id=message_id)
    return Outgoing(source, topic, message_id, bytes(body), properties, row["flag"] or 0)


def derived_id(kind: str, *parts: str) -> str:
    """32 hexadecimal digits that only these parts give."""
    text = "\0".join(parts).encode()
    return hashlib.blake2b(text, digest_size=16, person=kind.encode()[:16]).hexdigest().upper()


class Sender:
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
        self._clock, self._sleep, self._check_sent = clock or SystemClock(), sleep, check_sent
        self._pacer = Pacer(rate, self._clock)
        self._connected: Connected | None = None

    @property
    def connected(self) -> Connected:
        if self._connected is None or not self._connected.is_usable:
            self._connected = connect(self._options)
        return self._connected

    def send_all(
        self, messages: Iterable[Outgoing | Resent], *, total: int | None = None, tell: Tell = silent
    ) -> Iterator[Resent]:
        """In order, chunk by chunk; what is no message to send passes through."""
        done = 0
        for chunk in _chunks(messages, self._pacer.chunk):
            ready = [each for each in chunk if isinstance(each, Outgoing)]
            if wait_ms := self._pacer.wait_ms(len(ready)):
                self._sleep(wait_ms / 1000)
            outcomes = iter(self.connected.call(self._send_chunk(ready)) if ready else ())
            for each in chunk:
                yield next(outcomes) if isinstance(each, Outgoing) else each
            done += len(chunk)
            tell(done, total)

    def committed(self, group: str, queue: QueueId) -> int | None:
        """Where a group stands."""
        return self.connected.call(Admin(client=self.connected.client).committed(group, queue))

    async def _send_chunk(self, chunk: Sequence[Outgoing]) -> list[Resent]:
        return await asyncio.gather(*(self._send_surely(each) for each in chunk))

    async def _send_surely(self, message: Outgoing) -> Resent:
        patience = Patience(f"sending to topic {message.topic}", self._options.retry_ms, self._clock)
        while True:
            try:
                return await self._send(message)
            except MQError as error:
                try:
                    wait_ms = patience.failed(error)
                except MQError as last:
                    return msgspec.structs.replace(message.source, outcome=SendOutcome.FAILED, error=str(last))
                await asyncio.sleep(wait_ms / 1000)

    async def _send(self, message: Outgoing) -> Resent:
        client = self.connected.client
        if self._check_sent and await _is_there(client, message):
            return msgspec.structs.replace(message.source, outcome=SendOutcome.SENT_BEFORE)
        queue = await self._queue_for(client, message)
        letter = Letter(
            SEND, queue.topic, message.body, system_text(message.properties), message.message_id,
            client.clock.now_ms(), 0, message.flag, 0,
        )  # fmt: skip
        ext = header_fields(letter, queue, PRODUCER, DEFAULT_TOPIC, "4")
        link = client.master_link(queue.broker)
        answer = await client.ask(link, RequestCode.SEND_MESSAGE_V2, ext, message.body, expect=_STORED)
        told = answer.header_as(SendResponseHeader)
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
    try:
        await Admin(client=client).message_by_unique_key(message.topic, message.message_id)
    except (NotFoundError, TopicNotFoundError):
        return False
    return True


def _chunks(messages: Iterable[Outgoing | Resent], size: int) -> Iterator[list[Outgoing | Resent]]:
    chunk: list[Outgoing | Resent] = []
    for message in messages:
        chunk.append(message)
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
