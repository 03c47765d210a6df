"""The settings that ``pyromq up``, ``broker`` and ``nameserver`` start with, put together from all their sources."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.servers.settings_files import is_rocketmqs, read_broker_conf, read_namesrv_conf, read_toml
from pyromq.cli.servers.settings_sources import (
    Given,
    Layers,
    Schema,
    Setting,
    SettingsSource,
    from_assignments,
    from_environment,
    from_flags,
)
from pyromq.client.core.settings import DEFAULT_NAMESERVER, NAMESERVER_VARIABLES
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net.nameserver_list import parse_nameservers

logger = logging.getLogger(__name__)

BROKER: Final = Schema.of("broker", BrokerSettings, extra={"data": Setting(Path, Path("pyromq-data"))})
NAMESERVER: Final = Schema.of("nameserver", NameServerSettings)
_ALL: Final = (BROKER, NAMESERVER)

Flags = Mapping[str, Mapping[str, tuple[str, Any]]]
"""By table and setting: the name of the flag, and its value or None."""


class ServerSettings:
    """What one command needs, each server's settings with their sources."""

    def __init__(self, *layers: Layers) -> None:
        self._layers = {each.schema.table: each for each in layers}

    def broker(self) -> BrokerSettings:
        """Settings of the broker. Raises ConfigError."""
        settings: BrokerSettings = self._layers["broker"].build()
        return settings

    def nameserver(self) -> NameServerSettings:
        """Settings of the name server. Raises ConfigError."""
        settings: NameServerSettings = self._layers["nameserver"].build()
        return settings

    def data(self) -> Path:
        folder: Path = self._layers["broker"]["data"].value
        return folder

    def rows(self) -> Iterator[dict[str, object]]:
        for layers in self._layers.values():
            yield from layers.rows()


def for_up(files: Sequence[Path], flags: Flags, assignments: Sequence[str]) -> ServerSettings:
    """Settings of ``pyromq up`` from files, flags and assignments. Raises ConfigError, as do the two below."""
    names, broker = _gather((NAMESERVER, BROKER), files, flags, assignments)
    data = broker["data"]
    names.lay_under({"kv_path": data._replace(value=data.value / "namesrv" / "kvConfig.json")})
    shared = [name for name in names.schema.settings if name.startswith("access.") and name != "access.file"]
    names.lay_under({name: broker[name] for name in shared})  # who may do what is said once for both
    return ServerSettings(names, broker)


def for_nameserver(files: Sequence[Path], flags: Flags, assignments: Sequence[str]) -> ServerSettings:
    return ServerSettings(*_gather((NAMESERVER,), files, flags, assignments))


def for_broker(files: Sequence[Path], flags: Flags, assignments: Sequence[str]) -> ServerSettings:
    (broker,) = _gather((BROKER,), files, flags, assignments)
    broker.lay_under({"nameservers": _shared_nameservers(os.environ)})
    return ServerSettings(broker)


def _shared_nameservers(environment: Mapping[str, str]) -> Given:
    """Those that clients use too, for a broker that was given none."""
    for variable in NAMESERVER_VARIABLES:
        if found := parse_nameservers(environment.get(variable, "")):
            return Given(found, SettingsSource.ENVIRONMENT, variable)
    return Given((DEFAULT_NAMESERVER,), SettingsSource.DEFAULT)


def _gather(
    schemas: Sequence[Schema], files: Sequence[Path], flags: Flags, assignments: Sequence[str]
) -> tuple[Layers, ...]:
    contents = [_read(path, schemas) for path in files]
    assigned = from_assignments(schemas, assignments)
    gathered = []
    for schema in schemas:
        layers = Layers(schema)
        for content in contents:
            layers.lay(content.get(schema.table, {}))
        given, strange = from_environment(schema, os.environ)
        for text in strange:
            logger.warning("environment: %s", text)
        layers.lay(given)
        layers.lay(from_flags(flags.get(schema.table, {})))
        layers.lay(assigned[schema.table])
        gathered.append(layers)
    return tuple(gathered)


def _read(path: Path, schemas: Sequence[Schema]) -> dict[str, dict[str, Given]]:
    """A TOML file may serve several commands; a file of RocketMQ's is for one server, which its name may say."""
    if not is_rocketmqs(path):
        return read_toml(path, _ALL)
    if NAMESERVER in schemas and (len(schemas) == 1 or path.name.startswith("namesrv")):
        return {NAMESERVER.table: read_namesrv_conf(path)}
    return {BROKER.table: read_broker_conf(path)}
