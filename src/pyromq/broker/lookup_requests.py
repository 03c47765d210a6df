"""Single messages: by key, by unique key, by position."""

from __future__ import annotations

from pyromq.broker.refusals import RefusedError
from pyromq.errors import StoreError
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import QueryMessageHeader, QueryMessageResponseHeader, ViewMessageHeader
from pyromq.wire.received import Received

_FOUND_MAX, _FOUND_BY_UNIQUE_KEY_MAX = 64, 32


class LookupHandler:
    """Requests 12 and 33."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def query(
        self, connection: Connection, request: Received[QueryMessageHeader]
    ) -> tuple[QueryMessageResponseHeader, bytes]:
        """Messages with a key, oldest first, as stored bytes."""
        header = request.header
        count_max = _FOUND_BY_UNIQUE_KEY_MAX if header.unique_key_query else min(header.max_num, _FOUND_MAX)
        positions = self._store.find(
            header.topic,
            header.key,
            count_max=max(0, count_max),
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        if not positions:
            text = f"no message of topic {header.topic} has the key {header.key} in that time"
            raise RefusedError(ResponseCode.QUERY_NOT_FOUND, text)
        body = b"".join([self._store.reader.bytes_of(position) for position in sorted(positions)])
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=self._store.last_stored_ms, index_last_update_phyoffset=self._store.log.end
        )
        return answer, body

    def view(self, connection: Connection, request: Received[ViewMessageHeader]) -> bytes:
        try:
            return bytes(self._store.reader.bytes_of(request.header.position))
        except StoreError as error:
            text = f"no message starts at position {request.header.position}: {error}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text) from error
