"""Offsets: how far a group has come, how far a queue goes, what lies at a time."""

from __future__ import annotations

from pyromq.broker.base.long_responses import Steps, nothing, pieces
from pyromq.broker.base.refusals import RefusedError, too_large
from pyromq.broker.base.responses import BODY_BYTES_MAX
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
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
from pyromq.wire.json.queue_ranges import decode_commits
from pyromq.wire.received import Received


class OffsetHandler:
    """Requests 14, 15, 29, 30, 31, 32 and 31052."""

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
        header = request.header
        self._commit(connection, header.consumer_group, header.topic, header.queue_id, header.commit_offset)

    def update_all(self, connection: Connection, request: Received[None]) -> Steps:
        """31052: what is right is committed; the first that is not is why the request is refused."""
        if len(request.body) > BODY_BYTES_MAX:
            raise too_large(request)
        wanted, refusal = decode_commits(request.body), None
        rows = [(topic, row) for topic, rows in wanted.topics.items() for row in rows]
        for part in pieces(rows):
            for topic, row in part:
                try:
                    self._commit(connection, wanted.group, topic, row.number, row.offset)
                except MQError as error:
                    refusal = refusal or error
            yield None
        if refusal is not None:
            raise refusal
        return nothing

    def _commit(self, connection: Connection, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Queues that a topic had once may have offsets, too; no offset is beyond the end of its queue."""
        refuse_change(topic=topic, group=group)
        self._groups.require(group)
        self._topics.require(topic)
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            text = f"queue id {queue_id} is out of range: no topic has more than {QUEUE_ID_MAX + 1} queues"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        if not self._progress.has_room(group, topic, queue_id):
            text = (
                f"this broker keeps {self._progress.offsets_max} consumer offsets already: delete groups that are gone"
            )
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        known = self._store.reader.range_of(topic, queue_id)
        if known is None and not self._exists(topic, queue_id):
            text = f"topic {topic} has no queue {queue_id}"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        end = known.end if known else 0
        if not 0 <= offset <= end:
            text = f"offset {offset} of queue {queue_id} of {topic} is outside [0, {end}]"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        self._progress.commit(group, topic, queue_id, offset, connection)

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
