"""Databases that SQLAlchemy reaches with a driver for threads; this and its neighbours need it installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy.exc import DBAPIError

from pyromq.databases.database import NUMBER, Database, Table


class EngineDatabase(Database):
    """Connections come from the engine's pool; ``is_ours``: no other has this engine."""

    def __init__(self, engine: sqlalchemy.Engine, *, is_ours: bool = False) -> None:
        self._engine = engine
        self._is_ours = is_ours

    @contextmanager
    def begin(self, *, durable: bool = True) -> Iterator[sqlalchemy.Connection]:
        with self._engine.begin() as connection:
            yield connection

    def create(self, table: Table) -> None:
        try:
            with self._engine.begin() as connection:
                create_on(connection, table)
        except DBAPIError:
            with self._engine.connect() as connection:
                if not is_on(connection, table):
                    raise  # otherwise another process made it at the same time

    def quoted(self, name: str) -> str:
        return quoted_by(self._engine.dialect, name)

    def close(self) -> None:
        """An engine of the application stays as it is."""
        if self._is_ours:
            self._engine.dispose()


def create_on(connection: sqlalchemy.Connection, table: Table) -> None:
    """Create a table unless it exists."""
    schema, _, name = table.name.rpartition(".")
    columns = [
        sqlalchemy.Column(column, _type_of(size), primary_key=column == table.key, autoincrement=False, nullable=False)
        for column, size in table.columns
    ]
    made = sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema or None)
    sqlalchemy.Index(f"{name}_{table.index}", made.c[table.index])
    made.create(connection, checkfirst=True)


def is_on(connection: sqlalchemy.Connection, table: Table) -> bool:
    schema, _, name = table.name.rpartition(".")
    return sqlalchemy.inspect(connection).has_table(name, schema=schema or None)


def quoted_by(dialect: sqlalchemy.Dialect, name: str) -> str:
    quote = dialect.identifier_preparer.quote
    return ".".join(quote(part) for part in name.split("."))


def _type_of(size: int) -> Any:
    if size > 0:
        return sqlalchemy.String(size)
    return sqlalchemy.BigInteger() if size == NUMBER else sqlalchemy.LargeBinary(1 << 24)  # MySQL: a MEDIUMBLOB
