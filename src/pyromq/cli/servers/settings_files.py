"""Configuration files of servers: TOML with tables [broker], [broker.store], [nameserver], or RocketMQ's own files.

A file that ends in .conf or .properties is RocketMQ's: ``broker.conf``, or for a name server ``namesrv.conf``.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyromq.cli.servers.properties import Property, parse_properties
from pyromq.cli.servers.settings_sources import Given, Schema, SettingsSource
from pyromq.errors import ConfigError
from pyromq.net.own_ip import is_ip
from pyromq.setting_keys import KeyTable, suggestion

logger = logging.getLogger(__name__)

_FILE_BYTES_MAX: Final = 1 << 20
_ROCKETMQ_SUFFIXES: Final = (".conf", ".properties")
_NAMED_MAX: Final = 8  # ignored keys that a warning names; the log at level info has all


def is_rocketmqs(path: Path) -> bool:
    return path.suffix in _ROCKETMQ_SUFFIXES


def read_text(path: Path) -> str:
    """Read a settings file. Raises ConfigError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror or error}") from error
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f"configuration file {path} has {len(content)} bytes, at most {_FILE_BYTES_MAX} are allowed")
    try:
        return content.decode()
    except UnicodeError as error:
        raise ConfigError(f"configuration file {path} is not UTF-8: {error}") from error


# --- TOML ---------------------------------------------------------------------------------------------------------


def read_toml(path: Path, schemas: Sequence[Schema]) -> dict[str, dict[str, Given]]:
    """The settings by table. Raises ConfigError that names file, line where it is known, and key."""
    text = read_text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: its values are nested too deeply") from error
    known = {schema.table: schema for schema in schemas}
    found: dict[str, dict[str, Given]] = {name: {} for name in known}
    for name, table in tables.items():
        if name not in known or not isinstance(table, dict):
            expected = " and ".join(f"[{each}]" for each in known)
            raise ConfigError(f"{path}: {name!r} is not a table of settings; there are {expected}")
        _read_table(_TomlFile(path, text), known[name], table, "", found[name])
    return found


class _TomlFile(NamedTuple):
    path: Path
    text: str

    def place(self, table: str, key: str) -> str:
        """File and line of a key, as far as it stands on a line of its own below its table."""
        current = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if heading := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
                current = heading[1]
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return f"{self.path}, line {number}"
        return str(self.path)


def _read_table(
    file: _TomlFile, schema: Schema, table: Mapping[str, Any], prefix: str, found: dict[str, Given]
) -> None:
    heading = f"{schema.table}.{prefix}".rstrip(".")
    for key, value in table.items():
        name, place = f"{prefix}{key}", file.place(heading, key)
        if isinstance(value, dict) and any(each.startswith(f"{name}.") for each in schema.settings):
            _read_table(file, schema, value, f"{name}.", found)
        elif name in schema.settings:
            try:
                found[name] = Given(schema.read(name, value, is_text=False), SettingsSource.FILE, place)
            except ConfigError as error:
                raise ConfigError(f"{place}: {schema.table}.{name}: {error}") from error
        else:
            raise ConfigError(f"{place}: {schema.unknown(name)}")


# --- RocketMQ's files ---------------------------------------------------------------------------------------------


def read_properties(path: Path, table: KeyTable, *, also: frozenset[str] = frozenset()) -> dict[str, Property]:
    """The properties of a file by key; ``also`` are keys that are known besides. Raises ConfigError.

    Keys that have no effect here are reported and left out; keys without a value are left out.
    """
    known = {*table.keys, *table.refused, *table.ignored, *also}
    found, ignored = {}, []
    for each in parse_properties(read_text(path), str(path)):
        if each.key not in known:
            raise ConfigError(f"{each.where}: {each.key} is not a setting{suggestion(each.key, known)}")
        if refusal := table.refusal_of(each.key, each.value):
            raise ConfigError(f"{each.where}: {each.key}={each.value[:80]} is not supported: {refusal}")
        if each.key in table.keys or each.key in also:
            found[each.key] = each
        elif each.key in table.ignored:
            ignored.append(each.key)
    if ignored:
        more = f" and {len(ignored) - _NAMED_MAX} more" if len(ignored) > _NAMED_MAX else ""
        named = ", ".join(ignored[:_NAMED_MAX])
        logger.warning("settings ignored, they have no effect here: file=%s keys=%s%s", path, named, more)
        logger.info("settings ignored: file=%s keys=%s", path, ",".join(ignored))
    return {key: each for key, each in found.items() if each.value}


