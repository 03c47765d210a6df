"""A database that we open connections to ourselves, beside those that the application hands us."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyromq.databases.statements import checked_name, is_djangos
from pyromq.errors import ConfigError

NUMBER: Final = 0
BYTES: Final = -1


@dataclass(frozen=True, slots=True)
class Table:
    """``columns``: names with their largest number of characters, or NUMBER (64 bits), or BYTES (megabytes of them)."""

    name: str
    key: str
    columns: tuple[tuple[str, int], ...]
    index: str  # another column that is searched

    def __post_init__(self) -> None:
        checked_name(self.name)


class Database(ABC):
    """Safe for threads; a forked child opens its own connections."""

    @abstractmethod
    def begin(self, *, durable: bool = True) -> AbstractContextManager[Any]:
        """A connection in a transaction for writing: committed at the end of the block, rolled back if it raises.

        ``durable=False``: the end of the block need not wait for the disk, if the database can be set so.
        """

    @abstractmethod
    def create(self, table: Table) -> None:
        """Create a table unless it exists."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A table's name as it stands in statements."""

    def after_commit(self, function: Callable[[], None]) -> None:
        """Calls it when what was written in ``begin`` is committed: now, unless that was part of a larger block."""
        function()

    @abstractmethod
    def close(self) -> None:
        """Closes connections that we opened."""


def database_of(given: Any) -> Database:
    """Open the application's database from a path, a URL, a SQLAlchemy ``Engine`` or ``AsyncEngine``, Django's
    ``connection``, or a ``Database``.

    Raises ConfigError, also when a package is missing that the database needs; it says which.
    """
    from pyromq.databases.sqlite_file import SqliteFile

    if isinstance(given, Database):
        return given
    is_ours = isinstance(given, str) and "://" in given
    if is_ours:
        from pyromq.databases.urls import engine_of

        given = engine_of(given)
    if isinstance(given, str | Path):
        return SqliteFile(given)
    if is_djangos(given):
        from pyromq.databases.django_connection import DjangoDatabase

        return DjangoDatabase(given.alias)
    if hasattr(given, "sync_engine"):
        from pyromq.databases.async_engine import AsyncEngineDatabase

        return AsyncEngineDatabase(given)
    if hasattr(given, "dialect") and hasattr(given, "begin"):
        from pyromq.databases.engine import EngineDatabase

        return EngineDatabase(given, is_ours=is_ours)
    text = "the path of a SQLite file, the URL of a database, a SQLAlchemy Engine or Django's connection was expected"
    raise ConfigError(f"{text}, not {type(given).__name__}")
