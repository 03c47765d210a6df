"""Engines for URLs of databases, and which package to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pyromq.errors import ConfigError

_PACKAGES: Final = {  # module of a driver → what pip calls it
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
    "asyncpg": "asyncpg greenlet",
    "pg8000": "pg8000",
    "aiosqlite": "aiosqlite greenlet",
    "MySQLdb": "mysqlclient",
    "pymysql": "pymysql",
    "aiomysql": "aiomysql greenlet",
    "asyncmy": "asyncmy greenlet",
    "mysql": "mysql-connector-python",
    "oracledb": "oracledb",
    "cx_Oracle": "oracledb",
    "pyodbc": "pyodbc",
    "psycopg_async": "'psycopg[binary]' greenlet",
}
_INSTEAD: Final = {  # a URL without driver takes the first of these that is installed; the first is the advice
    "postgresql": ("psycopg", "psycopg2", "pg8000"),
    "mysql": ("pymysql", "mysqldb"),
    "mariadb": ("pymysql", "mysqldb"),
}


def engine_of(url: str) -> Any:
    """SQLAlchemy's ``Engine``, or its ``AsyncEngine`` when the URL names a driver for asyncio. Raises ConfigError."""
    try:
        import sqlalchemy
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ModuleNotFoundError as error:
        raise ConfigError(f"{_shown(url)} needs SQLAlchemy: pip install 'pyromq[sqlalchemy]'") from error
    try:
        parsed = sqlalchemy.make_url(url)
        if parsed.drivername == "postgres":  # as hosters write it
            parsed = parsed.set(drivername="postgresql")
        return _engine(parsed)
    except NoSuchModuleError as error:
        text = "SQLAlchemy does not know this kind of database; is it spelt right?"
        raise ConfigError(f"{_shown(url)}: {text}") from error
    except (ArgumentError, ValueError):
        text = "expected kind://user:password@host:port/database"
        raise ConfigError(f"{_shown(url)} is no URL of a database: {text}") from None  # its text holds the whole URL


def _engine(url: Any) -> Any:
    names = [f"{url.drivername}+{driver}" for driver in _INSTEAD.get(url.drivername, ())] or [url.drivername]
    missing: list[ModuleNotFoundError] = []
    for name in names:
        try:
            return _engine_with(url.set(drivername=name))
        except ModuleNotFoundError as error:
            missing.append(error)
    module = str(missing[0].name).partition(".")[0]
    driver = url.get_dialect().driver if module == "greenlet" else module  # which may be missing as well
    package = _PACKAGES.get(driver, driver)
    text = f"{url.render_as_string(hide_password=True)} needs {module}, which is not installed"
    raise ConfigError(f"{text}: pip install {package}") from missing[0]


def _engine_with(url: Any) -> Any:
    import sqlalchemy

    if not url.get_dialect().is_async:
        return sqlalchemy.create_engine(url)
    import_module("greenlet")  # SQLAlchemy would notice that it is missing at the first statement only
    from sqlalchemy.ext.asyncio import create_async_engine

    return create_async_engine(url)


def _shown(url: str) -> str:
    """Without what may be a password."""
    kind, _, rest = url.partition("://")
    return f"{kind}://…@{rest.rpartition('@')[2]}" if "@" in rest else url
