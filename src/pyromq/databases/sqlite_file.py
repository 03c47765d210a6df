"""A SQLite file: a few connections that threads take and give back, and writers that wait for each other.

``BEGIN IMMEDIATE`` takes the right to write at once. A transaction that begins with reading and then wants to write
would be refused, without waiting, when another connection wrote in between.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyromq.databases.database import BYTES, NUMBER, Database, Table
from pyromq.errors import ConfigError

BUSY_MS: Final = 30_000
_IDLE_MAX: Final = 8
_LOCKED_PAUSE_S: Final = 0.02


class SqliteFile(Database):
    """``busy_ms``: how long a writer waits for another one.

    A file that is not there yet gets a write-ahead log; one that is keeps the journal that it has.
    """

    def __init__(self, path: str | Path, *, busy_ms: int = BUSY_MS) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigError("a database in memory is seen by one connection only: give the path of a file")
        self._path = str(path)
        self._busy_ms = busy_ms
        self._is_new = not Path(path).exists()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []  # of the parent process: kept so that none is closed here
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @contextmanager
    def begin(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            if not connection.in_transaction:
                raise ConfigError("the transaction was ended inside its block: leave commit and rollback to the block")
            connection.execute("COMMIT")
        finally:
            self._give_back(connection)

    def create(self, table: Table) -> None:
        kinds = {NUMBER: "BIGINT", BYTES: "BLOB"}
        columns = [f"{name} {kinds.get(size) or f'VARCHAR({size})'} NOT NULL" for name, size in table.columns]
        schema, _, name = table.name.rpartition(".")
        index = self.quoted(f"{schema}.{name}_{table.index}" if schema else f"{name}_{table.index}")
        with self.begin() as connection:
            rows = f"({', '.join(columns)}, PRIMARY KEY ({table.key}))"
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.quoted(table.name)} {rows}")
            connection.execute(f'CREATE INDEX IF NOT EXISTS {index} ON "{name}" ({table.index})')

    def quoted(self, name: str) -> str:
        return ".".join(f'"{part}"' for part in name.split("."))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # --- connections ---

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._pid != os.getpid():  # SQLite's connections cannot be used across a fork, not even closed
                self._inherited = self._idle
                self._idle = []
                self._pid = os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._opened()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.row_factory = None
        except sqlite3.Error:
            connection.close()
            return
        with self._lock:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_ms / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            if self._is_new:
                self._use_wal(connection)
        except BaseException:  # no caller has the open connection yet; raised again
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Two that change the journal at the same time do not wait for each other, so we do."""
        deadline = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCKED_PAUSE_S)
