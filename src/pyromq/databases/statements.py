"""One statement on a connection of either kind, the application's or ours."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyromq.databases.results import Result
from pyromq.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


def execute(connection: Any, statement: str, values: Mapping[str, Any]) -> Result:
    """On a ``sqlite3.Connection``, SQLAlchemy's ``Connection`` or ``Session``, or Django's, in the transaction it has.

    Raises what the database raises, and ConfigError for a connection that is not in a transaction or is none.
    """
    if isinstance(connection, sqlite3.Connection):
        _require_transaction(connection)
        cursor = connection.execute(statement, dict(values))
        return Result(cursor.fetchall() if cursor.description else [], cursor.rowcount)
    if is_djangos(connection):
        from pyromq.databases.django_connection import execute_on

        return execute_on(connection, statement, values)
    if hasattr(connection, "run_sync"):
        text = "this connection is SQLAlchemy's asyncio one: use async with"
        raise ConfigError(f"{text}, or await connection.run_sync(function, …)")
    if not hasattr(connection, "execute"):
        text = "a sqlite3.Connection, SQLAlchemy's Connection or Session, or Django's connection was expected"
        raise ConfigError(f"{text}, not {type(connection).__name__}")
    from sqlalchemy import text as sql

    result = connection.execute(sql(statement), dict(values))
    return Result(list(result.all()) if result.returns_rows else [], 0 if result.returns_rows else result.rowcount)


def conflicts() -> tuple[type[Exception], ...]:
    """What databases raise for a key that is there already."""
    others = [sys.modules[name].IntegrityError for name in ("sqlalchemy.exc", "django.db") if name in sys.modules]
    return (sqlite3.IntegrityError, *others)


def is_djangos(connection: Any) -> bool:
    """Whether it is a connection of Django, or what stands for the one of this thread (``django.db.connection``)."""
    return hasattr(connection, "settings_dict") and hasattr(connection, "in_atomic_block")


def checked_name(name: str) -> str:
    """A table's name, perhaps with its schema before a dot: it becomes part of statements. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"table name {name!r} is not allowed: letters, digits and _ only, perhaps schema.table")
    return name


def _require_transaction(connection: sqlite3.Connection) -> None:
    commits_by_itself = connection.isolation_level is None or getattr(connection, "autocommit", False) is True
    if commits_by_itself and not connection.in_transaction:
        raise ConfigError("this sqlite3 connection commits every statement by itself: BEGIN a transaction first")