def given_by(properties: Mapping[str, Property], table: KeyTable) -> dict[str, Given]:
    """Settings from the keys that have one. Raises ConfigError."""
    given = {}
    for name, each in properties.items():
        if (key := table.keys.get(name)) is not None:
            try:
                given[key.field] = Given(key.parse(each.value), SettingsSource.FILE, f"{each.where}: {name}")
            except ConfigError as error:
                raise ConfigError(f"{each.where}: {name}: {error}") from error
    return given


def read_namesrv_conf(path: Path) -> dict[str, Given]:
    """Read RocketMQ's ``namesrv.conf``. Raises ConfigError."""
    from pyromq.nameserver.config_keys import NAMESRV_CONF

    return given_by(read_properties(path, NAMESRV_CONF), NAMESRV_CONF)


def read_broker_conf(path: Path) -> dict[str, Given]:
    """The settings of a ``broker.conf``, the folder of the store as ``data``. Raises ConfigError."""
    from pyromq.broker.base.config_keys import BROKER_CONF, FOLDER_KEY, PARTS_OF_FOLDER

    properties = read_properties(path, BROKER_CONF, also=frozenset((FOLDER_KEY, *PARTS_OF_FOLDER)))
    given = given_by(properties, BROKER_CONF)
    folder = properties.get(FOLDER_KEY)
    if folder is not None:
        given["data"] = Given(Path(folder.value), SettingsSource.FILE, f"{folder.where}: {FOLDER_KEY}")
    for key, part in PARTS_OF_FOLDER.items():
        if each := properties.get(key):
            _require_place(each, Path(folder.value) if folder else None, part)
    return given | _listening(given, path) | _cleaning(given)


def _require_place(each: Property, folder: Path | None, part: str) -> None:
    if folder is None or Path(each.value) != folder / part:
        raise ConfigError(f"{each.where}: {each.key}: it is always {part} in storePathRootDir here; remove the line")


def _listening(given: Mapping[str, Given], path: Path) -> dict[str, Given]:
    """RocketMQ listens on all addresses; here only if bindAddress or an advertised address says so."""
    if "host" in given:
        return {}
    advertised = given.get("advertised_host")
    if advertised is None:
        text = "listening on loopback only, bindAddress=0.0.0.0 would let other machines connect: file=%s"
        logger.warning(text, path)
        return {}
    host = advertised.value
    if host == "localhost" or (is_ip(host) and ip_address(host).is_loopback):
        return {}
    everywhere = "::" if is_ip(host) and ip_address(host).version == 6 else "0.0.0.0"
    return {"host": Given(everywhere, SettingsSource.FILE, advertised.where)}


def _cleaning(given: Mapping[str, Given]) -> dict[str, Given]:
    """Above ``force_clean_percent`` files are deleted anyway, so a larger diskMaxUsedSpaceRatio becomes that."""
    from pyromq.store.settings import StoreSettings

    clean, force = given.get("store.clean_percent"), given.get("store.force_clean_percent")
    percent = force.value if force else StoreSettings().force_clean_percent
    if clean is None or clean.value <= percent:
        return {}
    logger.info("files are deleted above %d %% anyway: diskMaxUsedSpaceRatio=%d", percent, clean.value)
    return {"store.clean_percent": clean._replace(value=percent)}
