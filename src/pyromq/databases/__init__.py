"""The application's own database, for what has to be written together with its data: outboxes and marks.

A SQLite file through the standard library, or whatever SQLAlchemy 2 reaches (``pip install 'pyromq[sqlalchemy]'``),
with a driver for threads or one for asyncio; or the connection of a Django project.
Statements are the same text for all of them, with ``:name`` for values.
"""

from __future__ import annotations

from pyromq.databases.database import BYTES, NUMBER, Database, Table, database_of
from pyromq.databases.results import Result
from pyromq.databases.statements import conflicts, execute, is_djangos

__all__ = ["BYTES", "NUMBER", "Database", "Result", "Table", "conflicts", "database_of", "execute", "is_djangos"]
