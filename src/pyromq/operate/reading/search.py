"""Message search: newest first, by time, tag, SQL and text, and always with what was scanned.

    id, key          the broker's index is asked; it holds all messages that are still stored
    anything else    queues are read backwards from their ends, the newest message of all queues first

A search reads no more than ``scan_max`` messages. When that cuts it, or ``count_max`` is reached, ``Scan.is_cut`` says
so, and ``cursor`` is where an older page goes on. Filters are applied here, so brokers need not allow SQL92, and what
was read is counted exactly. No group moves by it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, CorruptRecordError, NotFoundError, RemoteProtocolError
from pyromq.filters import InvalidFilterError, SqlFilter, compile_filter
from pyromq.model.queue import QueueId
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import TIME_MAX, StoredMessages

COUNT_MAX: Final = 1_000
SCAN_MAX: Final = 100_000
_STEP: Final = 32  # messages that a broker gives at once
_PLACE: Final = re.compile(r"(?P<queue>[^,:]+(?::[^,:]+)*:[0-9]{1,9}):(?P<offset>[0-9]{1,18})").fullmatch
_INDEX_MAX: Final = 64  # of one key: what brokers give


class MessageQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is looked for in a topic; all that is given must hold. ``text`` is looked for in the body.

    ``begin_ms`` and ``end_ms`` are store times, both inclusive. ``cursor`` is that of the page before.
    """

    topic: str
    message_id: str = ""
    key: str = ""
    tag: str = ""
    sql: str = ""
    text: str = ""
    begin_ms: int = 0
    end_ms: int = TIME_MAX
    queue: str = ""  # broker:number
    count_max: int = 50
    scan_max: int = 5_000
    cursor: str = ""

    @property
    def is_indexed(self) -> bool:
        return bool(self.message_id or self.key)


class QueueScan(msgspec.Struct, frozen=True, kw_only=True):
    """Scan of one queue: offsets ``[begin, end)`` were read, of ``[first, last)`` that the search was about."""

    broker: str
    queue: int
    begin: int
    end: int
    first: int
    last: int


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What a search has looked at. ``is_cut``: there is more, which was not looked at."""

    read: int = 0
    queues: tuple[QueueScan, ...] = ()
    is_cut: bool = False
    cursor: str = ""
    text: str = ""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that a search found, newest first."""

    messages: list[ReceivedMessage]
    scan: Scan


class MessageSearch:
    """Search for messages in topics."""

    def __init__(self, requests: AdminRequests, stored: StoredMessages, offsets: OffsetFacet) -> None:
        self._requests = requests
        self._stored = stored
        self._offsets = offsets

    async def search(self, query: MessageQuery) -> SearchResult:
        """Search a topic for messages. Raises TopicNotFoundError, ConfigError for a query that is none."""
        wanted = SearchFilter(query)
        if query.is_indexed:
            return await self._search_index(query, wanted)
        return await self._search_queues(query, wanted)

    async def _search_index(self, query: MessageQuery, wanted: SearchFilter) -> SearchResult:
        if query.message_id:
            try:
                found = [await self._stored.get(query.topic, query.message_id)]
            except NotFoundError:
                found = []
            what, is_cut = f"id {query.message_id}", False
        else:
            found = await self._stored.find(
                query.topic, query.key, begin_ms=query.begin_ms, end_ms=query.end_ms, count_max=_INDEX_MAX
            )
            what, is_cut = f"key {query.key}", len(found) >= _INDEX_MAX
        chosen = [message for message in reversed(found) if wanted.takes(message)]
        is_cut = is_cut or len(chosen) > query.count_max
        text = f"asked the index of topic {query.topic} for the {what}: {len(found)} found"
        text += f"; cut, the index gives at most {_INDEX_MAX}" if len(found) >= _INDEX_MAX else ""
        return SearchResult(messages=chosen[: query.count_max], scan=Scan(read=len(found), is_cut=is_cut, text=text))

    async def _search_queues(self, query: MessageQuery, wanted: SearchFilter) -> SearchResult:
        reads = [_BackwardRead(self._stored, queue, *place) for queue, place in (await self._places(query)).items()]
        found: list[ReceivedMessage] = []
        count = 0
        while count < query.scan_max and len(found) < query.count_max:
            heads = [(message, read) for read in reads if (message := await read.head()) is not None]
            if not heads:
                break
            message, read = max(heads, key=lambda head: (head[0].stored_ms, head[0].position))
            read.take()
            count += 1
            if wanted.takes(message):
                found.append(message)
        return SearchResult(messages=found, scan=_scan(reads, count))

    async def _places(self, query: MessageQuery) -> dict[QueueId, tuple[int, int]]:
        """By queue, the offsets ``[first, last)`` that the search is about."""
        queues = await self._requests.directory.queues(query.topic)
        chosen = [queue for queue in queues if query.queue in ("", f"{queue.broker}:{queue.number}")]
        if not chosen:
            raise ConfigError(f"topic {query.topic} has no queue {query.queue}: write broker:number")
        ends, found = read_cursor(query.cursor), dict[QueueId, tuple[int, int]]()
        for queue in chosen:
            held = await self._offsets.range(queue)
            first, last = held.min_offset, held.max_offset
            if query.begin_ms and last > first:
                first = max(first, await self._offsets.at(queue, query.begin_ms))
            if query.end_ms < TIME_MAX and last > first:
                last = min(last, await self._offsets.at(queue, query.end_ms + 1))
            last = min(last, ends.get(f"{queue.broker}:{queue.number}", last))
            found[queue] = (first, max(first, last))
        return found


