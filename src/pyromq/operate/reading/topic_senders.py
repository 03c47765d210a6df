"""Who sends to a topic: brokers know producers, not their topics, but a stored message has its producer's address.

The newest messages of the queues that were written to last are read; addresses are those of connections, so a producer
that is still connected is known by its group and client id. One that has left is an address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyromq.client.admin.broker_requests import ProducerInfo
from pyromq.errors import BrokerError, TransportError
from pyromq.model.queue import QueueId
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.wire.json.bodies import TopicOffset

NEWEST: Final = 32
QUEUES_MAX: Final = 16


class TopicSender(msgspec.Struct, frozen=True, kw_only=True):
    """A producer by the address of its connection; ``group`` and ``client_id`` are empty once it has left.

    ``messages`` counts those of the newest that were read.
    """

    address: str
    group: str
    client_id: str
    language: str
    messages: int
    last_ms: int

    @property
    def is_connected(self) -> bool:
        return bool(self.client_id)


async def senders_of(
    stored: StoredMessages,
    held_by: Mapping[QueueId, TopicOffset],
    producers: Mapping[str, Sequence[ProducerInfo]],
) -> list[TopicSender]:
    """Return who sent the newest messages of some queues, the latest first; a queue that cannot be read is left out."""
    written = sorted(((held.last_update_timestamp, queue) for queue, held in held_by.items()), reverse=True)
    seen: dict[str, tuple[int, int]] = {}
    for _, queue in written[:QUEUES_MAX]:
        held = held_by[queue]
        try:
            async for message in stored.walk(queue, max(held.min_offset, held.max_offset - NEWEST), held.max_offset):
                address = str(message.born_host)
                count, last_ms = seen.get(address, (0, 0))
                seen[address] = count + 1, max(last_ms, message.stored_ms)
        except (BrokerError, TransportError):
            continue
    known = {info.address.lstrip("/"): (group, info) for group, members in producers.items() for info in members}
    return [_sender(address, *seen[address], known) for address in sorted(seen, key=lambda each: -seen[each][1])]


def _sender(address: str, messages: int, last_ms: int, known: Mapping[str, tuple[str, ProducerInfo]]) -> TopicSender:
    group, info = known.get(address, ("", None))
    return TopicSender(
        address=address,
        group=group,
        client_id=info.client_id if info else "",
        language=info.language if info else "",
        messages=messages,
        last_ms=last_ms,
    )
