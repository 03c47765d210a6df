"""Settings under RocketMQ's names: how their texts become values, and values texts.

A name server and a broker have one table of such keys each. The table serves configuration files, which may give every
key, and tools, which see all of them and may change some while the server runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyromq.errors import ConfigError

CONFIG_BYTES_MAX: Final = 64 * 1024
_DIGITS_MAX: Final = 9
_SIZE_DIGITS_MAX: Final = 15
_SHOWN_MAX: Final = 80


class SettingKey(NamedTuple):
    """Where the value of a key lives (``port``, ``store.flush``), and how it is written."""

    field: str
    parse: Callable[[str], Any]
    show: Callable[[Any], object] = str
    changeable: bool = False  # while the server runs

    def text_of(self, settings: object) -> str:
        """Its value in these settings, as RocketMQ writes it."""
        return str(self.show(attrgetter(self.field)(settings)))


class Refused(NamedTuple):
    """A key that may be given with these values only, for they mean what the server does anyway."""

    allowed: tuple[str, ...]
    reason: str


class KeyTable(NamedTuple):
    """All of RocketMQ's keys for one server: those that mean something here, cannot be had, or mean nothing."""

    keys: Mapping[str, SettingKey]
    refused: Mapping[str, Refused]
    ignored: frozenset[str]

    def refusal_of(self, name: str, value: str) -> str:
        """Why a key cannot have this value; empty if it can."""
        refused = self.refused.get(name)
        if refused is None or value.lower() in (each.lower() for each in refused.allowed):
            return ""
        allowed = " or ".join(each or "nothing" for each in refused.allowed)
        return f"{refused.reason}; only {allowed} will do"


def parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{shown(text)} is neither true nor false")
    return text.lower() == "true"


def parse_int(text: str) -> int:
    return _whole(text, _DIGITS_MAX)


def parse_size(text: str) -> int:
    """Parse a number of bytes."""
    return _whole(text, _SIZE_DIGITS_MAX)


def _whole(text: str, digits_max: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= digits_max):
        raise ConfigError(f"{shown(text)} is not a whole number of at most {digits_max} digits")
    return int(text)


def times(factor: int) -> Callable[[str], int]:
    """A number in units that are ``factor`` of ours."""
    return lambda text: parse_int(text) * factor


def divided(factor: int) -> Callable[[int], int]:
    return lambda value: value // factor


def parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def parse_path(text: str) -> Path | None:
    return Path(text) if text else None


def show_bool(value: bool) -> str:
    return str(value).lower()


def show_list(values: Iterable[object]) -> str:
    return ";".join(map(str, values))


def show_path(path: Path | None) -> str:
    return "" if path is None else str(path)


def parse_lines(text: bytes) -> list[tuple[str, str]]:
    """Lines ``key=value``, as tools send them. Raises ConfigError."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{len(text)} bytes of settings, at most {CONFIG_BYTES_MAX} are allowed")
    try:
        lines = [line.strip() for line in text.decode().splitlines()]
    except UnicodeError as error:
        raise ConfigError("the settings are not UTF-8") from error
    return [_pair(line) for line in lines if line and not line.startswith(("#", "!"))]


def _pair(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals:
        raise ConfigError(f"{shown(line)} is not of the form key=value")
    return key.strip(), value.strip()


def suggestion(name: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """What to write instead of an unknown name, as the end of a sentence; empty if nothing is like it.

    Where ``known`` is a mapping, its values are what to write.
    """
    instead = known if isinstance(known, Mapping) else {each: each for each in known}
    by_lower = {each.lower(): each for each in instead}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {instead[by_lower[close[0]]]}?" if close else ""


def shown(text: str) -> str:
    """Foreign text in an error: quoted, control characters escaped, cut when long."""
    return repr(text[:_SHOWN_MAX])
