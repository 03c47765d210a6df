"""Options of the source, parsed and checked once on the driver; names are Kafka's where the meaning is the same.

``OPTIONS`` is the one list of them: parsing, the table in docs/how-to/spark.md and its test all follow it. Spark hands
options over as texts with names in lower case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from pyromq.client.namespaces import wrap
from pyromq.client.subscription import parse_tags
from pyromq.errors import InvalidNameError, MQError
from pyromq.model.names import validate_group, validate_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline.errors import OptionError
from pyromq.pipeline.offsets import OffsetFormatError, Offsets, from_tree

EARLIEST: Final = -2  # in JSON, as in Kafka's
LATEST: Final = -1


class Place(Enum):
    """Where in a queue, when it is not an offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message that was stored at that time or later."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Queue by queue; EARLIEST and LATEST may stand for an offset."""

    offsets: tuple[tuple[QueueId, int], ...]

    def as_dict(self) -> Offsets:
        return dict(self.offsets)


Where = Place | AtTime | AtOffsets


class Use(Enum):
    """Which reads an option is for."""

    BOTH = "both"
    STREAM = "stream"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query asks for. Frozen, so it travels to workers with every reader."""

    nameserver: str = ""
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    group: str = ""
    starting: Where = Place.EARLIEST
    ending: Where = Place.LATEST
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_partitions: int | None = None
    max_records: int | None = None
    fail_on_data_loss: bool = True
    tags: str = ""
    sql: str = ""
    include_retry: bool = False
    properties_as_map: bool = True
    pull_count: int = 1_024
    gather_bytes: int = 2 << 20
    batch_rows: int = 5_000
    long_poll_ms: int = 300
    retry_ms: int = 60_000
    request_ms: int = 5_000
    discovery_ms: int = 10_000
    namespace: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: bool | None = None
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_verify: bool = True
    tls_hostname: str = ""


# --- parsing of single values ----------------------------------------------------------------------------------------

_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_amount = re.compile(r"(\d+)\s*([a-z]*)").fullmatch


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def _count(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) > 0):
        raise ValueError(f"{text!r} is not a number above 0")
    return int(text)


def _switch(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def _measured(text: str, units: Mapping[str, int], example: str) -> int:
    found = _amount(text.strip().lower())
    if found is None or found[2] not in units or int(found[1]) == 0:
        raise ValueError(f"{text!r} is not an amount such as {example}")
    return int(found[1]) * units[found[2]]


def _bytes(text: str) -> int:
    return _measured(text, _BYTES, "1048576, 512k or 64m")


def _duration(text: str) -> int:
    return _measured(text, _MS, "500ms, 30s or 15m")


def _gather_bytes(text: str) -> int:
    if (size := _bytes(text)) > 1 << 30:
        raise ValueError(f"{text!r} is more than 1g")
    return size


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ValueError("it names no topic")
    try:
        return tuple(map(validate_topic, topics))
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def _group(text: str) -> str:
    try:
        return validate_group(text.strip())
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def _pattern(text: str) -> str:
    try:
        re.compile(_text(text))
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text.strip()


def _time(text: str) -> AtTime:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ValueError(f"{text!r} is not a time in milliseconds since 1970")
    return AtTime(int(text))


def _place(text: str) -> Where:
    text = text.strip()
    if text.lower() in (place.value for place in Place):
        return Place(text.lower())
    if not text.startswith("{"):
        raise ValueError(f'{text!r} is none of earliest, latest, group, {{"topic": {{"broker": {{"0": 123}}}}}}')
    try:
        offsets = from_tree(json.loads(text))
    except OffsetFormatError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if low := [offset for offset in offsets.values() if offset < EARLIEST]:
        raise ValueError(f"offset {low[0]} is below -2 (earliest) and -1 (latest)")
    return AtOffsets(tuple(offsets.items()))


def _tags(text: str) -> str:
    try:
        parse_tags(text)
    except MQError as error:
        raise ValueError(str(error)) from error
    return text.strip()


def _properties(text: str) -> bool:
    if text.strip().lower() not in ("map", "raw"):
        raise ValueError(f"{text!r} is neither map nor raw")
    return text.strip().lower() == "map"


# --- the list --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, the field it fills, how its text is read, where it applies, its default in words."""

    name: str
    field: str
    parse: Callable[[str], Any]
    use: Use
    default: str


