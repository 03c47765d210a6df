"""Kombu's channel: queues, bindings, sends, and what becomes of delivered messages."""

from __future__ import annotations

import logging
import re
from queue import Empty
from typing import Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.json import dumps

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.integrations.celery.messages import due_ms_of, payload_of
from pyromq.integrations.celery.sources import QueueSource

logger = logging.getLogger(__name__)

EVENT_EXCHANGES: Final = ("celeryev",)
"""Exchanges that are listened to, besides those of type fanout and Kombu's own for replies."""
_GET_MS: Final = 10_000  # until a queue is ours that is asked for a single message; others may have to hand it over
_is_reply = re.compile(r"reply\..+\.pidbox").fullmatch


class QoS(virtual.QoS):
    """What was delivered and not acknowledged; the broker delivers it again if nothing is said about it."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.finish(delivery_tag, "ack")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.channel.finish(delivery_tag, "retry" if requeue else "dead")
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        while self._delivered:
            self.channel.finish(self._delivered.popitem()[0], "release")
        return []


class Channel(virtual.Channel):
    """Kombu's channel; queues and their consumers belong to the connection."""

    QoS = QoS
    supports_fanout = True
    do_restore = False  # what was not acknowledged is still at the broker

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._unacknowledged: dict[str, tuple[QueueSource, ReceivedMessage]] = {}  # by delivery tag
        self._no_ack: set[str] = set()  # queues whose messages are done when they are delivered

    # --- queues ---

    def _new_queue(self, queue: str, exclusive: bool = False, auto_delete: bool = False, **kwargs: Any) -> None:
        if exclusive or auto_delete:
            self.connection.transient.add(queue)
        else:
            self.connection.queues.declare(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return queue in self.connection.transient or bool(self.connection.queues.exists(queue))

    def _size(self, queue: str) -> int:
        return 0 if queue in self.connection.transient else int(self.connection.queues.size(queue))

    def _purge(self, queue: str) -> int:
        return 0 if queue in self.connection.transient else int(self.connection.queues.purge(queue))

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        self.connection.stop_listening(queue)
        self._purge(queue)

    def after_reply_message_received(self, queue: str) -> None:
        """The queue for replies stays: the next question may be answered before it could be there again."""

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if self._is_listened_to(exchange):
            if queue not in self.connection.transient:
                text = "queue is bound to an exchange that is listened to, it gets what is sent while it is consumed"
                logger.warning("%s: queue=%s exchange=%s", text, queue, exchange)
            kind = self.state.exchanges[exchange]["type"]
            tag = routing_key if kind == "direct" else ""
            self.connection.listen(queue, exchange, tag, re.compile(pattern) if kind == "topic" else None)

    def _is_listened_to(self, exchange: str) -> bool:
        known = self.state.exchanges.get(exchange, {})
        return known.get("type") == "fanout" or exchange in EVENT_EXCHANGES or bool(_is_reply(exchange))

    # --- sending ---

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Returns when the broker has it on disk."""
        if exchange and self._is_listened_to(exchange):
            self._inplace_augment_message(message, exchange, routing_key)
            self._put_fanout(exchange, message, routing_key)
        else:
            super().basic_publish(message, exchange, routing_key, **kwargs)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        self.connection.queues.publish(exchange, dumps(message).encode(), tag=routing_key)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        headers = message.get("headers") or {}
        self.connection.queues.put(
            queue,
            dumps(message).encode(),
            task=headers.get("task") or "",
            task_id=headers.get("id") or message.get("properties", {}).get("correlation_id") or "",
            due_ms=due_ms_of(headers.get("eta")),
        )

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        found: list[str] = super()._lookup(exchange, routing_key, default)
        if not found:
            text = f"no queue is bound to exchange {exchange!r} with key {routing_key!r} in this process"
            raise ChannelError(f"{text}: the message would be lost. Declare the queue, or publish to it by its name")
        return found

    # --- receiving ---

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> None:
        if no_ack:
            self._no_ack.add(queue)
        self.connection.consume(queue, listens_only=queue in self.connection.transient)
        super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None:
            self._no_ack.discard(queue)
            self.connection.cancel(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """A single message; the queue is ours until it is acknowledged, unless it is consumed anyway."""
        is_consumed = self.connection.is_consumed(queue)
        if not is_consumed:
            if not self._size(queue):
                return None
            self.connection.consume(queue, wait_ms=_GET_MS)
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.finish(message.delivery_tag, "ack")
        if not is_consumed:
            self.connection.cancel(queue)
        return message

    def basic_qos(self, *args: Any, **kwargs: Any) -> None:
        super().basic_qos(*args, **kwargs)
        self.connection.wake()

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        found = self.connection.next_of(queue, self.qos.can_consume_max_estimate())
        if found is None:
            raise Empty
        source, message = found
        payload = payload_of(message, self.connection.now_ms())
        if payload is None:
            if source is not None:
                logger.error("message is none of Kombu's, dead letter: queue=%s id=%s", queue, message.message_id)
                source.finish("dead", message)
            raise Empty
        properties = payload["properties"]
        properties["delivery_tag"] = tag = self._next_delivery_tag()
        if source is not None:
            properties.setdefault("delivery_info", {})["redelivered"] = source.may_be_repeated(message)
            self._unacknowledged[tag] = (source, message)
            if queue in self._no_ack:
                self.finish(tag, "ack")
        return payload

    def finish(self, delivery_tag: str, word: str) -> None:
        """What becomes of a delivered message: ack, retry, dead or release; the first word counts."""
        source, message = self._unacknowledged.pop(delivery_tag, (None, None))
        if source is not None and message is not None:
            source.finish(word, message)

    def close(self) -> None:
        """What was not acknowledged is delivered again, to whoever consumes its queue."""
        was_closed = self.closed
        super().close()
        if not was_closed:
            for tag in list(self._unacknowledged):
                self.finish(tag, "release")
