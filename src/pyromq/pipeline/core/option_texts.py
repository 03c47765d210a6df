"""Parsers of option texts: each function reads one kind, and its ValueError says what is wrong with the text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyromq.client.consumer.rules.subscription import parse_tags
from pyromq.client.core.settings import ClientSettings
from pyromq.errors import ConfigError, InvalidNameError, MQError
from pyromq.model.names import validate_group, validate_topic
from pyromq.pipeline.core.offsets import OffsetFormatError, Offsets, from_tree
from pyromq.pipeline.core.places import EARLIEST, AtOffsets, AtTime, AtTimes, NoMatch, RelativeOffset, Where
from pyromq.typed.schemas.payloads import PayloadFormat


@dataclass(frozen=True, slots=True)
class StoreFolderOption:
    """``broker`` fills the column of that name."""

    broker: str
    path: str


class PayloadMode(Enum):
    """What becomes of a row whose body cannot be decoded; the names are Spark's."""

    PERMISSIVE = "permissive"
    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


class LaneChoice(Enum):
    """Which program reads the messages of a query."""

    AUTO = "auto"
    PYTHON = "python"
    JVM = "jvm"


_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_amount = re.compile(r"([0-9]+)\s*([a-z]*)").fullmatch
_WHOLE_MAX: Final = (1 << 63) - 1
_DURATION_MS_MAX: Final = 366 * 86_400_000


def option_text(value: object) -> str:
    """The text of an option whose value is a number, a truth or a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def text_of(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{text!r} is empty; give it a value, or leave the option out")
    return text.strip()


def nameservers(text: str) -> str:
    try:
        ClientSettings(nameservers=text_of(text))
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text.strip()


def count(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit() and 0 < int(text) <= _WHOLE_MAX):
        raise ValueError(f"{text!r} is not a number above 0 and below 2^63")
    return int(text)


def switch(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def _measured(text: str, units: Mapping[str, int], example: str) -> int:
    found = _amount(text.strip().lower())
    if found is None or found[2] not in units or int(found[1]) == 0:
        raise ValueError(f"{text!r} is not an amount such as {example}")
    return int(found[1]) * units[found[2]]


def size(text: str) -> int:
    return _measured(text, _BYTES, "1048576, 512k or 64m")


def duration(text: str) -> int:
    if (found := _measured(text, _MS, "500ms, 30s or 15m")) > _DURATION_MS_MAX:
        raise ValueError(f"{text!r} is more than 366d")
    return found


def gather_size(text: str) -> int:
    if (found := size(text)) > 1 << 30:
        raise ValueError(f"{text!r} is more than 1g")
    return found


def topics(text: str) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not named:
        raise ValueError(f"{text!r} names no topic; name one, or several separated by commas")
    try:
        return tuple(map(validate_topic, named))
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def group(text: str) -> str:
    try:
        return validate_group(text.strip())
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def pattern(text: str) -> str:
    try:
        re.compile(text_of(text))
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text.strip()


def time(text: str) -> AtTime:
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) <= _WHOLE_MAX):
        raise ValueError(f"{text!r} is not a time in milliseconds since 1970")
    return AtTime(int(text))


def place(text: str) -> Where:
    text = text.strip()
    if text.lower() in (each.value for each in RelativeOffset):
        return RelativeOffset(text.lower())
    if not text.startswith("{"):
        raise ValueError(
            f'{text!r} is not earliest, latest, group, or offsets such as {{"topic": {{"broker": {{"0": 123}}}}}}'
        )
    offsets = _by_queue(text)
    if low := [offset for offset in offsets.values() if offset < EARLIEST]:
        raise ValueError(f"offset {low[0]} is below -2 (earliest)")
    return AtOffsets(tuple(offsets.items()))


def times(text: str) -> AtTimes:
    text = text.strip()
    if not text.startswith("{"):
        raise ValueError(f'{text!r} is not times such as {{"topic": {{"broker": {{"0": 1700000000000}}}}}}')
    found = _by_queue(text)
    if low := [time_ms for time_ms in found.values() if time_ms < 0]:
        raise ValueError(f"{low[0]} is not a time in milliseconds since 1970")
    return AtTimes(tuple(found.items()))


def no_match(text: str) -> NoMatch:
    if text.strip().lower() not in (each.value for each in NoMatch):
        raise ValueError(f"{text!r} is neither error nor latest")
    return NoMatch(text.strip().lower())


def _by_queue(text: str) -> Offsets:
    try:
        return from_tree(json.loads(text))
    except OffsetFormatError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"its JSON is nested too deeply: {text[:40]!r}…") from error


def tags(text: str) -> str:
    try:
        parse_tags(text)
    except MQError as error:
        raise ValueError(str(error)) from error
    return text.strip()


def properties(text: str) -> bool:
    if text.strip().lower() not in ("map", "raw"):
        raise ValueError(f"{text!r} is neither map nor raw")
    return text.strip().lower() == "map"


def payload(text: str) -> PayloadFormat:
    try:
        return PayloadFormat(text.strip().lower())
    except ValueError as error:
        raise ValueError(f"{text!r} is not one of {', '.join(each.value for each in PayloadFormat)}") from error


OF_TOPIC: Final = "topic"
"""The schema that a cluster keeps with a topic."""


def is_looked_up(schema: str) -> bool:
    """Whether a schema is none itself, but says where it is."""
    return schema == OF_TOPIC or schema.startswith("registry:")


def bad_rows_topic(text: str) -> str:
    try:
        return validate_topic(text.strip())
    except InvalidNameError as error:
        raise ValueError(f"{text!r} is no topic: {error}") from error


def payload_mode(text: str) -> PayloadMode:
    try:
        return PayloadMode(text.strip().lower())
    except ValueError as error:
        raise ValueError(f"{text!r} is not one of {', '.join(each.value for each in PayloadMode)}") from error


def lane(text: str) -> LaneChoice:
    try:
        return LaneChoice(text.strip().lower())
    except ValueError as error:
        raise ValueError(f"{text!r} is not one of {', '.join(each.value for each in LaneChoice)}") from error


def store_folders(text: str) -> tuple[StoreFolderOption, ...]:
    """``/data/store``, or several: ``broker-a=/data/a, broker-b=/data/b``."""
    found = tuple(_store_folder(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ValueError(f"{text!r} names no store folder (the one that contains commitlog)")
    return found


def _store_folder(text: str) -> StoreFolderOption:
    broker, _, path = ("", "", text) if text.startswith(("/", "file:")) else text.rpartition("=")
    path = path.removeprefix("file://")
    if not path.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path, and driver and tasks have different working folders")
    return StoreFolderOption(broker.strip(), path)
