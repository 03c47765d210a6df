"""The database of a Django project: its own connection of the thread, inside ``transaction.atomic``.

``from django.db import connection; Outbox(connection)``: rows that the ORM writes and what we write are one
transaction, also inside of the request's own (``ATOMIC_REQUESTS``). Threads of ours open connections by the project's
settings and close them again, because no request ends there that would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.db import DatabaseError, connections, models, transaction

from pyromq.databases.database import BYTES, NUMBER, Database, Table
from pyromq.databases.results import Result
from pyromq.errors import ConfigError

_VALUE: Final = re.compile(r":(\w+)")


class DjangoDatabase(Database):
    """``alias`` is a name in the project's DATABASES; connections belong to threads, as Django has it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @contextmanager
    def begin(self, *, durable: bool = True) -> Iterator[Any]:
        connection = connections[self.alias]
        is_ours = connection.connection is None and not connection.in_atomic_block
        try:
            with transaction.atomic(using=self.alias):
                yield connection
        finally:
            if is_ours:
                connection.close()

    def create(self, table: Table) -> None:
        try:
            with self.begin() as connection:
                if not _has(connection, table):
                    _create(connection, table)
        except DatabaseError:
            with self.begin() as connection:
                if not _has(connection, table):
                    raise  # otherwise another process made it at the same time

    def quoted(self, name: str) -> str:
        quote = connections[self.alias].ops.quote_name
        return ".".join(quote(part) for part in name.split("."))

    def after_commit(self, function: Callable[[], None]) -> None:
        """After the outermost block, and not at all if that is rolled back."""
        transaction.on_commit(function, using=self.alias)

    def close(self) -> None:
        """Close nothing: the connections are Django's."""


def execute_on(connection: Any, statement: str, values: Mapping[str, Any]) -> Result:
    """In the transaction that the connection is in. Raises ConfigError if it is in none."""
    if not connection.in_atomic_block:
        text = "this Django connection commits every statement by itself"
        raise ConfigError(f"{text}: with transaction.atomic(): …, or with outbox.begin() as box: …")
    names: list[str] = []

    def placed(found: re.Match[str]) -> str:
        names.append(found[1])
        return "%s"

    with connection.cursor() as cursor:
        cursor.execute(_VALUE.sub(placed, statement.replace("%", "%%")), [values[name] for name in names])
        return Result(list(cursor.fetchall()) if cursor.description else [], cursor.rowcount)


def _has(connection: Any, table: Table) -> bool:
    return table.name.rpartition(".")[2] in connection.introspection.table_names()


def _create(connection: Any, table: Table) -> None:
    quote = connection.ops.quote_name
    columns = [f"{quote(name)} {_field(size).db_type(connection)} NOT NULL" for name, size in table.columns]
    schema, _, name = table.name.rpartition(".")
    where = f"{quote(schema)}.{quote(name)}" if schema else quote(name)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {where} ({', '.join(columns)}, PRIMARY KEY ({quote(table.key)}))")
        cursor.execute(f"CREATE INDEX {quote(f'{name}_{table.index}')} ON {where} ({quote(table.index)})")


def _field(size: int) -> Any:
    kinds = {NUMBER: models.BigIntegerField, BYTES: models.BinaryField}
    return kinds[size]() if size in kinds else models.CharField(max_length=size)
