"""Raw send: one request for a message whose queue, body and properties are decided already.

Retry copies, resent messages and Spark's sink send this way; producers have paths of their own, with retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.client.producer.selectors import hashed_index
from pyromq.errors import TopicNotFoundError
from pyromq.model.names import DEFAULT_TOPIC
from pyromq.model.queue import QueueId
from pyromq.net.link import Link
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import STORED_CODES

_NOTHING: Final[Mapping[str, str]] = {}


async def send_raw(
    client: Client,
    message: OutgoingMessage,
    queue: QueueId,
    *,
    group: str,
    template: tuple[str, int] = (DEFAULT_TOPIC, 4),
    more: Mapping[str, str] = _NOTHING,
    link: Link | None = None,
    timeout_ms: int = 0,
) -> Received[Any]:
    """Send once and return the response, which says that the message is stored.

    ``template`` is what a broker makes a missing topic from, and with how many queues; ``more`` are further fields of
    the request. Raises TransportError, and BrokerError where the broker did not store it.
    """
    fields = header_fields(message, queue, group, template[0], str(template[1]))
    fields.update(more)
    signed = client.signer.signed(fields, message.body)
    timeout_ms = timeout_ms or client.settings.request_timeout_ms
    link = link or client.master_link(queue.broker)
    response = await link.request(message.code, signed, message.body, timeout_ms=timeout_ms)
    if response.code not in STORED_CODES:
        raise error_of(response, topic=message.topic)
    return response


async def queue_for(client: Client, topic: str, sharding_key: str = "", *, timeout_ms: int = 0) -> QueueId:
    """Return a queue to write to: that of the key, any one without. Raises TopicNotFoundError."""
    name = client.wire_name(topic)
    route = await client.routes.get(name, timeout_ms=timeout_ms or client.settings.request_timeout_ms)
    queues = route.publishable_queues(name)
    if not queues:
        raise TopicNotFoundError(topic, f"topic {topic} has no queue to write to")
    return queues[hashed_index(sharding_key, len(queues)) if sharding_key else client.rng.randrange(len(queues))]
