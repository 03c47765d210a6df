"""The fast path of a send: one encoded frame and one future, no task, no lock.

It is open to usual messages, when the route is known and the connection is there. Speed is all it is for: what it needs
of others is looked up once, and whatever is special, and every failure, is left to the slow path.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.client.producer.send_context import SendContext
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.compiled_core import SendFrame, SentFacts
from pyromq.errors import TransportError
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from pyromq.net import Connection
from pyromq.wire.command import encode_request
from pyromq.wire.fast.message_properties import properties_text
from pyromq.wire.frame import SerializeType
from pyromq.wire.received import Received

Begun = tuple[OutgoingMessage, QueueId, Connection, asyncio.Future[Received[Any] | SentFacts]]
"""A send that waits for its response, or for what the compiled core reads of it."""


class FastPath:
    """``is_open`` belongs to the producer: while it is false, every message takes the slow path."""

    def __init__(self, context: SendContext) -> None:
        client, settings = context.client, context.settings
        self.is_open = False
        self._clock = client.clock
        self._system = context.system
        self._known = context.topic_queues_table.known
        self._sender = context.retrying_sender
        self._next_id = client.message_ids.next
        self._client = client
        self._answer_ms = settings.answer_ms
        self._longest_ms = settings.longest_ms
        self._attempt_timeout_ms = settings.attempt_timeout_ms
        self._is_signing = client.signer.is_needed
        self._bytes_max = _bytes_max_uncompressed(settings)

    def begin(self, message: Message, timeout_ms: int | None) -> Begun | None:
        """Sends at once, or None if that takes more than a moment."""
        topic_queues = self._known.get(message.topic)
        body = message.body
        if (
            topic_queues is None
            or topic_queues.is_borrowed
            or message.sharding_key
            or type(message.flag) is not int
            or not self.is_open
            or len(body) > self._bytes_max
        ):
            return None
        place = topic_queues.next_place()
        queue = topic_queues.queues[place]
        link = topic_queues.links.get(queue.broker)
        connection = link.ready if link is not None else None
        if connection is None or connection.is_congested:
            return None
        longest_ms = timeout_ms or self._longest_ms
        timeout_ms = timeout_ms or self._answer_ms
        answer_ms = self._attempt_timeout_ms or timeout_ms
        frames = topic_queues.frames[place] or self._learn(topic_queues, place, connection)
        now_ms = self._clock.now_ms()
        try:
            number = connection.begin_request(now_ms)
        except TransportError:
            return None  # the slow path knows what to do
        if not self._client.silence.is_watching:
            self._client.silence.expect()
        monotonic_ms = connection.begun_ms
        unique_id = self._next_id(now_ms)
        text = properties_text(message, unique_id, self._system)
        outgoing = OutgoingMessage(
            SEND, topic_queues.topic, body, text, unique_id, now_ms, monotonic_ms + timeout_ms, message.flag, 0, None,
            monotonic_ms + longest_ms,
        )  # fmt: skip
        frame = frames.encode(number, now_ms, message.flag, text, body)
        if frame is None:  # the plain way says what is wrong
            frame = self._plain_frames(topic_queues.topic, queue, connection).encode(
                number, now_ms, message.flag, text, body
            )
        response = connection.send_request(number, frame, SEND, answer_ms, takes_facts=True)
        return outgoing, queue, connection, response

    def _learn(self, topic_queues: TopicQueues, place: int, connection: Connection) -> SendFrame:
        """A template, unless requests are signed or have binary headers."""
        topic, queue = topic_queues.topic, topic_queues.queues[place]
        frames: SendFrame
        if self._is_signing or connection.settings.serialize_type is not SerializeType.JSON:
            frames = self._plain_frames(topic, queue, connection)
        else:
            frames = self._sender.frame(topic, queue)
        topic_queues.frames[place] = frames
        return frames

    def _plain_frames(self, topic: str, queue: QueueId, connection: Connection) -> PlainFrames:
        return PlainFrames(self._sender, topic, queue, connection.settings.serialize_type)


class PlainFrames:
    """Frames of sends to one queue by the plain encoder: signed, with binary headers, or with what it has to refuse."""

    def __init__(self, sender: RetryingSender, topic: str, queue: QueueId, serialize_type: SerializeType) -> None:
        self._ext_of = sender.ext
        self._topic = topic
        self._queue = queue
        self._serialize_type = serialize_type

    def encode(self, correlation_id: int, born_ms: int, flag: int, properties: str, body: bytes) -> bytes:
        """Encode a send as one frame. Raises LocalProtocolError."""
        outgoing = OutgoingMessage(SEND, self._topic, body, properties, "", born_ms, 0, flag)
        ext = self._ext_of(outgoing, self._queue)
        return encode_request(SEND, correlation_id, ext, body=body, serialize_type=self._serialize_type)


def _bytes_max_uncompressed(settings: ProducerSettings) -> int:
    compressed_from = settings.compress_from_bytes if settings.compression.value else settings.body_bytes_max + 1
    return min(compressed_from - 1, settings.body_bytes_max)
