"""Message queries: by key, by unique key, by position, and entries of queues."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pyromq.broker.base.access import OPEN, Access
from pyromq.broker.base.long_responses import Steps
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.state.subscriptions import is_by_tags, tag_filter
from pyromq.broker.state.tables import Tables
from pyromq.errors import PositionOutOfRangeError, StoreError
from pyromq.net.connection import Connection
from pyromq.security.resources import Action
from pyromq.store.key_search import WORK_AT_ONCE, FoundKeys
from pyromq.store.message_store import MessageStore
from pyromq.store.queue_scan import TagFilter
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.admin import QueryConsumeQueueHeader
from pyromq.wire.headers.consumer import QueryMessageHeader, QueryMessageResponseHeader, ViewMessageHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.json.queue_ranges import KeyPlace
from pyromq.wire.json.queue_ranges import encode as encode_places
from pyromq.wire.received import Received

_NOTHING: Final = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}  # clients read both in any case
_FOUND_MAX, _FOUND_BY_UNIQUE_KEY_MAX, _ENTRIES_MAX, _PLACES_MAX = 64, 32, 1_000, 1_000
_GAP_BYTES_MAX = 32 << 20  # of the log; indexing that much takes some tenths of a second


class LookupHandler:
    """Requests 12, 33 and 321."""

    def __init__(self, store: MessageStore, tables: Tables, access: Access = OPEN) -> None:
        self._store = store
        self._access = access
        self._topics = tables.topics
        self._members = tables.members
        self._filters = tables.filters

    def query(self, connection: Connection, request: Received[QueryMessageHeader]) -> Steps:
        """Messages with a key, oldest first, as stored bytes; or only where they are."""
        header, gap_bytes = request.header, self._store.indexer.gap_bytes
        if gap_bytes > _GAP_BYTES_MAX and self._store.health.writable:  # else no task works on it
            left = f"{gap_bytes >> 20} MiB of the log are left"
            text = f"the key index is not complete yet, {left}: try again in a few seconds"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        if header.places_only:
            return (yield from self._places(header))
        count_max = _FOUND_BY_UNIQUE_KEY_MAX if header.unique_key_query else min(header.max_num, _FOUND_MAX)
        found = yield from self._store.key_search.find(
            header.topic,
            header.key,
            count_max=max(0, count_max),
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        if not found.positions:
            raise _not_found(header, found)
        body = b"".join([self._store.reader.bytes_of(position) for position in sorted(found.positions)])
        response = QueryMessageResponseHeader(
            index_last_update_timestamp=self._store.last_stored_ms,
            index_last_update_phyoffset=self._store.end_position,
            older_unseen=None if found.is_all else True,
        )
        return lambda: (response, body)

    def _places(self, header: QueryMessageHeader) -> Steps:
        """Places of messages with a key, and whether these are all: so that a reader can do without the rest."""
        end, count_max = self._store.end_position, max(0, min(header.max_num, _PLACES_MAX))
        found = yield from self._store.key_search.find(
            header.topic,
            header.key,
            count_max=count_max + 1,
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        is_all = found.is_all and not found.damaged and len(found.positions) <= count_max
        places: list[KeyPlace] = []
        for number, position in enumerate(sorted(found.positions[:count_max])):
            if number % WORK_AT_ONCE == WORK_AT_ONCE - 1:
                yield None
            with suppress(PositionOutOfRangeError):  # retention may remove it meanwhile
                record = self._store.reader.record_at(position)
                places.append(KeyPlace(record.queue_id, record.offset))
        response = QueryMessageResponseHeader(
            index_last_update_timestamp=self._store.last_stored_ms,
            index_last_update_phyoffset=self._store.end_position,
            all_found=is_all and self._store.indexer.position >= end,  # a disk that refuses ends indexing
        )
        return lambda: (response, encode_places(places))

    def view(self, connection: Connection, request: Received[ViewMessageHeader]) -> bytes:
        try:
            found = self._store.reader.bytes_of(request.header.position)
        except StoreError as error:
            text = f"no message starts at position {request.header.position}: {error}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text) from error
        if self._access is not OPEN:
            topic = self._store.reader.record_at(request.header.position).topic.decode()
            self._access.require(connection, request, topic, Action.GET, Action.SUB)
        return bytes(found)

    def entries(self, connection: Connection, request: Received[QueryConsumeQueueHeader]) -> bytes:
        """A stretch of a queue, and what the filter of a group would take of it."""
        header, reader = request.header, self._store.reader
        self._topics.require(header.topic)
        known = reader.range_of(header.topic, header.queue_id)
        if known is None:
            text = f"queue {header.queue_id} of topic {header.topic} was never written to"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        group = header.consumer_group
        subscription = self._members.subscription(group, header.topic) if group else None
        takes = _takes(subscription)
        count = max(0, min(header.count, _ENTRIES_MAX, known.end - header.index))
        data = [
            bodies.QueueEntryView(
                physic_offset=position,
                physic_size=size,
                tags_code=tag_hash,
                eval=takes(tag_hash),
            )
            for position, size, tag_hash in reader.entries(header.topic, header.queue_id, header.index, count)
        ]
        return bodies.encode(
            bodies.QueueView(
                subscription_data=subscription,
                filter_data=self._filter_text(group, header.topic, subscription) if group else None,
                queue_data=data,
                min_queue_index=known.first,
                max_queue_index=known.end,
            )
        )

    def _filter_text(self, group: str, topic: str, subscription: Subscription | None) -> str:
        """The expression that a group filters by, as JSON: ``null`` when it has none."""
        if subscription is None:
            return f"{group}@{topic} is not online"
        return java_json.dumps_pretty(self._filters.data(topic, group)).decode()


def _takes(subscription: Subscription | None) -> TagFilter:
    """A test of queue entries by tag; what is filtered otherwise, or not at all, counts as not taken."""
    if subscription is None or not is_by_tags(subscription):
        return lambda _: False
    return tag_filter(subscription) or (lambda _: True)


def _not_found(header: QueryMessageHeader, found: FoundKeys) -> RefusedError:
    """There is none, or that cannot be said."""
    text = f"no message of topic {header.topic} has the key {header.key} in that time range"
    if found.is_all:
        return RefusedError(ResponseCode.QUERY_NOT_FOUND, text, _NOTHING)
    text = (
        f"too many messages of topic {header.topic} have keys with the hash of {header.key}, and none of the newest "
        "has that key: ask for an earlier end of the time range"
    )
    return RefusedError(ResponseCode.INVALID_PARAMETER, text, _NOTHING)
