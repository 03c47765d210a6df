"""Where the settings of a server come from: defaults, files, the environment, flags; what comes later wins.

Every setting has one name, made of the fields of the settings object, and the sources derive theirs from it:

    store.flush of a broker        [broker.store] flush = "async"      a TOML file
                                   PYROMQ_BROKER_STORE_FLUSH=async     the environment, lists separated by semicolons
                                   --set broker.store.flush=async      a flag; the usual ones have flags of their own
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from pyromq.errors import ConfigError, MQError
from pyromq.security.secret import Secret
from pyromq.setting_keys import shown, suggestion


class SettingsSource(StrEnum):
    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Given(NamedTuple):
    """A value, and where it comes from: the file with its line, the variable, the flag."""

    value: Any
    source: SettingsSource
    where: str = ""


class Setting(NamedTuple):
    kind: Any  # its type
    default: Any


@dataclass(frozen=True, slots=True)
class Schema:
    """All settings of one server; ``table`` is what its names begin with."""

    table: str
    settings: Mapping[str, Setting]
    build: type[Any]

    @classmethod
    def of(cls, table: str, settings_type: type[Any], *, extra: Mapping[str, Setting] | None = None) -> Schema:
        """``extra`` are settings of the command that are not part of the settings object."""
        own = {name: Setting(kind, default) for name, kind, default in _flat(settings_type)}
        return cls(table, {**(extra or {}), **own}, settings_type)

    def variable(self, name: str) -> str:
        return f"PYROMQ_{self.table}_{name}".replace(".", "_").upper()

    def read(self, name: str, value: object, *, is_text: bool) -> Any:
        """A value of the right type for a setting. Raises ConfigError."""
        kind = self.settings[name].kind
        if is_text and get_origin(kind) is tuple:
            value = [part.strip() for part in str(value).split(";") if part.strip()]
        try:
            read = msgspec.convert(value, kind, strict=not is_text, dec_hook=_to_path)
        except msgspec.ValidationError as error:
            got = "something else" if kind is Secret else _shown_value(value)
            raise ConfigError(f"expected {_expected(kind)}, got {got}") from error
        if kind is int and read < 0:
            raise ConfigError(f"expected a number that is not negative, got {read}")
        return read

    def unknown(self, name: str) -> str:
        """The text of an error about an unknown name."""
        last = {each.rpartition(".")[2]: each for each in self.settings}
        instead = suggestion(name, list(self.settings)) or suggestion(name.rpartition(".")[2], last)
        return f"{self.table}.{name} is not a setting{instead}"


class Layers:
    """The settings of one server as they add up."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._given = {name: Given(each.default, SettingsSource.DEFAULT) for name, each in schema.settings.items()}

    def __getitem__(self, name: str) -> Given:
        return self._given[name]

    def lay(self, values: Mapping[str, Given]) -> None:
        """Put values over those that are there."""
        self._given.update(values)

    def lay_under(self, values: Mapping[str, Given]) -> None:
        """Put values where no source has given one."""
        self.lay({name: value for name, value in values.items() if self[name].source is SettingsSource.DEFAULT})

    def build(self) -> Any:
        """The settings object. Raises ConfigError, which says who gave the values that do not fit."""
        own = {name for name, _, _ in _flat(self.schema.build)}
        try:
            return _build(self.schema.build, {name: each.value for name, each in self._given.items() if name in own})
        except MQError as error:
            raise ConfigError(f"{error}{self._blame(str(error))}") from error

    def rows(self) -> Iterator[dict[str, object]]:
        for name, given in self._given.items():
            value = _plain(given.value)
            yield {
                "setting": f"{self.schema.table}.{name}",
                "value": value,
                "source": given.source.value,
                "from": given.where,
            }

    def _blame(self, text: str) -> str:
        """Where the values come from that an error is about: settings that it names, or else whose value it shows."""
        given = {name: each for name, each in self._given.items() if each.source is not SettingsSource.DEFAULT}
        words = set(text.replace(",", " ").split())
        guilty = [name for name in given if name.rpartition(".")[2] in words]
        guilty = guilty or [name for name, each in given.items() if each.value and repr(_plain(each.value)) in text]
        return "".join(f" ({self.schema.table}.{name}: {given[name].where})" for name in guilty)


