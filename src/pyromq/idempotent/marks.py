"""Marks: which messages were consumed, and which are being consumed right now.

    key_hash    primary key: of scope and key            done        0 in progress, 1 consumed
    scope, message_key   for people who look             token       whose claim it is
    until_ms    in progress: end of the lease; consumed: when the mark may go

A claim is a mark that is not done. It holds for a lease, which its owner renews while the listener runs; one that died
lets it run out. Times are wall clock times, because several machines may share a table.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock, default_clock
from pyromq.databases import Table, conflicts, database_of, execute
from pyromq.errors import ConfigError, MQError
from pyromq.idempotent.keys import key_hash, message_key
from pyromq.idempotent.leases import Claim, Leases
from pyromq.idempotent.skips import note_skips

logger = logging.getLogger(__name__)

LEASE_MS: Final = 60_000
KEEP_MS: Final = 7 * 24 * 3_600_000
_PRUNE_MS: Final = 3_600_000
_SHOWN_CHARACTERS: Final = 255
_COLUMNS: Final = (
    ("key_hash", 64),
    ("scope", 255),
    ("message_key", _SHOWN_CHARACTERS),
    ("done", 0),
    ("token", 32),
    ("until_ms", 0),
)


class InProgressError(MQError):
    """Another consumer has the message at this moment: let it come again later, for that one may still fail."""


class MarkedMeanwhileError(InProgressError):
    """Another consumer committed the message between our look and our mark."""


class Marks:
    """``database`` is the path of a SQLite file or a SQLAlchemy ``Engine``; ``scope`` keeps groups apart in one table.

    A mark is kept for ``keep_ms``: longer than a message can come again. Threads and processes may share one.
    Raises ConfigError, and what the database raises.
    """

    def __init__(
        self,
        database: Any,
        *,
        scope: str,
        table: str = "pyromq_marks",
        lease_ms: int = LEASE_MS,
        keep_ms: int = KEEP_MS,
        clock: Clock | None = None,
    ) -> None:
        if lease_ms <= 0 or keep_ms <= 0:
            raise ConfigError("lease_ms and keep_ms must be positive")
        if not 0 < len(scope) <= _SHOWN_CHARACTERS:
            raise ConfigError(f"scope must have 1 to {_SHOWN_CHARACTERS} characters; the consumer group is a good one")
        self.database = database_of(database)
        self._scope = scope
        self._lease_ms = lease_ms
        self._keep_ms = keep_ms
        self._clock = clock or default_clock()
        self._name = self.database.quoted(table)
        self.database.create(Table(table, "key_hash", _COLUMNS, "until_ms"))
        self.skipped = 0  # messages that listeners were not called for, since this object was made
        self._counting = threading.Lock()
        self._leases = Leases(self._prolong, lease_ms)
        self._pruned_ms = self._clock.monotonic_ms()

    def note_skips(self, messages: Sequence[ReceivedMessage]) -> None:
        """Counts messages that are not consumed again."""
        with self._counting:
            self.skipped += len(messages)
        note_skips(messages, self._scope)

    # --- around an effect ---

    def claim(self, key: str) -> Claim | None:
        """The right to consume a message, or None if it was consumed. Raises InProgressError."""
        return self.claim_all([key])[0]

    def claim_all(self, keys: Sequence[str]) -> list[Claim | None]:
        """Claim several keys as ``claim`` does, all or none. Raises InProgressError."""
        self.prune_sometimes()
        claims: dict[str, Claim | None] = {}
        try:
            with self.database.begin(durable=False) as connection:
                for key in sorted(keys):  # in one order, or two batches could wait for each other for ever
                    claims[key] = self._claimed(connection, key)
        except conflicts() as error:
            raise InProgressError(f"{_shown(key)} was claimed elsewhere a moment ago") from error
        for claim in claims.values():
            if claim is not None:
                self._leases.hold(claim)
        return [claims[key] for key in keys]

    def _claimed(self, connection: Any, key: str) -> Claim | None:
        claim, now_ms = self._new_claim(key), self._clock.now_ms()
        row = self._find(connection, claim.hash)
        if row is None:
            self._insert(connection, claim, done=0, until_ms=now_ms + self._lease_ms)
        elif row[0]:
            return None
        elif row[2] > now_ms or not self._take_over(connection, claim, row, now_ms):
            raise InProgressError(f"{_shown(key)} is being consumed elsewhere, until {row[2]} at the latest")
        return claim

    def finish(self, *claims: Claim) -> None:
        """Mark a key as done: its effects are there."""
        text = f"UPDATE {self._name} SET done = 1, until_ms = :until_ms WHERE key_hash = :hash AND token = :token"
        until_ms = self._clock.now_ms() + self._keep_ms
        with self._ending(claims, durable=True) as connection:
            for claim in claims:
                values = {"hash": claim.hash, "token": claim.token, "until_ms": until_ms}
                if not execute(connection, text, values).changed:
                    logger.warning("lease ran out while a message was consumed: key=%s", _shown(claim.key))

    def release(self, *claims: Claim) -> None:
        """The effects are not there: they may be tried again."""
        text = f"DELETE FROM {self._name} WHERE key_hash = :hash AND token = :token AND done = 0"
        with self._ending(claims, durable=False) as connection:
            for claim in claims:
                execute(connection, text, {"hash": claim.hash, "token": claim.token})

    def _ending(self, claims: Sequence[Claim], *, durable: bool) -> AbstractContextManager[Any]:
        for claim in claims:
            self._leases.let_go(claim)
        return self.database.begin(durable=durable)

    # --- within a transaction ---

    def first_time(self, connection: Any, message: ReceivedMessage | str) -> bool:
        """Marks a message (or a key) in your own transaction; False if it was consumed before: then do nothing.

        A ``sqlite3.Connection``, or SQLAlchemy's ``Connection`` or ``Session``, with its asyncio ones
        ``await session.run_sync(marks.first_time, message)``. Call it first: who comes second waits for your commit.
        Raises InProgressError when another consumer is about to consume it; roll back then. Call ``prune`` now and
        then, outside of transactions.
        """
        key = message if isinstance(message, str) else message_key(message)
        claim = self._new_claim(key)
        row = self._find(connection, claim.hash)
        if row is not None:
            if not row[0] and row[2] > self._clock.now_ms():
                raise InProgressError(f"{_shown(key)} is being consumed elsewhere, until {row[2]} at the latest")
            if not row[0]:
                return self._finish_for(connection, claim, row)
            return False
        try:
            self._insert(connection, claim, done=1, until_ms=self._clock.now_ms() + self._keep_ms)
        except conflicts() as error:
            raise MarkedMeanwhileError(f"{_shown(key)} was consumed elsewhere a moment ago") from error
        return True

    def _finish_for(self, connection: Any, claim: Claim, row: Any) -> bool:
        """In place of a claim whose owner has died."""
        if not self._take_over(connection, claim, row, self._clock.now_ms()):
            raise InProgressError(f"{_shown(claim.key)} was claimed elsewhere a moment ago")
        values = {"hash": claim.hash, "until_ms": self._clock.now_ms() + self._keep_ms}
        execute(connection, f"UPDATE {self._name} SET done = 1, until_ms = :until_ms WHERE key_hash = :hash", values)
        return True

    # --- leases ---

    def renew(self) -> None:
        """Prolongs the claims that are held here; happens by itself."""
        self._leases.renew_now()

    def _prolong(self, claims: list[Claim]) -> None:
        text = f"UPDATE {self._name} SET until_ms = :until_ms WHERE key_hash = :hash AND token = :token AND done = 0"
        with self.database.begin(durable=False) as connection:
            for claim in claims:
                until_ms = self._clock.now_ms() + self._lease_ms
                execute(connection, text, {"hash": claim.hash, "token": claim.token, "until_ms": until_ms})

    # --- upkeep ---

    def prune(self) -> int:
        """Deletes marks that may go, and claims whose owners died long ago; how many."""
        now_ms = self._clock.now_ms()
        text = f"DELETE FROM {self._name} WHERE until_ms < :now_ms AND (done = 1 OR until_ms < :long_ago_ms)"
        with self.database.begin() as connection:
            return execute(connection, text, {"now_ms": now_ms, "long_ago_ms": now_ms - self._keep_ms}).changed

    def close(self) -> None:
        """Closes connections to the database."""
        self.database.close()

    def prune_sometimes(self) -> None:
        """Once an hour; not within a transaction, which may hold the table."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._pruned_ms > _PRUNE_MS:
            self._pruned_ms = now_ms
            self.prune()

    # --- rows ---

    def _new_claim(self, key: str) -> Claim:
        return Claim(key_hash(self._scope, key), secrets.token_hex(16), key)

    def _find(self, connection: Any, hash_: str) -> Any:
        """``done``, ``token``, ``until_ms``, or None."""
        text = f"SELECT done, token, until_ms FROM {self._name} WHERE key_hash = :hash"
        rows = execute(connection, text, {"hash": hash_}).rows
        return rows[0] if rows else None

    def _insert(self, connection: Any, claim: Claim, *, done: int, until_ms: int) -> None:
        values = {
            "hash": claim.hash,
            "scope": self._scope,
            "key": _shown(claim.key),
            "done": done,
            "token": claim.token,
            "until_ms": until_ms,
        }
        columns = "(key_hash, scope, message_key, done, token, until_ms)"
        text = f"INSERT INTO {self._name} {columns} VALUES (:hash, :scope, :key, :done, :token, :until_ms)"
        execute(connection, text, values)

    def _take_over(self, connection: Any, claim: Claim, row: Any, now_ms: int) -> bool:
        """A claim whose lease ran out, unless another consumer was quicker."""
        values = {"hash": claim.hash, "token": claim.token, "until_ms": now_ms + self._lease_ms, "old": row[1]}
        text = f"UPDATE {self._name} SET token = :token, until_ms = :until_ms"
        where = "WHERE key_hash = :hash AND token = :old AND until_ms = :old_ms AND done = 0"
        return bool(execute(connection, f"{text} {where}", {**values, "old_ms": row[2]}).changed)


def _shown(key: str) -> str:
    """A key in a log, an error or the table."""
    return key.replace("\x00", "/").encode("utf-8", "replace").decode()[:_SHOWN_CHARACTERS]
