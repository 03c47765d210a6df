"""Requests that wait for a reply, and what the messages of both carry.

requester ──message with CORRELATION_ID, REPLY_TO_CLIENT, TTL──▶ broker ──▶ consumer
requester ◀─326 push── broker ◀──325, topic <cluster>_REPLY_TOPIC, MSG_TYPE=reply── consumer's producer
"""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.topic_queues_table import REPLY_TOPIC_SUFFIX
from pyromq.errors import ClientClosedError, MessageRefusedError
from pyromq.model import property_names as names
from pyromq.wire.property_text import join_items


class PendingReplies:
    """Requests and the replies they wait for."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self) -> tuple[str, asyncio.Future[ReceivedMessage]]:
        """A new correlation id, and a future of the reply to it; ``forget`` it in any case."""
        correlation_id = str(UUID(int=self._rng.getrandbits(128), version=4))
        waiter: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(_look)
        self._waiting[correlation_id] = waiter
        return correlation_id, waiter

    def forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def arrived(self, message: ReceivedMessage) -> bool:
        """False if no request waits for it."""
        waiter = self._waiting.get(message.get(names.CORRELATION_ID) or "")
        if waiter is None or waiter.done():
            return False
        waiter.set_result(message)
        return True

    def close(self) -> None:
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the producer was closed before a reply came"))


def request_properties(correlation_id: str, client_id: str, timeout_ms: int) -> str:
    return join_items(
        [
            (names.CORRELATION_ID, correlation_id),
            (names.REPLY_TO_CLIENT, client_id),
            (names.TIME_TO_LIVE, str(timeout_ms)),
        ]
    )


def reply_of(request: ReceivedMessage) -> tuple[str, str]:
    """Topic and properties of a reply. Raises MessageRefusedError if the message asks for none."""
    cluster, correlation_id, client_id = map(request.get, (names.CLUSTER, names.CORRELATION_ID, names.REPLY_TO_CLIENT))
    if not (cluster and correlation_id and client_id):
        raise MessageRefusedError(f"message {request.message_id} is no request: it does not ask for a reply")
    properties = [
        (names.MESSAGE_TYPE, "reply"),
        (names.CORRELATION_ID, correlation_id),
        (names.REPLY_TO_CLIENT, client_id),
        (names.TIME_TO_LIVE, request.get(names.TIME_TO_LIVE) or ""),
    ]
    return cluster + REPLY_TOPIC_SUFFIX, join_items(item for item in properties if item[1])


def _look(waiter: asyncio.Future[ReceivedMessage]) -> None:
    """An exception that no caller waited for is no mistake."""
    if not waiter.cancelled():
        waiter.exception()