def from_environment(schema: Schema, environment: Mapping[str, str]) -> tuple[dict[str, Given], list[str]]:
    """Settings that variables give, and a warning for each variable that only looks like one. Raises ConfigError."""
    names = {schema.variable(name): name for name in schema.settings}
    given = {}
    for variable, name in names.items():
        if variable in environment:
            value = _read_variable(schema, name, variable, environment[variable])
            given[name] = Given(value, SettingsSource.ENVIRONMENT, variable)
    beginning = schema.variable("")
    strange = [each for each in environment if each.startswith(beginning) and each not in names]
    return given, [f"{each} is not a setting{suggestion(each, list(names))}" for each in sorted(strange)]


def _read_variable(schema: Schema, name: str, variable: str, text: str) -> Any:
    try:
        return schema.read(name, text, is_text=True)
    except ConfigError as error:
        hint = ""
        if text.startswith("tcp://"):
            hint = "; Kubernetes sets it for a service of that name, unless enableServiceLinks is false"
        raise ConfigError(f"{variable}: {error}{hint}") from error


def from_flags(flags: Mapping[str, tuple[str, Any]]) -> dict[str, Given]:
    """Flags by setting, each with its own name; those not given are None."""
    return {name: Given(value, SettingsSource.FLAG, flag) for name, (flag, value) in flags.items() if value is not None}


def from_assignments(schemas: Sequence[Schema], assignments: Sequence[str]) -> dict[str, dict[str, Given]]:
    """``--set broker.store.flush=async``, by table. Raises ConfigError."""
    found: dict[str, dict[str, Given]] = {schema.table: {} for schema in schemas}
    tables = {schema.table: schema for schema in schemas}
    for text in assignments:
        name, equals, value = text.partition("=")
        table, _, rest = name.strip().partition(".")
        if not equals or table not in tables:
            examples = " or ".join(f"{each}.port=0" for each in tables)
            raise ConfigError(f"--set {shown(text)}: expected NAME=VALUE, such as {examples}")
        if rest not in tables[table].settings:
            raise ConfigError(f"--set: {tables[table].unknown(rest)}")
        try:
            parsed = tables[table].read(rest, value.strip(), is_text=True)
        except ConfigError as error:
            raise ConfigError(f"--set {name.strip()}: {error}") from error
        found[table][rest] = Given(parsed, SettingsSource.FLAG, "--set")
    return found


# --- settings objects ---------------------------------------------------------------------------------------------


def _flat(settings_type: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of all fields, those of settings within settings too."""
    hints, defaults = get_type_hints(settings_type), settings_type()
    for each in fields(settings_type):
        kind = hints[each.name]
        if is_dataclass(kind) and isinstance(kind, type):
            yield from ((f"{each.name}.{name}", inner, default) for name, inner, default in _flat(kind))
        else:
            yield each.name, kind, attrgetter(each.name)(defaults)


def _build(settings_type: type[Any], values: Mapping[str, Any]) -> Any:
    hints = get_type_hints(settings_type)
    own = {name: value for name, value in values.items() if "." not in name}
    for folder in {name.partition(".")[0] for name in values if "." in name}:
        inner = {
            name.removeprefix(f"{folder}."): value for name, value in values.items() if name.startswith(f"{folder}.")
        }
        own[folder] = _build(hints[folder], inner)
    return settings_type(**own)


def _to_path(kind: type[Any], value: object) -> Any:
    if kind in (Path, Secret) and isinstance(value, str):
        return kind(value)
    raise TypeError  # a ValidationError for the caller


def _expected(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return _expected(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return f"a list, each {_expected(get_args(kind)[0])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(each.value) for each in kind)
    return {bool: "true or false", int: "a whole number", Path: "a path"}.get(kind, "text")


def _shown_value(value: object) -> str:
    return shown(value) if isinstance(value, str) else shown(str(value)).strip("'")


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path | Secret) else value
