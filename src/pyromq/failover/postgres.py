"""The lease in PostgreSQL: a row per broker name, changed only if its version is still the one that was read.

One connection is kept and opened again when it is lost. Statements have a deadline on both sides: a server that hangs
must not make the agent hang. The primary must answer: a standby would show an old lease.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyromq.failover.record import LeaseConflictError, LeaseError, LeaseRecord, LeaseStoreAwayError, decode_record
from pyromq.failover.store import StoredLease

if TYPE_CHECKING:
    import psycopg

_TIMEOUT_S: Final = 2.0
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS pyromq_leases (
    name text PRIMARY KEY, version bigint NOT NULL, record text NOT NULL, changed timestamptz NOT NULL DEFAULT now()
)"""
_CREATED_MEANWHILE: Final = {"42P07", "42710", "23505"}  # IF NOT EXISTS looks only at what is committed
_READ: Final = "SELECT record, version FROM pyromq_leases WHERE name = %s"
_INSERT: Final = (
    "INSERT INTO pyromq_leases (name, version, record) VALUES (%s, 1, %s)"
    " ON CONFLICT (name) DO NOTHING RETURNING version"
)
_UPDATE: Final = (
    "UPDATE pyromq_leases SET version = version + 1, record = %s, changed = now() WHERE name = %s AND version = %s"
    " RETURNING version"
)


class PostgresLeaseStore:
    """``address`` as psycopg takes it, such as postgresql://user@host/database; needs pyromq[failover]."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def read(self) -> StoredLease | None:
        row = await self._ask(_READ, (self._key,))
        return None if row is None else StoredLease(decode_record(row[0]), str(row[1]))

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        text = record.encode().decode()
        if expected is None:
            row = await self._ask(_INSERT, (self._key, text))
        else:
            row = await self._ask(_UPDATE, (text, self._key, int(expected)))
        if row is None:
            raise LeaseConflictError("the lease in PostgreSQL has changed")
        return str(row[0])

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, statement: str, values: tuple[object, ...]) -> Any:
        psycopg = _driver()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await self._opened()
                cursor = await connection.execute(statement.encode(), values)
                return await cursor.fetchone()
        except (psycopg.Error, TimeoutError, OSError) as error:
            await self._forget()
            is_away = isinstance(error, psycopg.OperationalError | TimeoutError | OSError)
            raise (LeaseStoreAwayError if is_away else LeaseError)(
                f"PostgreSQL: {str(error).strip() or type(error).__name__}"
            ) from error

    async def _opened(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            options = f"-c statement_timeout={round(_TIMEOUT_S * 1000)} -c synchronous_commit=on"
            self._connection = await _driver().AsyncConnection.connect(
                self._address, autocommit=True, options=options, target_session_attrs="read-write"
            )
            await self._create(self._connection)
        return self._connection

    async def _create(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Make the table unless it is there; agents that start at the same moment may all try, and one of them does."""
        try:
            await connection.execute(_CREATE.encode())
        except _driver().Error as error:
            if error.sqlstate not in _CREATED_MEANWHILE:
                raise

    async def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # whatever state it is in: it is not used again
                async with asyncio.timeout(_TIMEOUT_S):
                    await connection.close()


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise LeaseError("a lease in PostgreSQL needs psycopg: pip install 'pyromq[failover]'") from error
    return psycopg