class SearchFilter:
    """What a query says of a message besides its place. Raises ConfigError for an expression that is none."""

    def __init__(self, query: MessageQuery) -> None:
        if not (0 < query.count_max <= COUNT_MAX and 0 < query.scan_max <= SCAN_MAX):
            raise ConfigError(f"a search shows 1 to {COUNT_MAX} messages and reads 1 to {SCAN_MAX}")
        if query.begin_ms > query.end_ms:
            raise ConfigError("the search begins after its end: exchange the two times")
        self._query = query
        self._tags = {tag.strip() for tag in query.tag.split("||") if tag.strip() not in ("", "*")}
        self._text = query.text.encode()
        self._sql: SqlFilter | None = None
        if query.sql:
            try:
                self._sql = compile_filter(query.sql)
            except InvalidFilterError as error:
                raise ConfigError(f"SQL expression {query.sql!r}: {error}") from error

    def takes(self, message: ReceivedMessage) -> bool:
        """A body that cannot be decompressed has no text."""
        if self._tags and message.tags not in self._tags:
            return False
        if self._query.key and self._query.key not in message.keys:
            return False
        if not self._query.message_id and not self._query.begin_ms <= message.stored_ms <= self._query.end_ms:
            return False
        if self._sql is not None and not self._sql.matches(message.stored_properties):
            return False
        return not self._text or self._text in body_or_nothing(message)


class _BackwardRead:
    """A queue, newest message first, a block at a time. Offsets ``[self.end, last)`` were taken."""

    def __init__(self, stored: StoredMessages, queue: QueueId, first: int, last: int) -> None:
        self._stored = stored
        self.queue = queue
        self.first = first
        self.last = last
        self.end = last  # where the next page goes on
        self._unread_end = last
        self._block: list[ReceivedMessage] = []

    async def head(self) -> ReceivedMessage | None:
        while not self._block and self._unread_end > self.first:
            begin = max(self.first, self._unread_end - _STEP)
            self._block = [message async for message in self._stored.walk(self.queue, begin, self._unread_end)]
            self._unread_end = begin
            if not self._block:
                self.end = begin
        return self._block[-1] if self._block else None

    def take(self) -> None:
        self.end = self._block.pop().offset
        if not self._block:
            self.end = self._unread_end  # nothing is left between the two


def _scan(reads: list[_BackwardRead], count: int) -> Scan:
    queues = tuple(
        QueueScan(
            broker=read.queue.broker,
            queue=read.queue.number,
            begin=read.end,
            end=read.last,
            first=read.first,
            last=read.last,
        )
        for read in reads
    )
    left = sum(scan.begin - scan.first for scan in queues)
    about = sum(scan.last - scan.first for scan in queues)
    text = f"read {count} of {about} messages in {len(queues)} queue{'' if len(queues) == 1 else 's'}, newest first"
    text += f"; cut, {left} older ones were not looked at" if left else "; not cut"
    cursor = ",".join(f"{scan.broker}:{scan.queue}:{scan.begin}" for scan in queues) if left else ""
    return Scan(read=count, queues=queues, is_cut=bool(left), cursor=cursor, text=text)


def read_cursor(text: str) -> dict[str, int]:
    """By ``broker:number``, where an older page begins. Raises ConfigError."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        place = _PLACE(part)
        if place is None:
            raise ConfigError(f"{text[:80]!r} is no cursor: it comes with the page before")
        found[place["queue"]] = int(place["offset"])
    return found


def body_or_nothing(message: ReceivedMessage) -> bytes:
    try:
        return message.body
    except (RemoteProtocolError, CorruptRecordError):
        return b""
