"""The tables of settings in docs/how-to/configure-a-broker.md, as the code has them."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from pyromq.broker.base.config_keys import BROKER_CONF, FOLDER_KEY
from pyromq.cli.servers.settings import BROKER, NAMESERVER
from pyromq.cli.servers.settings_sources import Schema
from pyromq.nameserver.config_keys import NAMESRV_CONF

_SHOWN_MAX = 30


def broker_rows() -> dict[str, list[str]]:
    """By setting: in TOML, in the environment, in broker.conf, default."""
    return _rows(BROKER, {key.field: name for name, key in BROKER_CONF.keys.items()} | {"data": FOLDER_KEY})


def nameserver_rows() -> dict[str, list[str]]:
    return _rows(NAMESERVER, {key.field: name for name, key in NAMESRV_CONF.keys.items()})


def _rows(schema: Schema, keys: dict[str, str]) -> dict[str, list[str]]:
    return {
        name: [
            _in_toml(schema.table, name),
            f"`{schema.variable(name)}`",
            f"`{keys[name]}`" if name in keys else "–",
            _shown(setting.default),
        ]
        for name, setting in schema.settings.items()
    }


def _in_toml(table: str, name: str) -> str:
    folder, _, key = f"{table}.{name}".rpartition(".")
    return f"`[{folder}]` `{key}`"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        text = ";".join(map(str, value))
        return text if len(text) <= _SHOWN_MAX else f"{';'.join(map(str, value[:3]))};…"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value) if isinstance(value, str | int | Path) else ""
