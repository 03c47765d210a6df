"""Kept messages: whole messages as rows of the application's database, until a broker has them.

    id               20 digits of microseconds, 12 of chance: a process writes rising ones, so order is that of keeping
    lane             topic, or topic and sharding key: what has to stay in order
    bytes            of the message, for the bound
    kept_ms          when
    refused          empty while the message waits; why no broker will ever take it, once that is known
    message          everything of ``Message``, as MessagePack

A row is deleted after a broker confirmed its message. A process that dies in between leaves the row, and the message is
sent again: at least once. A second table holds the lease of the one process that forwards.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from pyromq.clock import Clock
from pyromq.databases import BYTES, NUMBER, Database, Result, Table, conflicts, execute
from pyromq.errors import ConfigError, MQError
from pyromq.model.message import Message

MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 1 << 30
_REFRESH_MS: Final = 1_000  # how long a process trusts its own count of rows that others write, too
_READ_ROWS_MAX: Final = 32
_READ_BYTES_MAX: Final = 4 << 20
_REASON_CHARACTERS_MAX: Final = 255
_ALL_LANES: Final = "all"

_COLUMNS: Final = (
    ("id", 32),
    ("lane", 255),
    ("bytes", NUMBER),
    ("kept_ms", NUMBER),
    ("refused", _REASON_CHARACTERS_MAX),
    ("message", BYTES),
)
_LEASE_COLUMNS: Final = (("name", 64), ("holder", 64), ("until_ms", NUMBER))


class OutboxFullError(MQError):
    """So many messages wait already: bring the brokers back, or raise ``messages_max`` and ``bytes_max``."""

    def __init__(self, *, messages: int, size_bytes: int, messages_max: int, bytes_max: int) -> None:
        held = f"{messages} of {messages_max} messages, {size_bytes} of {bytes_max} bytes"
        text = "the message was not kept; see why nothing is forwarded, or raise messages_max and bytes_max"
        super().__init__(f"the outbox is full ({held}): {text}")
        self.messages = messages
        self.size_bytes = size_bytes
        self.messages_max = messages_max
        self.bytes_max = bytes_max


class KeptMessage(msgspec.Struct, frozen=True):
    """One row. ``message`` is None when the row cannot be read as one; ``refused`` says why then."""

    id: str
    message: Message | None
    kept_ms: int
    refused: str = ""


class KeptMessages:
    """The table and its lease. Safe for threads; every method but ``add`` is a database transaction of its own."""

    def __init__(self, database: Database, table: str, clock: Clock, *, messages_max: int, bytes_max: int) -> None:
        if messages_max < 1 or bytes_max < 1:
            raise ConfigError(f"messages_max and bytes_max must be positive: {messages_max}, {bytes_max}")
        self._database = database
        self._table = Table(f"{table}_messages", "id", _COLUMNS, "lane")
        self._leases = Table(f"{table}_leases", "name", _LEASE_COLUMNS, "until_ms")
        self._name = database.quoted(self._table.name)
        self._lease_name = database.quoted(self._leases.name)
        self._clock = clock
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._last_us = 0
        self._totals: tuple[int, int] = (0, 0)
        self._counted_ms: int | None = None

    def create(self) -> None:
        self._database.create(self._table)
        self._database.create(self._leases)
        newest = self._run(f"SELECT MAX(id) FROM {self._name}").rows[0][0]
        if newest is not None:  # a clock that was set back must not put new messages before old ones
            with self._lock:
                self._last_us = max(self._last_us, int(newest[:20]))

    # --- keeping ---

    def add(self, connection: Any, messages: Sequence[Message]) -> list[KeptMessage]:
        """In the transaction that ``connection`` is in. Raises OutboxFullError."""
        now_ms = self._clock.now_ms()
        rows = [(self._next_id(now_ms), message, _encode(message, now_ms)) for message in messages]
        self._require_room(connection, len(rows), sum(len(data) for _, _, data in rows))
        columns = "(id, lane, bytes, kept_ms, refused, message) VALUES (:id, :lane, :bytes, :kept_ms, '', :message)"
        for row_id, message, data in rows:
            values = {"id": row_id, "lane": lane_of(message), "bytes": len(data), "kept_ms": now_ms, "message": data}
            execute(connection, f"INSERT INTO {self._name} {columns}", values)
        return [KeptMessage(row_id, message, now_ms) for row_id, message, _ in rows]

    def _next_id(self, now_ms: int) -> str:
        with self._lock:
            self._last_us = max(self._last_us + 1, now_ms * 1000)
            return f"{self._last_us:020d}{random.randrange(10**12):012d}"

    def _require_room(self, connection: Any, count: int, size: int) -> None:
        """Rows that other processes write are seen a second later; one process alone is never above the bound."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._counted_ms is None or now_ms - self._counted_ms >= _REFRESH_MS:
                statement = f"SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM {self._name}"
                found = execute(connection, statement, {}).rows[0]
                self._totals, self._counted_ms = (int(found[0]), int(found[1])), now_ms
            messages, held = self._totals
            if messages + count > self._messages_max or held + size > self._bytes_max:
                self._counted_ms = None  # the next one looks again
                limits = {"messages_max": self._messages_max, "bytes_max": self._bytes_max}
                raise OutboxFullError(messages=messages, size_bytes=held, **limits)
            self._totals = (messages + count, held + size)

    # --- forwarding ---

    def lanes(self, count_max: int) -> list[str]:
        """Those with waiting messages, the one that waits longest first."""
        statement = f"SELECT lane, MIN(id) FROM {self._name} WHERE refused = '' GROUP BY lane ORDER BY MIN(id)"
        return [row[0] for row in self._run(f"{statement} LIMIT {count_max:d}").rows]

    def is_waiting(self, lane: str) -> bool:
        statement = f"SELECT MIN(id) FROM {self._name} WHERE lane = :lane AND refused = ''"
        return self._run(statement, lane=lane).rows[0][0] is not None

    def oldest(self, lane: str) -> list[KeptMessage]:
        """The first of a lane, as many as fit into a few megabytes."""
        where = f"FROM {self._name} WHERE lane = :lane AND refused = ''"
        with self._database.begin() as connection:
            found = execute(
                connection, f"SELECT id, bytes {where} ORDER BY id LIMIT {_READ_ROWS_MAX:d}", {"lane": lane}
            ).rows
            total, last = 0, ""
            for row_id, size in found:
                total += size
                if last and total > _READ_BYTES_MAX:
                    break
                last = row_id
            statement = f"SELECT id, message, kept_ms {where} AND id <= :last ORDER BY id"
            rows = execute(connection, statement, {"lane": lane, "last": last}).rows
        return [_decoded(*row) for row in rows]

    def forget(self, ids: Iterable[str]) -> None:
        """Delete messages that brokers have."""
        with self._database.begin() as connection:
            for row_id in ids:
                execute(connection, f"DELETE FROM {self._name} WHERE id = :id", {"id": row_id})
        with self._lock:
            self._counted_ms = None

    def refuse(self, row_id: str, reason: str) -> None:
        """It stays, out of the way of those behind it."""
        statement = f"UPDATE {self._name} SET refused = :reason WHERE id = :id"
        self._run(statement, id=row_id, reason=reason[:_REASON_CHARACTERS_MAX] or "refused")

    def refused(self, count_max: int) -> list[KeptMessage]:
        statement = f"SELECT id, message, kept_ms, refused FROM {self._name} WHERE refused <> '' ORDER BY id"
        return [_decoded(*row) for row in self._run(f"{statement} LIMIT {count_max:d}").rows]

    def retry_refused(self) -> int:
        return self._run(f"UPDATE {self._name} SET refused = '' WHERE refused <> ''").changed

    def waiting(self) -> int:
        return int(self._run(f"SELECT COUNT(*) FROM {self._name} WHERE refused = ''").rows[0][0])

    # --- the lease ---

    def take_lease(self, holder: str, lease_ms: int) -> bool:
        """Also prolongs it. One holder at a time forwards, or messages would overtake each other."""
        now_ms = self._clock.now_ms()
        values = {"name": _ALL_LANES, "holder": holder, "until_ms": now_ms + lease_ms}
        free = "(holder = :holder OR until_ms < :now_ms OR until_ms > :far_ms)"  # far: the clock was set back since
        update = f"UPDATE {self._lease_name} SET holder = :holder, until_ms = :until_ms WHERE name = :name AND {free}"
        if self._run(update, **values, now_ms=now_ms, far_ms=now_ms + 10 * lease_ms).changed:
            return True
        try:
            columns = "(name, holder, until_ms) VALUES (:name, :holder, :until_ms)"
            self._run(f"INSERT INTO {self._lease_name} {columns}", **values)
        except conflicts():
            return False
        return True

    def give_lease_back(self, holder: str) -> None:
        self._run(f"DELETE FROM {self._lease_name} WHERE name = :name AND holder = :h", name=_ALL_LANES, h=holder)

    def _run(self, statement: str, **values: Any) -> Result:
        with self._database.begin() as connection:
            return execute(connection, statement, values)


def lane_of(message: Message) -> str:
    if not message.sharding_key:
        return message.topic
    key = hashlib.blake2b(message.sharding_key.encode(), digest_size=16).hexdigest()
    return f"{message.topic}/{key}"


def _encode(message: Message, now_ms: int) -> bytes:
    """A delay counts from now on, however long the message is kept."""
    if message.delay_ms:
        message = msgspec.structs.replace(message, delay_ms=0, deliver_at_ms=now_ms + message.delay_ms)
    return msgspec.msgpack.encode(message)


def _decoded(row_id: str, data: bytes, kept_ms: int, refused: str = "") -> KeptMessage:
    try:
        return KeptMessage(row_id, msgspec.msgpack.decode(bytes(data), type=Message), kept_ms, refused)
    except (msgspec.MsgspecError, MQError) as error:  # written by another version, or by hand
        return KeptMessage(row_id, None, kept_ms, refused or f"not readable as a message: {error}")
