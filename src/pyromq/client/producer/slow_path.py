"""The slow path of a send: hooks, compression, a queue of the caller's choice, attempts until a broker has it."""

from __future__ import annotations

import asyncio
from typing import Final

from pyromq.client.producer.outgoing import SEND, SEND_REPLY, OutgoingMessage, check_body, pack_body
from pyromq.client.producer.selectors import QueueSelector, by_sharding_key
from pyromq.client.producer.send_context import SendContext
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.errors import MessageRefusedError
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.wire.fast.message_properties import properties_text
from pyromq.wire.flags import SysFlag

_PREPARED: Final = int(SysFlag.PREPARED)
_LONG_COMPRESSION_BYTES: Final = 64 * 1024  # larger bodies are compressed on a thread: it would hold up the loop


class SlowPath:
    """Slow path of one producer's sends; ``retries`` None means those of its settings."""

    def __init__(self, context: SendContext, retries: int | None = None) -> None:
        self._retries = retries
        self._client = context.client
        self._settings = context.settings
        self._topic_queues_table = context.topic_queues_table
        self._retrying_sender = context.retrying_sender
        self._hooks = context.hooks
        self._system = context.system  # properties that all messages have
        self._clock = context.client.clock

    async def send(
        self,
        message: Message,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
        system: str = "",
        *,
        code: int = SEND,
        sys_flag: int = 0,
    ) -> SendReceipt:
        """Send a message with routes, attempts and hooks. Raises SendFailedError, NoRouteError, MessageRefusedError and
        what hooks and selectors raise.
        """
        with self._hooks.around([message], is_prepared=bool(sys_flag & _PREPARED)) as send:
            message = send.messages[0]
            outgoing = await self._outgoing(message, timeout_ms, system, code, sys_flag)
            attempts = self._retrying_sender.attempts_of(outgoing, is_pinned=False)
            send.failed = attempts.failed
            topic_queues = await self._retrying_sender.topic_queues(outgoing, message.topic, attempts)
            pinned = pinned_queue(message, topic_queues, queue, selector)
            attempts.is_pinned = pinned is not None
            send.receipts.append(await self._retrying_sender.deliver(outgoing, message.topic, pinned, attempts))
        return send.receipts[0]

    async def send_oneway(self, message: Message, queue: QueueId | None, selector: QueueSelector | None) -> None:
        """One attempt, no response: hooks may change the message, but there is no outcome to report to them."""
        timeout_ms = self._settings.answer_ms
        with self._hooks.around_oneway(message) as send:
            message = send.messages[0]
            outgoing = await self._outgoing(message, timeout_ms)
            topic_queues = await self._topic_queues_table.find(message.topic, timeout_ms)
            chosen = pinned_queue(message, topic_queues, queue, selector) or topic_queues.next()
            connection = await self._retrying_sender.connection(topic_queues, chosen, timeout_ms)
            connection.request_oneway(outgoing.code, self._retrying_sender.ext(outgoing, chosen), outgoing.body)

    async def _outgoing(
        self, message: Message, timeout_ms: int | None, system: str = "", code: int = SEND, sys_flag: int = 0
    ) -> OutgoingMessage:
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        deadline_ms = monotonic_ms + (timeout_ms or self._settings.answer_ms)
        restart_deadline_ms = monotonic_ms + (timeout_ms or self._settings.longest_ms)
        unique_id = self._client.message_ids.next(now_ms)
        text = properties_text(message, unique_id, self._system + system)
        body, packing = message.body, 0
        if len(body) >= self._settings.compress_from_bytes:
            if len(body) > _LONG_COMPRESSION_BYTES:
                body, packing = await asyncio.to_thread(pack_body, body, self._settings)
            else:
                body, packing = pack_body(body, self._settings)
        check_body(body, self._settings.body_bytes_max)
        topic = message.topic if code == SEND_REPLY else self._client.wire_name(message.topic)
        return OutgoingMessage(
            code, topic, body, text, unique_id, now_ms, deadline_ms, message.flag, sys_flag | packing, self._retries,
            restart_deadline_ms,
        )  # fmt: skip


def pinned_queue(
    message: Message, topic_queues: TopicQueues, queue: QueueId | None, selector: QueueSelector | None = None
) -> QueueId | None:
    """The only queue that a message may go to; None when any will do. Raises MessageRefusedError."""
    if queue is not None:
        if queue.topic != topic_queues.topic and queue.topic != message.topic:
            raise MessageRefusedError(f"a message to {message.topic} cannot go to a queue of {queue.topic}")
        return queue
    if selector is None and message.sharding_key:
        selector = by_sharding_key
    return selector(message, topic_queues.queues) if selector else None
