"""URLs of databases: an engine, or a sentence that says what to install."""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from pyromq.databases import database_of
from pyromq.databases.urls import engine_of
from pyromq.errors import ConfigError
from pyromq.outbox import Outbox

URL = "postgresql://shop:canary@db.example:5432/shop"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes modules unfindable."""

    def hide(*names: str) -> None:
        real, real_module = builtins.__import__, importlib.import_module

        def refuse(name: str) -> None:
            if name.partition(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        def find(name: str, *arguments: Any, **named: Any) -> Any:
            level = named.get("level", arguments[3] if len(arguments) > 3 else 0)
            if level == 0:
                refuse(name)
            return real(name, *arguments, **named)

        def find_module(name: str, *arguments: Any) -> Any:
            refuse(name)
            return real_module(name, *arguments)

        for module in [each for each in sys.modules if each.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(builtins, "__import__", find)
        monkeypatch.setattr("pyromq.databases.urls.import_module", find_module)

    return hide


@pytest.mark.parametrize(
    ("url", "hidden", "advice"),
    [
        (URL, ("psycopg", "psycopg2", "pg8000"), r"pip install 'psycopg\[binary\]'"),
        (URL.replace("postgresql", "postgres"), ("psycopg", "psycopg2", "pg8000"), r"pip install 'psycopg\[binary\]'"),
        (URL.replace("postgresql", "postgresql+psycopg2"), ("psycopg2",), "pip install psycopg2-binary"),
        (URL.replace("postgresql", "postgresql+asyncpg"), ("asyncpg",), "pip install asyncpg greenlet"),
        (URL.replace("postgresql", "mysql"), ("pymysql", "MySQLdb"), "pip install pymysql"),
        ("sqlite+aiosqlite:///a.db", ("aiosqlite", "greenlet"), "pip install aiosqlite greenlet"),
    ],
)
def test_a_driver_that_is_missing_is_named_with_its_package(
    url: str, hidden: tuple[str, ...], advice: str, without: Any
) -> None:
    without(*hidden)
    with pytest.raises(ConfigError, match=advice) as caught:
        Outbox(url)
    assert "canary" not in str(caught.value) + repr(caught.value)


def test_sqlalchemy_that_is_missing_is_named_with_the_extra(without: Any) -> None:
    without("sqlalchemy")
    with pytest.raises(ConfigError, match=r"pip install 'pyromq\[sqlalchemy\]'") as caught:
        engine_of(URL)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgre://shop:canary@db/shop", "is it spelt right"),
        ("postgresql://shop:canary@db:port/shop", "is no URL of a database"),
        ("://shop:canary@db", "is no URL of a database"),
    ],
)
def test_a_url_that_is_wrong_says_so_without_its_password(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        database_of(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "canary" not in str(error)
        error = error.__cause__


def test_a_path_is_no_url(tmp_path: Path) -> None:
    assert type(database_of(tmp_path / "a.db")).__name__ == "SqliteFile"
    assert type(database_of(str(tmp_path / "a.db"))).__name__ == "SqliteFile"
    assert type(database_of(f"sqlite:///{tmp_path}/a.db")).__name__ == "EngineDatabase"


@pytest.mark.parametrize("kind", ["postgresql", "postgres"])
def test_a_url_without_a_driver_takes_the_first_that_is_installed(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    tried: list[str] = []

    def engine_with(url: Any) -> str:
        tried.append(url.drivername)
        if url.drivername != "postgresql+pg8000":
            raise ModuleNotFoundError("No module named …", name=url.drivername.partition("+")[2])
        return "engine"

    monkeypatch.setattr("pyromq.databases.urls._engine_with", engine_with)
    assert engine_of(URL.replace("postgresql", kind)) == "engine"
    assert tried == ["postgresql+psycopg", "postgresql+psycopg2", "postgresql+pg8000"]
