"""Databases that SQLAlchemy reaches with a driver for asyncio.

The application's connections live on its own event loop. What we do by ourselves (checks, forwarding, pruning) happens
on threads, also while that loop is busy or gone; so it has a pool of its own, like the application's, whose connections
live on a loop in a thread of ours.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from pyromq.databases.database import Database, Table
from pyromq.databases.engine import create_on, is_on, quoted_by

T = TypeVar("T")


class AsyncEngineDatabase(Database):
    """``engine`` is the application's; ours has the same arguments."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: AsyncEngine | None = None
        self._pid = os.getpid()

    @contextmanager
    def begin(self, *, durable: bool = True) -> Iterator[BridgedConnection]:
        block = self._engine().begin()
        connection = self._run(block.__aenter__())
        try:
            yield BridgedConnection(self, connection)
        except BaseException as error:  # the block rolls back; raised again
            self._run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._run(block.__aexit__(None, None, None))

    def create(self, table: Table) -> None:
        try:
            with self.begin() as connection:
                connection.run(create_on, table)
        except DBAPIError:
            with self.begin() as connection:
                if not connection.run(is_on, table):
                    raise  # otherwise another process made it at the same time

    def quoted(self, name: str) -> str:
        return quoted_by(self.engine.dialect, name)

    def close(self) -> None:
        """Our own connections; the engine is the application's."""
        with self._lock:
            loop, own, self._loop, self._own = self._loop, self._own, None, None
        if loop is not None and own is not None and self._pid == os.getpid():
            asyncio.run_coroutine_threadsafe(own.dispose(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def run_sync(self, connection: AsyncConnection, work: Any, *arguments: Any) -> Any:
        return self._run(connection.run_sync(work, *arguments))

    def _engine(self) -> AsyncEngine:
        with self._lock:
            if self._own is None or self._pid != os.getpid():
                given = self.engine.sync_engine
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._own = AsyncEngine(sqlalchemy.Engine(given.pool.recreate(), given.dialect, given.url))
                threading.Thread(target=_turn, args=(self._loop,), name="pyromq-database", daemon=True).start()
            return self._own

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class BridgedConnection:
    """A connection on our loop, for threads: ``execute`` waits."""

    def __init__(self, database: AsyncEngineDatabase, connection: AsyncConnection) -> None:
        self._database = database
        self._connection = connection

    def execute(self, statement: Any, values: Mapping[str, Any] | None = None) -> Any:
        return self.run(lambda connection: connection.execute(statement, values or {}))

    def run(self, work: Any, *arguments: Any) -> Any:
        """``work(connection, …)`` with SQLAlchemy's sync form of the connection."""
        return self._database.run_sync(self._connection, work, *arguments)


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
