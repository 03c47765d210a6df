"""The resend engine: look whether a copy is there, send it, verify where no response came.

look ──found──▶ SENT_BEFORE
  └─ send ──stored──▶ SENT
       ├─ refused, or never left ──▶ FAILED
       └─ no response ──▶ verify ──found──▶ SENT    not found ──▶ UNKNOWN: it may appear later
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Final

import msgspec

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.raw_send import queue_for, send_raw
from pyromq.errors import ConnectFailedError, MQError, NoRouteError, ProtocolError, TooManyRequestsError, TransportError
from pyromq.model import property_names as names
from pyromq.model.names import retry_topic
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import COPIED_FROM, Item, Outgoing, copy_id, first_topic, outgoing, source_of
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.property_text import join_items
from pyromq.wire.send_statuses import SEND_STATUSES

TOOLS_PRODUCER: Final = "PYROMQ_TOOLS"
_NEVER_LEFT: Final = (ConnectFailedError, TooManyRequestsError, NoRouteError)


def leaves_doubt(error: MQError) -> bool:
    """Whether what was asked for may have been done all the same: the request left, and no response came."""
    return isinstance(error, TransportError) and not isinstance(error, _NEVER_LEFT)


class Resender:
    """Sends copies of stored messages as the producer group ``producer``."""

    def __init__(self, client: Client, stored: StoredMessages, producer: str = TOOLS_PRODUCER) -> None:
        self._client = client
        self._stored = stored
        self._producer = producer

    async def resend(self, message: Item, *, dry_run: bool = False) -> ItemOutcome:
        """Send a copy, or with ``dry_run`` say what would be done; an outcome that is decided passes through.

        Raises no MQError: what went wrong is in the outcome.
        """
        if isinstance(message, ItemOutcome):
            return message
        try:
            return await (self.look(message) if dry_run else self.attempt(message))
        except MQError as error:
            return await self.settle(message, error)

    async def look(self, message: Outgoing) -> ItemOutcome:
        """Return SENT_BEFORE or WOULD_SEND. Raises MQError."""
        was_sent = message.is_checked and await self.was_sent(
            message.sent_to or (message.topic,), message.sent_as or (message.message_id,)
        )
        return message.source.ended(ItemStatus.SENT_BEFORE if was_sent else ItemStatus.WOULD_SEND)

    async def attempt(self, message: Outgoing) -> ItemOutcome:
        """Look, then send once. Raises MQError; ``settle`` says what it means."""
        found = await self.look(message)
        if found.status is ItemStatus.SENT_BEFORE:
            return found
        client = self._client
        queue = await queue_for(client, message.topic, message.sharding_key)
        ready = OutgoingMessage(
            SEND, queue.topic, message.body, join_items(message.properties), message.message_id,
            client.clock.now_ms(), 0, message.flag, message.sys_flag,
        )  # fmt: skip
        response = await send_raw(client, ready, queue, group=self._producer)
        sent = msgspec.structs.replace(
            message.source, status=ItemStatus.SENT, stored=SEND_STATUSES[response.code], to_queue=queue.broker
        )
        with suppress(ProtocolError):  # a broker that does not say where it is has it all the same
            told = response.header_as(SendResponseHeader)
            place = f"{queue.broker}:{told.queue_id}"
            return msgspec.structs.replace(sent, to_queue=place, to_offset=told.queue_offset)
        return sent

    async def settle(self, message: Outgoing, error: MQError) -> ItemOutcome:
        """Return the outcome of an attempt that raised; a copy that arrived without a response is found."""
        if not leaves_doubt(error):
            return message.source.ended(ItemStatus.FAILED, str(error))
        try:
            if await self.was_sent((message.topic,), (message.message_id,)):
                return message.source.ended(ItemStatus.SENT)
        except MQError:
            pass  # nobody can be asked: the doubt stays
        return message.source.ended(ItemStatus.UNKNOWN, str(error))

    async def was_sent(self, topics: Iterable[str], message_ids: Iterable[str]) -> bool:
        """Whether one of these topics has a message under one of these ids. Raises MQError."""
        for topic, message_id in product(topics, message_ids):
            if await self._stored.copies(self._client.wire_name(topic), message_id):
                return True
        return False


def copy_of(
    client: Client,
    message: ReceivedMessage,
    *,
    topic: str = "",
    group: str = "",
    run_id: str = "",
    is_checked: bool = True,
) -> Outgoing:
    """Return the copy of a message for its own topic, for ``topic``, or for ``group`` alone (its retry topic).

    With the same ``run_id`` it has the same id, so that a run that goes on finds what was sent; other runs make other
    copies.
    """
    home = topic or first_topic(client, message)
    target = retry_topic(group) if group else home
    marks = [(COPIED_FROM, message.offset_message_id)]
    if group:
        marks.append((names.RETRY_TOPIC, client.wire_name(home)))
    source = msgspec.structs.replace(
        source_of(message), to_topic=target, new_message_id=copy_id(message, target, run_id)
    )
    return outgoing(message, source, marks, is_checked=is_checked)
