"""Watches on queues: what all queues of some topics hold, in one request, and then only what changed.

    31050  topics ──▶ every queue with [first, end), and the id of a watch
    31051  watch id ──▶ queues that got messages since the last response, at once or as soon as there are some

A watch belongs to a connection and collects the queues with new messages. It is over when topics or access rules change
or retention deletes messages: then the response has watch id 0, and the client asks for everything again. A client that
waits for messages of ten thousand queues costs one held request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import Steps, pieces
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.refusals import too_large
from pyromq.broker.base.request_times import HELD
from pyromq.broker.base.responses import BODY_BYTES_MAX, send_failure, send_response
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.touched import Touched
from pyromq.broker.state.tables import Tables
from pyromq.model.topic import DataVersion
from pyromq.net.connection import Connection
from pyromq.replication.settings import Role
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import AwaitRangesHeader, QueryRangesHeader, RangesResponseHeader
from pyromq.wire.json.queue_ranges import (
    NOT_COMMITTED,
    QueueRow,
    RangesResponse,
    decode_ranges_request,
    encode,
)
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

WATCHES_MAX: Final = 1_000  # of all connections; a client without one asks for everything each time
WATCHES_PER_CONNECTION: Final = 16  # the oldest one ends
WATCHED_TOPICS_MAX: Final = 200_000  # of all watches together
_CHANGED_MAX: Final = 32_768  # queues; with more the client asks for everything
_REPORTED_AT_ONCE: Final = 512  # queues of one response, a few milliseconds at most; the others follow
_NEW_AT_ONCE: Final = 32  # queues whose first file is made for it, up to a millisecond each
_WAIT_MS_MAX: Final = 30_000
_RECENT_MS: Final = 30_000  # a client that asks less often is busy, or gone
_OVER: Final = RangesResponseHeader(watch_id=0)


@dataclass(slots=True, eq=False)
class Watch:
    """Queues of some topics, as one client follows them."""

    id: int
    connection: Connection
    topics: tuple[str, ...]
    group: str  # for which it watches, if for one
    state: tuple[int, DataVersion, int]  # of access rules, topics and retention, when everything was reported
    since_ms: int  # when its client last asked
    changed: dict[QueueKey, None] = field(default_factory=dict)
    is_over: bool = False
    request: Received[Any] | None = None  # the one that waits
    deadline_ms: int = 0


class QueueWatches:
    """Watches by connection and by topic."""

    def __init__(self) -> None:
        self._by_connection: dict[Connection, dict[int, Watch]] = {}
        self._by_topic: dict[str, dict[Watch, None]] = {}
        self._by_group: dict[str, dict[Watch, None]] = {}
        self._count = self._topics = 0
        self.waiting: dict[Watch, None] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, watch: Watch) -> bool:
        """False when there are as many as may be."""
        connection, topics = watch.connection, watch.topics
        own = self._by_connection.get(connection, {})
        if len(own) >= WATCHES_PER_CONNECTION:
            self.drop(next(iter(own.values())))
        if self._count >= WATCHES_MAX or self._topics + len(topics) > WATCHED_TOPICS_MAX:
            return False
        self._by_connection.setdefault(connection, {})[watch.id] = watch
        for topic in topics:
            self._by_topic.setdefault(topic, {})[watch] = None
        self._by_group.setdefault(watch.group, {})[watch] = None
        self._count, self._topics = self._count + 1, self._topics + len(topics)
        return True

    def of_group(self, group: str) -> Iterable[Watch]:
        return self._by_group.get(group, ())

    def get(self, connection: Connection, watch_id: int) -> Watch | None:
        return self._by_connection.get(connection, {}).get(watch_id)

    def drop(self, watch: Watch) -> None:
        own = self._by_connection.get(watch.connection, {})
        if own.pop(watch.id, None) is None:
            return
        if not own:
            self._by_connection.pop(watch.connection, None)
        for table, keys in ((self._by_topic, watch.topics), (self._by_group, (watch.group,))):
            for key in keys:
                watching = table[key]
                watching.pop(watch, None)
                if not watching:
                    del table[key]
        self.waiting.pop(watch, None)
        self._count, self._topics = self._count - 1, self._topics - len(watch.topics)

    def drop_connection(self, connection: Connection) -> None:
        """The connection is gone, and its requests need no response."""
        for watch in list(self._by_connection.get(connection, {}).values()):
            self.drop(watch)

    def note(self, queues: Touched) -> list[Watch]:
        """Messages of these queues became visible; the watches whose clients wait for one of them."""
        woken: dict[Watch, None] = {}
        for key in queues.names():
            for watch in self._by_topic.get(key[0], ()):
                watch.changed[key] = None
                if watch.request is not None:
                    woken[watch] = None
                elif len(watch.changed) > _CHANGED_MAX:
                    watch.is_over = True
                    watch.changed.clear()
        return list(woken)


class WatchHandler:
    """Handler of questions about ranges of queues. Requests 31050 and 31051."""

    def __init__(self, environment: Environment, tables: Tables, store: MessageStore, counters: Counters) -> None:
        self._clock = environment.clock
        self._access = environment.access
        self._authority = environment.authority
        self._may_watch = environment.settings.replication.role is not Role.REPLICA  # it does not know what is visible
        self._topics = tables.topics
        self._progress = tables.progress
        self._store = store
        self._times = counters.requests
        self._members = tables.members
        self._ids = count(1)
        self.watches = QueueWatches()

    # --- everything ---

    def query(self, connection: Connection, request: Received[QueryRangesHeader]) -> Steps:
        """31050: all queues of the topics; changes are collected from its beginning on."""
        if len(request.body) > BODY_BYTES_MAX:
            raise too_large(request)
        wanted = decode_ranges_request(request.body)
        topics = tuple(dict.fromkeys(wanted.topics))
        watch = None
        if request.header.watch and self._may_watch:
            now_ms = self._clock.monotonic_ms()
            made = Watch(next(self._ids), connection, topics, wanted.group, self._state(), now_ms)
            watch = made if self.watches.add(made) else None
        found: dict[str, list[QueueRow]] = {}
        for part in pieces(topics):
            for topic in part:
                if (config := self._topics.get(topic)) is not None:
                    rows = found[topic] = list[QueueRow]()
                    for numbers in pieces(range(max(config.read_queue_nums, config.write_queue_nums))):
                        rows += [self._row(topic, number, wanted.group) for number in numbers]
                        if len(numbers) > 1:
                            yield None
            yield None
        members, watchers = self._users_of(wanted.group, connection)
        watch_id = watch.id if watch is not None else 0
        header = RangesResponseHeader(watch_id=watch_id, members=members, watchers=watchers)
        return lambda: (header, encode(RangesResponse(topics=found)))

    def _row(self, topic: str, number: int, group: str = "") -> QueueRow:
        known = self._store.reader.range_of(topic, number)
        first, end = known if known else (0, 0)
        committed = self._progress.committed(group, topic, number) if group else None
        return QueueRow(number, first, end, NOT_COMMITTED if committed is None else committed)

    def _users_of(self, group: str, connection: Connection) -> tuple[int, int]:
        """Consumers of a group, and other connections that watched queues for it a moment ago."""
        if not group:
            return 0, 0
        live, since_ms = self._members.consumer_group(group), self._clock.monotonic_ms() - _RECENT_MS
        watchers = {
            each.connection
            for each in self.watches.of_group(group)
            if each.connection is not connection and (each.request is not None or each.since_ms >= since_ms)
        }
        return len(live.members) if live is not None else 0, len(watchers)

    def _state(self) -> tuple[int, DataVersion, int]:
        return self._access.version, self._topics.table.version, self._store.first_position

    # --- what changed ---

    def wait(self, connection: Connection, request: Received[AwaitRangesHeader]) -> None:
        """Handle request 31051 (AWAIT_QUEUE_RANGES)."""
        watch = self.watches.get(connection, request.header.watch_id)
        if watch is None:
            send_response(connection, request, _OVER)
            return
        wait_ms = min(request.header.wait_millis, _WAIT_MS_MAX)
        if wait_ms > 0:
            self._authority.check_accept()  # who waits for more should look for the master
            wait_ms = min(wait_ms, self._authority.wait_left_ms())
        if watch.request is not None:  # one waits at a time
            self._respond(watch)
        watch.request, watch.since_ms = request, self._clock.monotonic_ms()
        if watch.changed or wait_ms <= 0 or self._is_over(watch):
            self._respond(watch)
            return
        watch.deadline_ms = watch.since_ms + wait_ms
        self.watches.waiting[watch] = None
        self._times.outcome = HELD

    def wake(self, queues: Touched) -> None:
        """Messages of these queues became visible."""
        for watch in self.watches.note(queues) if len(self.watches) else ():
            self._leave(watch)

    def respond_due(self) -> None:
        """Requests whose time is over, and those whose watch is."""
        now_ms = self._clock.monotonic_ms()
        for watch in [each for each in self.watches.waiting if each.deadline_ms <= now_ms or self._is_over(each)]:
            self._leave(watch)

    def _leave(self, watch: Watch) -> None:
        """A failure of one of them does not keep the others from their responses."""
        request, waited_ms = watch.request, self._clock.monotonic_ms() - watch.since_ms
        assert request is not None
        try:
            self._respond(watch)
            watch.connection.flush()
            self._times.note(request.code, ResponseCode.SUCCESS, waited_ms, held=True)
        except Exception as error:  # a defect, or a damaged file
            logger.exception("held watch failed: peer=%s", watch.connection.remote_text)
            self.watches.drop(watch)
            send_failure(watch.connection, request, error)

    def _is_over(self, watch: Watch) -> bool:
        return watch.is_over or watch.state != self._state()

    def _respond(self, watch: Watch) -> None:
        """The request that waits gets what there is."""
        request, watch.request = watch.request, None
        self.watches.waiting.pop(watch, None)
        assert request is not None
        if self._is_over(watch):
            self.watches.drop(watch)
            send_response(watch.connection, request, _OVER)
            return
        found: dict[str, list[QueueRow]] = {}
        new = 0
        for key in list(watch.changed)[:_REPORTED_AT_ONCE]:
            new += self._store.reader.lacks_file(*key)
            if new > _NEW_AT_ONCE:
                break
            del watch.changed[key]
            found.setdefault(key[0], []).append(self._row(*key))
        body = encode(RangesResponse(topics=found)) if found else b""
        header = RangesResponseHeader(watch_id=watch.id, more=bool(watch.changed))
        send_response(watch.connection, request, (header, body))
