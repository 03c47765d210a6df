"""Open transactions: prepared messages that were neither committed nor rolled back.

half topic   prepared messages (RMQ_SYS_TRANS_HALF_TOPIC), from where the checker of the broker stands
op topic     offsets in the half topic that were committed or rolled back: ``12,15,``
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError
from pyromq.model import property_names as names
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pyromq.model.queue import QueueId
from pyromq.model.same_fields import same_fields
from pyromq.model.system_names import TRANSACTION_GROUP
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import StoredMessages


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared message that is neither committed nor rolled back."""

    topic: str
    message_id: str
    producer_group: str
    broker: str
    offset: int  # in the half topic
    born_ms: int
    stored_ms: int
    checks: int = 0
    keys: tuple[str, ...] = ()
    tags: str = ""


# the facet has a method ``list``, so its annotations need other names for lists
_Open: TypeAlias = list[OpenTransaction]
_Received: TypeAlias = list[ReceivedMessage]


class TransactionFacet:
    """``admin.transactions``: prepared messages without an end."""

    def __init__(self, requests: AdminRequests, offsets: OffsetFacet, stored: StoredMessages) -> None:
        self._requests = requests
        self._client = requests.client
        self._offsets = offsets
        self._stored = stored

    async def list(self, topic: str = "") -> _Open:
        """Return transactions without an end, oldest first; all topics, or one."""
        wanted, found = self._client.wire_name(topic) if topic else "", _Received()
        checks: dict[tuple[str, int], int] = {}
        for broker, address in (await self._requests.directory.named_masters()).items():
            found += await self._open_prepared(broker)
            answer = await self._requests.brokers.prepared_checks(address)
            checks |= {(broker, offset): count for offset, count in answer.items()}
        prepared = [place for place in latest_of_each(found) if not wanted or place.get(names.REAL_TOPIC) == wanted]
        rows = [self._prepared(place, checks.get((place.broker, place.offset), 0)) for place in prepared]
        return sorted(rows, key=lambda place: place.born_ms)

    async def _open_prepared(self, broker: str) -> _Received:
        ended, found = set[int](), _Received()
        async for message in self._from_checker(QueueId(OP_HALF_TOPIC, broker, 0)):
            ended |= ended_offsets(message.body)
        async for message in self._from_checker(QueueId(HALF_TOPIC, broker, 0)):
            if message.offset not in ended:
                found.append(message)
        return found

    async def _from_checker(self, queue: QueueId) -> AsyncIterator[ReceivedMessage]:
        try:
            held = await self._offsets.range(queue)
        except BrokerError:  # a broker that has never seen a transaction has no such topic
            return
        begin = await self._offsets.committed(TRANSACTION_GROUP, queue)
        async for message in self._stored.walk(queue, max(begin or 0, held.min_offset), held.max_offset):
            yield message

    def _prepared(self, place: ReceivedMessage, checks_here: int) -> OpenTransaction:
        checks = place.get(names.CHECK_TIMES) or "0"
        return OpenTransaction(
            topic=self._client.plain_name(place.get(names.REAL_TOPIC) or ""),
            producer_group=self._client.plain_name(place.get(names.PRODUCER_GROUP) or ""),
            checks=checks_here + (int(checks) if checks.isdecimal() else 0),
            **same_fields(OpenTransaction, place, "topic"),
        )


def ended_offsets(body: bytes) -> set[int]:
    """The offsets that an op record names: ``12,15,``, or one number alone from old brokers."""
    return {int(word) for word in body.decode("ascii", "replace").split(",") if word.strip().isdecimal()}


def latest_of_each(prepared: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """A checker appends a message again for every check: only its last copy counts."""
    found: dict[tuple[str, str], ReceivedMessage] = {}
    for place in prepared:
        found[place.broker, place.message_id] = place
    return list(found.values())
