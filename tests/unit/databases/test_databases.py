"""Statements on SQLite files and on whatever SQLAlchemy reaches: transactions, tables, names."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq.databases import Database, Table, conflicts, database_of, execute
from pyromq.databases.sqlite_file import SqliteFile
from pyromq.errors import ConfigError

TABLE = Table("things", "name", (("name", 64), ("size", 0)), "size")
Make = Callable[[Path], Any]
KINDS: dict[str, Make] = {
    "sqlite3": str,
    "sqlalchemy": lambda path: sqlalchemy.create_engine(f"sqlite:///{path}"),
}


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    database = database_of(KINDS[request.param](tmp_path / "t.db"))
    database.create(TABLE)
    return database


def names_in(database: Database) -> list[str]:
    with database.begin() as connection:
        return [row[0] for row in execute(connection, "SELECT name FROM things ORDER BY name", {}).rows]


def add(connection: Any, name: str) -> int:
    return execute(connection, "INSERT INTO things (name, size) VALUES (:name, 1)", {"name": name}).changed


def test_a_block_is_committed_whole_or_not_at_all(database: Database) -> None:
    with database.begin() as connection:
        assert add(connection, "a") == 1
        add(connection, "b")
    with pytest.raises(ValueError, match="mine"), database.begin() as connection:
        add(connection, "c")
        raise ValueError("mine")
    assert names_in(database) == ["a", "b"]


def test_a_second_row_with_the_same_key_is_a_conflict(database: Database) -> None:
    with database.begin() as connection:
        add(connection, "a")
    with pytest.raises(conflicts()), database.begin() as connection:
        add(connection, "a")


def test_values_are_never_part_of_the_statement(database: Database) -> None:
    nasty = "x'); DROP TABLE things; --"
    with database.begin() as connection:
        add(connection, nasty)
    assert names_in(database) == [nasty]


def test_creating_a_table_that_is_there_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        add(connection, "a")
    database.create(TABLE)
    assert names_in(database) == ["a"]


@pytest.mark.parametrize("name", ["a;b", "a b", "", "1a", 'a"b', "a.b.c", "a'--", "é", "a" * 64])
def test_names_that_could_be_more_than_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not allowed"):
        Table(name, "k", (), "k")


def test_a_reserved_word_is_quoted(tmp_path: Path) -> None:
    for kind, make in KINDS.items():
        database = database_of(make(tmp_path / f"{kind}.db"))
        database.create(Table("order", "name", TABLE.columns, "size"))
        with database.begin() as connection:
            execute(connection, f"INSERT INTO {database.quoted('order')} VALUES (:n, 1)", {"n": "a"})


def test_a_table_may_have_a_schema(tmp_path: Path) -> None:
    for kind, make in KINDS.items():
        database = database_of(make(tmp_path / f"{kind}.db"))
        database.create(Table("main.things", "name", TABLE.columns, "size"))
        with database.begin() as connection:
            execute(connection, f"INSERT INTO {database.quoted('main.things')} VALUES (:n, 1)", {"n": "a"})
        assert names_in(database) == ["a"]


def test_connections_of_the_application_are_used_in_their_own_transaction(tmp_path: Path) -> None:
    database_of(tmp_path / "t.db").create(TABLE)
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 't.db'}")
    plain = sqlite3.connect(tmp_path / "t.db")
    add(plain, "plain")
    assert plain.in_transaction
    plain.rollback()
    with Session(engine) as session:
        add(session, "session")
        session.commit()
    with engine.connect() as connection:
        add(connection, "left open")
    assert names_in(database_of(engine)) == ["session"]
    plain.close()
    engine.dispose()


def test_a_connection_without_transaction_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    connection.execute("CREATE TABLE things (name, size)")
    with pytest.raises(ConfigError, match="BEGIN a transaction first"):
        add(connection, "a")
    connection.execute("BEGIN")
    add(connection, "a")
    connection.close()


def test_what_is_no_database_and_no_connection_is_refused() -> None:
    class Asynchronous:
        def run_sync(self) -> None: ...

    for given in (3, object()):
        with pytest.raises(ConfigError, match="Django's connection was expected"):
            database_of(given)
    with pytest.raises(ConfigError, match="one connection only"):
        database_of(":memory:")
    with pytest.raises(ConfigError, match=r"run_sync\(function"):
        execute(Asynchronous(), "SELECT 1", {})
    with pytest.raises(ConfigError, match="not int"):
        execute(3, "SELECT 1", {})


def test_a_transaction_that_is_ended_inside_its_block_is_noticed(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="ended inside its block"),
        SqliteFile(tmp_path / "t.db").begin() as connection,
    ):
        connection.rollback()


def test_a_new_file_gets_a_write_ahead_log_and_one_that_was_there_keeps_its_journal(tmp_path: Path) -> None:
    for path, journal in ((tmp_path / "new.db", "wal"), (tmp_path / "old.db", "delete")):
        if journal == "delete":
            sqlite3.connect(path).executescript("CREATE TABLE t (a)").connection.close()
        with SqliteFile(path).begin():
            pass
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
        connection.close()


def test_writers_of_many_threads_wait_for_each_other(tmp_path: Path) -> None:
    database = SqliteFile(tmp_path / "t.db")
    database.create(Table("n", "id", (("id", 0), ("value", 0)), "value"))
    with database.begin() as connection:
        execute(connection, "INSERT INTO n VALUES (1, 0)", {})

    def work() -> None:
        for _ in range(20):
            with database.begin() as connection:
                value = execute(connection, "SELECT value FROM n", {}).rows[0][0]
                execute(connection, "UPDATE n SET value = :value", {"value": value + 1})

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.begin() as connection:
        assert execute(connection, "SELECT value FROM n", {}).rows == [(240,)]
    database.close()


def test_a_forked_child_opens_its_own_connections(tmp_path: Path) -> None:
    code = f"""
import os
from pyromq.databases.sqlite_file import SqliteFile
database = SqliteFile({str(tmp_path / "t.db")!r})
with database.begin() as parents:
    parents.execute("CREATE TABLE things (name)")
child = os.fork()
if child == 0:
    with database.begin() as connection:
        connection.execute("INSERT INTO things VALUES ('child')")
        is_shared = connection is parents
    os._exit(is_shared)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert names_in(database_of(tmp_path / "t.db")) == ["child"]


def test_sqlalchemy_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = f"""
import sys, pyromq.outbox, pyromq.idempotent
pyromq.outbox.Outbox({str(tmp_path / "t.db")!r}).create()
pyromq.idempotent.Marks({str(tmp_path / "t.db")!r}, scope="g").claim("a")
assert "sqlalchemy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
