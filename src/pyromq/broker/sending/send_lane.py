"""The send lane: plain sends at the beginning of a read, taken by the compiled core in one call.

    bytes of a read ─▶ core: records, queue entries, hashed keys, responses ─▶ staged here ─▶ group commit, as ever
                  └──▶ the first frame that is not plain, and all behind it ─▶ ``SendHandler``, as ever

It only narrows: what it takes is what ``SendHandler`` would have staged in the same way, byte for byte. It knows a
queue after ``SendHandler`` has stored a message there and has run ``learn``; any change of topics or settings empties
it; it takes nothing while flow control is on, while the store cannot be written, while earlier requests of the
connection wait, and where anything stands between requests and ``SendHandler``: quotas, a broker that stops.

When its sends are answered is not its business: group commit holds them until the disk has them, and the replicas of a
sync master. Only a sender who does not want to wait for that is left to Python.

With access control it takes what is signed by a user whom the guard has let send to this topic, from this address and
by this request code, before: the core verifies every signature, and remembers decisions as the guard does, until users
or policies change. Where more than signatures is asked for, it is closed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from pyromq.broker.base.access import AccessDeniedError, GuardedAccess
from pyromq.broker.base.session import Session
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import CALL, MESSAGE
from pyromq.broker.commit.commit import SendOrigin, SendsOfOneRead
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.topics import Topics
from pyromq.compiled_core import Buffer, Core, Http2Lane, TakenCalls
from pyromq.compiled_core import SendLane as CoreLane
from pyromq.model.property_names import SET_BY_NOBODY
from pyromq.model.topic import TopicConfig, TopicFilterType
from pyromq.net.connection import Connection
from pyromq.wire.frame import FRAME_BYTES_MAX
from pyromq.wire.headers.producer import SendHeader
from pyromq.wire.received import Received
from pyromq.wire.record_layout import HOST_V4_BYTES

_KEYS_MAX: Final = 64  # of one message; more are rare
_ADMITTED_MAX: Final = 30_000  # users, addresses, codes and topics; here and in the core they take some 25 MB
FIRST_DIGIT_AT: Final = 16  # of the code, in a frame as clients write it
FIRST_DIGIT: Final = ord("3")  # so begin 310 and 320


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTexts:
    """What ``SendHandler`` adds to every message and response."""

    added: bytes  # properties
    response: tuple[bytes, ...]  # ``SendResponses.pieces``
    store_host: bytes
    reserved: frozenset[str]  # topics that clients must not send to


class SendCalls(SendOrigin, Protocol):
    """Sends of one connection that speaks gRPC."""

    @property
    def tables(self) -> Http2Lane: ...

    @property
    def bounds(self) -> tuple[int, int, int]:
        """The last stream, bytes of DATA that may come, calls that may begin."""


class Lane(Protocol):
    """Takes requests at the beginning of a read, as ``FastPath`` says it."""

    def take(self, connection: Connection, data: Buffer) -> int: ...


class SendLane:
    """Owner of the core's lane, which knows queues, and what came in for topics since ``count_puts``."""

    def __init__(
        self,
        core: Core,
        texts: LaneTexts,
        write_path: WritePath,
        topics: Topics,
        counters: Counters,
        access: GuardedAccess | None,
    ) -> None:
        self._core = core
        self._texts = texts
        self._store = write_path.store
        self._gate = write_path.gate
        self._group_commit = write_path.group_commit
        self._disk = write_path.disk
        self._waits = self._disk.waits  # for the disk or for replicas; who does not want to is Python's
        self._table = topics.table
        self._counters = counters
        self._access = access
        self._rules = access.rules if access else None  # that ``_admitted`` follows from
        self._admitted: set[tuple[str, str, int, str]] = set()  # users, addresses, codes, topics
        self.is_open = False  # by the request plan: nothing stands between requests and ``SendHandler``
        self.waiting: Container[Connection] = frozenset()  # with earlier requests that are not served yet
        self.next_lane: Lane | None = None  # takes reads that begin with something else
        self._version = self._table.version  # of the topics that it knows
        self._known: set[tuple[str, int]] = set()
        self._lane = self._new_lane()

    def renew(self, *, is_open: bool, waiting: Container[Connection]) -> None:
        """Open or close it, as the request plan says; ``waiting``: whose requests nothing may overtake."""
        self.is_open, self.waiting = is_open, waiting
        self._forget_all()

    def _forget_all(self) -> None:
        """Settings may have changed, or what sends wait for."""
        self._waits = self._disk.waits
        self.count_puts()
        self._known.clear()
        self._admitted.clear()
        self._lane = self._new_lane()

    def _new_lane(self) -> CoreLane:
        own, texts = self._store.encoding_limits, self._texts
        limits = (
            FRAME_BYTES_MAX,
            own.body_bytes_max,
            own.copied_bytes_max,
            self._store.settings.body_bytes_max,
            own.record_bytes_max,
            min(_KEYS_MAX, own.keys_max),
        )
        lane = self._core.SendLane(limits, texts.store_host, texts.added, texts.response, self._waits)
        lane.reserve(list(SET_BY_NOBODY))
        return lane

    @property
    def known(self) -> int:
        """How many queues it knows."""
        return len(self._known)

    def serves(self, connection: Connection) -> bool:
        """Whether it can take sends of a connection at all: records with IPv6 addresses are Python's."""
        texts = self._texts
        hosts = {len(connection.session_as(Session).born_host), len(texts.store_host)}
        return hosts == {HOST_V4_BYTES} and self._store.settings.checksums

    def learn(self, connection: Connection, request: Received[SendHeader], config: TopicConfig, queue_id: int) -> None:
        """``SendHandler`` has just staged a message for this topic, and for this queue if nothing sent it elsewhere."""
        if self._table.version is not self._version:
            self.forget()
        if self._access is not None:
            self._admit(self._access, connection, request)
        name = config.topic_name
        key = (name, queue_id)
        if key in self._known:
            return
        is_special = config.order or name in self._texts.reserved or name[0] == "%"
        queue = self._store.queues.get(key)
        if queue is None or is_special or config.topic_filter_type is TopicFilterType.MULTI_TAG:
            return
        self._lane.learn(name, config.write_queue_nums, queue_id, queue)
        self._known.add(key)

    def _admit(self, access: GuardedAccess, connection: Connection, request: Received[SendHeader]) -> None:
        """The guard has let this request pass."""
        if access.rules is not self._rules:
            self._forget_users(access)
        ip = connection.session_as(Session).peer.ip
        try:
            signer = access.signer_of(connection, request)
        except AccessDeniedError:  # it was admitted, and is nobody by now
            return
        if signer is None:
            return
        key = (signer.name, ip, request.code, request.header.topic)
        if key not in self._admitted:
            if len(self._admitted) >= _ADMITTED_MAX:
                self._forget_users(access)
            self._admitted.add(key)
            secret = signer.password.reveal().encode("utf-8", "replace")
            self._lane.admit(signer.name, secret, ip, request.code, request.header.topic)

    def _forget_users(self, access: GuardedAccess) -> None:
        self._rules = access.rules
        self._admitted.clear()
        self._lane.forget_users()

    def forget(self) -> None:
        """Know no queue any more, until sends come again."""
        self.count_puts()
        self._version = self._table.version
        self._known.clear()
        self._lane.forget()

    def count_puts(self) -> None:
        """Bring the counters of topics up to date; to be called before somebody looks at them."""
        puts = self._counters.puts
        for topic, sends, messages, size in self._lane.take_tallies():
            puts[topic] += sends * CALL + messages * MESSAGE + size

    def take(self, connection: Connection, data: Buffer) -> int:
        """Stage the plain sends that the data begins with; says how many bytes these are."""
        if len(data) <= FIRST_DIGIT_AT:
            return 0
        if data[FIRST_DIGIT_AT] != FIRST_DIGIT:
            return self.next_lane.take(connection, data) if self.next_lane is not None else 0
        if not self._may_take(connection):
            return 0
        store = self._store
        session: Session = connection.session  # type: ignore[assignment]  # the broker sets no other
        ip = None
        if self._access is not None:
            if self._access.rules is not self._rules:
                self._forget_users(self._access)
            ip = session.peer.ip
        position, room, stored_ms = store.next_place()
        taken = self._lane.take(data, session.born_host, position, room, stored_ms, ip)
        if taken is None:
            return 0
        consumed, sends, messages, body_bytes, records, keys, responses, response_count = taken
        store.stage_encoded(records, stored_ms, keys, messages)
        touched = store.stage_entries(self._lane)
        counters = self._counters
        counters.put_messages += messages
        counters.put_bytes += body_bytes
        connection.frames_in += sends
        self._group_commit.staged_together(connection, SendsOfOneRead(sends, response_count), responses, touched)
        return consumed

    def _may_take(self, connection: Connection) -> bool:
        """Whether nothing stands in front of sends now; what has changed is forgotten."""
        if not self.is_open or self._gate.closed or not self._store.health.writable or connection in self.waiting:
            return False
        if self._table.version is not self._version:
            self.forget()
        if self._disk.waits is not self._waits:
            self._forget_all()
        return bool(self._known)

    # --- sends by gRPC ---

    def token(self) -> tuple[object, ...]:
        """What the decision that a client may send to a topic follows from."""
        return self, self._table.version, self._access.rules if self._access is not None else None

    def take_calls(self, calls: SendCalls, data: bytes, at: int, turn: int, now_ms: int) -> TakenCalls | None:
        """Stage the plain sends from there on, whose clients were admitted. Responses go to ``calls``."""
        store = self._store
        place = store.next_place()
        taken = self._lane.take_calls(calls.tables, data, at, calls.bounds, turn, now_ms, place)
        if taken is None:
            return None
        _, sends, messages, body_bytes, records, keys, responses, response_count = taken[4]
        store.stage_encoded(records, place[2], keys, messages)
        touched = store.stage_entries(self._lane)
        self._counters.put_messages += messages
        self._counters.put_bytes += body_bytes
        self._group_commit.staged_together(calls, SendsOfOneRead(sends, response_count), responses, touched)
        return taken

    def may_take_of(self, callers: Iterable[Connection]) -> bool:
        """Whether sends of these clients may be taken now."""
        return all(map(self._may_take, callers))
