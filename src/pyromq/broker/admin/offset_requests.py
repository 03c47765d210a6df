"""Offsets: how far a group has come, how far a queue goes, what lies at a time."""

from __future__ import annotations

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.tables import Tables
from pyromq.net.connection import Connection
from pyromq.store.message_store import QUEUE_ID_MAX, MessageStore
from pyromq.store.read_result import Boundary
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import (
    EarliestStoreTimeResponseHeader,
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.wire.received import Received


class OffsetHandler:
    """Requests 14, 15, 29, 30, 31 and 32."""

    def __init__(self, store: MessageStore, tables: Tables) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._progress = tables.progress

    def query(self, connection: Connection, request: Received[QueryConsumerOffsetHeader]) -> OffsetResponseHeader:
        """Where a group goes on. A new group starts at the beginning of a queue that lost no message yet.

        Of a queue that was never written, too: told that there is no offset, it would ask for the end next, and skip
        what arrives between both requests. RocketMQ's broker leaves that gap.
        """
        header = request.header
        offset = self._progress.committed(header.consumer_group, header.topic, header.queue_id)
        if offset is not None:
            return OffsetResponseHeader(offset=offset)
        known = self._store.reader.range_of(header.topic, header.queue_id)
        if known is None:
            has_all = self._exists(header.topic, header.queue_id)
        else:
            has_all = known.first <= 0 and (known.end == 0 or self._is_hot(header.topic, header.queue_id))
        if header.set_zero_if_not_found is not False and has_all:
            return OffsetResponseHeader(offset=0)
        text = f"group {header.consumer_group} has no offset for queue {header.queue_id} of {header.topic}"
        raise RefusedError(ResponseCode.QUERY_NOT_FOUND, text)

    def _exists(self, topic: str, queue_id: int) -> bool:
        config = self._topics.get(topic)
        return config is not None and 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums)

    def _is_hot(self, topic: str, queue_id: int) -> bool:
        position = next((entry[0] for entry in self._store.reader.entries(topic, queue_id, 0, 1)), None)
        return position is not None and position >= self._store.end_position - self._store.settings.hot_bytes

    def update(self, connection: Connection, request: Received[UpdateConsumerOffsetHeader]) -> None:
        """Queues that a topic had once may have offsets, too; no offset is beyond the end of its queue."""
        header = request.header
        refuse_change(topic=header.topic, group=header.consumer_group)
        self._groups.require(header.consumer_group)
        self._topics.require(header.topic)
        if not 0 <= header.queue_id <= QUEUE_ID_MAX:
            text = f"queue id {header.queue_id} is out of range: no topic has more than {QUEUE_ID_MAX + 1} queues"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        if not self._progress.has_room(header.consumer_group, header.topic, header.queue_id):
            text = (
                f"this broker keeps {self._progress.offsets_max} consumer offsets already: delete groups that are gone"
            )
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        known = self._store.reader.range_of(header.topic, header.queue_id)
        if known is None and not self._exists(header.topic, header.queue_id):
            text = f"topic {header.topic} has no queue {header.queue_id}"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        end = known.end if known else 0
        if not 0 <= header.commit_offset <= end:
            text = f"offset {header.commit_offset} of queue {header.queue_id} of {header.topic} is outside [0, {end}]"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        self._progress.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset, connection)

    def search(self, connection: Connection, request: Received[SearchOffsetHeader]) -> OffsetResponseHeader:
        header = request.header
        upper = (header.boundary_type or "").upper() == Boundary.UPPER.value
        boundary = Boundary.UPPER if upper else Boundary.LOWER
        offset = self._store.reader.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        return OffsetResponseHeader(offset=offset)

    def maximum(self, connection: Connection, request: Received[GetMaxOffsetHeader]) -> OffsetResponseHeader:
        known = self._store.reader.range_of(request.header.topic, request.header.queue_id)
        return OffsetResponseHeader(offset=known.end if known else 0)

    def minimum(self, connection: Connection, request: Received[QueueHeader]) -> OffsetResponseHeader:
        known = self._store.reader.range_of(request.header.topic, request.header.queue_id)
        return OffsetResponseHeader(offset=known.first if known else 0)

    def earliest(self, connection: Connection, request: Received[QueueHeader]) -> EarliestStoreTimeResponseHeader:
        moment = self._store.reader.earliest_ms(request.header.topic, request.header.queue_id)
        return EarliestStoreTimeResponseHeader(timestamp=-1 if moment is None else moment)
