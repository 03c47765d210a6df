"""Batches: many messages of one topic in as few requests as fit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pyromq.client.producer.outgoing import SEND_BATCH, OutgoingMessage, split_batch
from pyromq.client.producer.send_context import SendContext
from pyromq.client.producer.slow_path import pinned_queue
from pyromq.errors import RemoteProtocolError, SendFailedError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.wire.property_text import join_items


class BatchSender:
    """Sends the batches of one producer."""

    def __init__(self, context: SendContext) -> None:
        self._client = context.client
        self._settings = context.settings
        self._retrying_sender = context.retrying_sender
        self._hooks = context.hooks
        self._system = context.system  # properties that all messages have
        self._clock = context.client.clock

    async def send(
        self, messages: Sequence[Message], queue: QueueId | None, timeout_ms: int | None
    ) -> list[SendReceipt]:
        """``check_batch`` has passed them. Raises SendFailedError, whose ``sent`` are receipts of requests before."""
        first, now_ms, monotonic_ms = messages[0], self._clock.now_ms(), self._clock.monotonic_ms()
        deadline_ms = monotonic_ms + (timeout_ms or self._settings.answer_ms)
        restart_deadline_ms = monotonic_ms + (timeout_ms or self._settings.longest_ms)
        ids = [self._client.message_ids.next(now_ms) for _ in messages]
        wait = "" if first.wait_stored else join_items([(names.WAIT, "false")])
        topic = self._client.wire_name(first.topic)
        with self._hooks.around(messages) as send:
            receipts = send.receipts
            for part in split_batch(send.messages, ids, self._system, self._settings.body_bytes_max):
                outgoing = OutgoingMessage(
                    SEND_BATCH, topic, part.body, wait, ",".join(part.unique_ids), now_ms, deadline_ms,
                    restart_deadline_ms=restart_deadline_ms,
                )  # fmt: skip
                attempts = self._retrying_sender.attempts_of(outgoing, is_pinned=False)
                try:
                    topic_queues = await self._retrying_sender.topic_queues(outgoing, first.topic, attempts)
                    pinned = pinned_queue(first, topic_queues, queue)
                    attempts.is_pinned = pinned is not None
                    receipt = await self._retrying_sender.deliver(outgoing, first.topic, pinned, attempts)
                except SendFailedError as error:
                    raise SendFailedError(topic, error.attempts, sent=receipts) from error
                finally:
                    send.failed += attempts.failed
                deadline_ms = attempts.deadline_ms  # later than before if it waited for a broker
                receipts += receipts_of_batch(receipt, part.unique_ids)
        return receipts


def receipts_of_batch(receipt: SendReceipt, unique_ids: Sequence[str]) -> list[SendReceipt]:
    """One for each message. Raises RemoteProtocolError for a response about other messages than were sent."""
    offset_ids = receipt.offset_message_id.split(",")
    if len(offset_ids) != len(unique_ids):
        raise RemoteProtocolError(f"{len(unique_ids)} messages were sent, the response names {len(offset_ids)}")
    return [
        msgspec.structs.replace(
            receipt, message_id=unique_id, offset_message_id=offset_id, offset=receipt.offset + number
        )
        for number, (unique_id, offset_id) in enumerate(zip(unique_ids, offset_ids, strict=True))
    ]