OPTIONS: Final = (
    Option("nameserver", "nameserver", _text, Use.BOTH, "`PYROMQ_NAMESERVER`, `127.0.0.1:9876`"),
    Option("topic", "topics", _topics, Use.BOTH, "–"),
    Option("topicPattern", "topic_pattern", _pattern, Use.BOTH, "–"),
    Option("group", "group", _group, Use.BOTH, "–"),
    Option("startingOffsets", "starting", _place, Use.BOTH, "`latest`, `earliest` in batch"),
    Option("startingTimestamp", "starting", _time, Use.BOTH, "–"),
    Option("endingOffsets", "ending", _place, Use.BATCH, "`latest`"),
    Option("endingTimestamp", "ending", _time, Use.BATCH, "–"),
    Option("maxOffsetsPerTrigger", "max_offsets", _count, Use.STREAM, "–"),
    Option("minOffsetsPerTrigger", "min_offsets", _count, Use.STREAM, "–"),
    Option("maxTriggerDelay", "max_trigger_delay_ms", _duration, Use.STREAM, "`15m`"),
    Option("maxBytesPerTrigger", "max_bytes", _bytes, Use.STREAM, "–"),
    Option("minPartitions", "min_partitions", _count, Use.BOTH, "–"),
    Option("maxPartitions", "max_partitions", _count, Use.BOTH, "four per core, at least 8"),
    Option("maxRecordsPerPartition", "max_records", _count, Use.BOTH, "–"),
    Option("failOnDataLoss", "fail_on_data_loss", _switch, Use.BOTH, "`true`"),
    Option("tags", "tags", _tags, Use.BOTH, "–"),
    Option("sql", "sql", _text, Use.BOTH, "–"),
    Option("includeRetry", "include_retry", _switch, Use.BOTH, "`false`"),
    Option("properties", "properties_as_map", _properties, Use.BOTH, "`map`"),
    Option("pullBatchSize", "pull_count", _count, Use.BOTH, "`1024`"),
    Option("gatherBytes", "gather_bytes", _gather_bytes, Use.BOTH, "`2m`"),
    Option("batchRows", "batch_rows", _count, Use.BOTH, "`5000`"),
    Option("longPoll", "long_poll_ms", _duration, Use.STREAM, "`300ms`"),
    Option("retryTimeout", "retry_ms", _duration, Use.BOTH, "`60s`"),
    Option("requestTimeout", "request_ms", _duration, Use.BOTH, "`5s`"),
    Option("discoveryInterval", "discovery_ms", _duration, Use.STREAM, "`10s`"),
    Option("namespace", "namespace", _text, Use.BOTH, "–"),
    Option("accessKey", "access_key", _text, Use.BOTH, "–"),
    Option("secretKey", "secret_key", _text, Use.BOTH, "–"),
    Option("securityToken", "security_token", _text, Use.BOTH, "–"),
    Option("tls", "tls", _switch, Use.BOTH, "`PYROMQ_TLS`, `false`"),
    Option("tlsCa", "tls_ca", _text, Use.BOTH, "–"),
    Option("tlsCertificate", "tls_certificate", _text, Use.BOTH, "–"),
    Option("tlsKey", "tls_key", _text, Use.BOTH, "–"),
    Option("tlsVerify", "tls_verify", _switch, Use.BOTH, "`true`"),
    Option("tlsHostname", "tls_hostname", _text, Use.BOTH, "–"),
)
_BY_LOWER_NAME: Final = {option.name.lower(): option for option in OPTIONS}


def parse_options(given: Mapping[str, str], use: Use) -> SourceOptions:
    """Raises OptionError, whose text names the option."""
    chosen: dict[str, Option] = {}
    values: dict[str, Any] = {}
    for key, text in given.items():
        option = _BY_LOWER_NAME.get(key.lower())
        if option is None:
            raise OptionError(key, _unknown(key))
        if option.use not in (Use.BOTH, use):
            raise OptionError(option.name, f"it is for {option.use.value} reads only")
        if option.field in chosen:
            raise OptionError(option.name, f"it cannot stand beside {chosen[option.field].name}")
        try:
            values[option.field] = option.parse(str(text))
        except ValueError as error:
            raise OptionError(option.name, str(error)) from error
        chosen[option.field] = option
    if use is Use.STREAM:
        values.setdefault("starting", Place.LATEST)
    options = SourceOptions(**values)
    _check(options, use)
    return replace(
        options, starting=_in(options.namespace, options.starting), ending=_in(options.namespace, options.ending)
    )


def _in(namespace: str, where: Where) -> Where:
    """Offsets with the names that brokers have for topics."""
    if not isinstance(where, AtOffsets):
        return where
    named = ((QueueId(wrap(namespace, each.topic), each.broker, each.number), at) for each, at in where.offsets)
    return AtOffsets(tuple(named))


def _unknown(key: str) -> str:
    close = get_close_matches(key.lower(), _BY_LOWER_NAME, n=1)
    hint = f"did you mean {_BY_LOWER_NAME[close[0]].name}?" if close else "see docs/how-to/spark.md for those there are"
    return f"there is none of that name; {hint}"


def _check(options: SourceOptions, use: Use) -> None:
    """What no option can tell alone."""
    for option, holds, reason in (
        ("topic", options.topics or options.topic_pattern, "say what to read with topic or topicPattern"),
        ("topicPattern", not (options.topics and options.topic_pattern), "it cannot stand beside topic"),
        ("sql", not (options.tags and options.sql), "it cannot stand beside tags"),
        ("includeRetry", options.group or not options.include_retry, "it needs the option group"),
        ("startingOffsets", options.group or options.starting is not Place.GROUP, "group needs the option group"),
        ("startingOffsets", use is not Use.BATCH or not _is_latest(options.starting), "latest is for streams only"),
        ("endingOffsets", options.ending is not Place.EARLIEST, "earliest would read nothing"),
        ("endingOffsets", not _has(options.ending, EARLIEST), "-2 (earliest) would read nothing"),
        ("endingOffsets", options.group or options.ending is not Place.GROUP, "group needs the option group"),
        ("group", options.group or use is not Use.STREAM, "a stream keeps its start and progress there; name one"),
        ("secretKey", bool(options.access_key) == bool(options.secret_key), "accessKey and secretKey go together"),
        ("securityToken", options.access_key or not options.security_token, "it needs accessKey and secretKey"),
        ("tlsKey", options.tls_certificate or not options.tls_key, "it needs tlsCertificate"),
    ):
        if not holds:
            raise OptionError(option, reason)
    _check_order("minPartitions", options.min_partitions, "maxPartitions", options.max_partitions)
    _check_order("minOffsetsPerTrigger", options.min_offsets, "maxOffsetsPerTrigger", options.max_offsets)


def _check_order(low_name: str, low: int | None, high_name: str, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        raise OptionError(low_name, f"{low} is more than {high_name}, {high}")


def _is_latest(where: Where) -> bool:
    return where is Place.LATEST or _has(where, LATEST)


def _has(where: Where, mark: int) -> bool:
    return isinstance(where, AtOffsets) and any(offset == mark for _, offset in where.offsets)
