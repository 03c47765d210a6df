"""Databases that SQLAlchemy reaches; the only module that needs it installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from sqlalchemy.exc import DBAPIError

from pyromq.databases.database import Database, Table


class EngineDatabase(Database):
    """Connections come from the engine's pool."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        self._engine = engine

    @contextmanager
    def begin(self, *, durable: bool = True) -> Iterator[sqlalchemy.Connection]:
        with self._engine.begin() as connection:
            yield connection

    def create(self, table: Table) -> None:
        schema, _, name = table.name.rpartition(".")
        columns = [
            sqlalchemy.Column(
                column,
                sqlalchemy.String(size) if size else sqlalchemy.BigInteger(),
                primary_key=column == table.key,
                autoincrement=False,
                nullable=False,
            )
            for column, size in table.columns
        ]
        made = sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema or None)
        sqlalchemy.Index(f"{name}_{table.index}", made.c[table.index])
        try:
            made.create(self._engine, checkfirst=True)
        except DBAPIError:
            if not sqlalchemy.inspect(self._engine).has_table(name, schema=schema or None):
                raise  # otherwise another process made it at the same time

    def quoted(self, name: str) -> str:
        quote = self._engine.dialect.identifier_preparer.quote
        return ".".join(quote(part) for part in name.split("."))

    def close(self) -> None:
        """The engine is the application's."""
