"""Settings in RocketMQ's words: which there are, and which of them may change while the broker runs.

Changes live as long as the process: the configuration file and the command line stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from pyromq.broker.refusals import RefusedError
from pyromq.broker.settings import BrokerSettings
from pyromq.errors import ConfigError
from pyromq.store.consume_queue import ENTRY_BYTES
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import ResponseCode

CONFIG_BYTES_MAX: Final = 64 * 1024
_HOUR_MS: Final = 3_600_000
_DIGITS_MAX: Final = 9


class _Key(NamedTuple):
    """A setting that may change: of the broker, or of its store."""

    attribute: str
    parse: Callable[[str], Any]
    show: Callable[[Any], object] = str
    of_store: bool = False


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{text[:80]!r} is neither true nor false")
    return text.lower() == "true"


def _int(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ConfigError(f"{text[:80]!r} is not a whole number of at most {_DIGITS_MAX} digits")
    return int(text)


def _hours(text: str) -> tuple[int, ...]:
    hours = tuple(_int(hour) for hour in text.split(";"))
    if not all(0 <= hour < 24 for hour in hours):
        raise ConfigError(f"{text[:80]!r} is not a list of hours such as 04;16")
    return hours


def _show_bool(value: bool) -> str:
    return str(value).lower()


def _show_hours(hours: tuple[int, ...]) -> str:
    return ";".join(f"{hour:02d}" for hour in hours)


_CHANGEABLE: Final = {
    "autoCreateSubscriptionGroup": _Key("auto_create_groups", _bool, _show_bool),
    "autoCreateTopicEnable": _Key("auto_create_topics", _bool, _show_bool),
    "brokerPermission": _Key("permission", _int),
    "deleteWhen": _Key("delete_hours", _hours, _show_hours, of_store=True),
    "diskMaxUsedSpaceRatio": _Key("clean_percent", _int, of_store=True),
    "fileReservedTime": _Key("keep_ms", lambda text: _int(text) * _HOUR_MS, lambda ms: ms // _HOUR_MS, of_store=True),
    "flushCommitLogThoroughInterval": _Key("flush_thorough_ms", _int, of_store=True),
    "flushConsumerOffsetInterval": _Key("offsets_save_ms", _int),
    "flushIntervalCommitLog": _Key("flush_interval_ms", _int, of_store=True),
    "longPollingEnable": _Key("long_polling", _bool, _show_bool),
    "registerNameServerPeriod": _Key("register_interval_ms", _int),
    "shortPollingTimeMills": _Key("short_polling_ms", _int),
    "storeReplyMessageEnable": _Key("store_replies", _bool, _show_bool),
    "useServerSideResetOffset": _Key("server_side_reset", _bool, _show_bool),
}


def describe(settings: BrokerSettings, host: str, port: int) -> dict[str, str]:
    """All settings that have a name in RocketMQ, in the order of their names; nothing secret, no paths."""
    store = settings.store
    values: dict[str, object] = {
        "brokerClusterName": settings.cluster,
        "brokerId": settings.broker_id,
        "brokerIP1": host,
        "brokerName": settings.name,
        "brokerRole": "SLAVE" if settings.broker_id else "ASYNC_MASTER",
        "channelExpiredTimeout": settings.client_expiry_ms,
        "defaultTopicQueueNums": settings.default_topic_queues,
        "flushDiskType": f"{store.flush.name}_FLUSH",
        "listenPort": port,
        "mappedFileSizeCommitLog": store.segment_bytes,
        "mappedFileSizeConsumeQueue": store.queue_file_entries * ENTRY_BYTES,
        "maxHashSlotNum": store.index_slots,
        "maxIndexNum": store.index_entries,
        "maxMessageSize": store.body_bytes_max,
        "maxMsgsNumBatch": 64,
        "maxTransferBytesOnMessageInDisk": store.cold_read_bytes_max,
        "maxTransferBytesOnMessageInMemory": store.read_bytes_max,
        "maxTransferCountOnMessageInDisk": store.cold_read_count_max,
        "maxTransferCountOnMessageInMemory": store.read_count_max,
        "namesrvAddr": ";".join(settings.nameservers),
        "regionId": settings.region,
        "sendThreadPoolQueueCapacity": settings.unflushed_sends_max,
        "syncFlushTimeout": settings.sync_flush_timeout_ms,
        "traceTopicEnable": _show_bool(settings.trace_topic),
    }
    for name, key in _CHANGEABLE.items():
        values[name] = key.show(getattr(store if key.of_store else settings, key.attribute))
    return {name: str(value) for name, value in sorted(values.items())}


def parse_changes(text: bytes) -> dict[str, str]:
    """Lines ``key=value``; raises ConfigError for anything else, RefusedError for keys that must not change."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{len(text)} bytes of settings, at most {CONFIG_BYTES_MAX} are allowed")
    try:
        lines = [line.strip() for line in text.decode().splitlines()]
    except UnicodeError as error:
        raise ConfigError("the settings are not UTF-8") from error
    changes = {}
    for line in lines:
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ConfigError(f"{line[:80]!r} is not of the form key=value")
        changes[name.strip()] = value.strip()
    for name in changes:
        if name not in _CHANGEABLE:
            may = ", ".join(_CHANGEABLE)
            text_ = f"{name[:80]} is unknown or cannot change while the broker runs; what can: {may}"
            raise RefusedError(ResponseCode.NO_PERMISSION, text_)
    return changes


def changed(settings: BrokerSettings, changes: dict[str, str]) -> BrokerSettings:
    """The settings with changes applied, all of them checked; raises ConfigError, and then nothing has changed."""
    of_broker: dict[str, Any] = {}
    of_store: dict[str, Any] = {}
    for name, value in changes.items():
        key = _CHANGEABLE[name]
        try:
            (of_store if key.of_store else of_broker)[key.attribute] = key.parse(value)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
    store: StoreSettings = replace(settings.store, **of_store)
    return replace(settings, store=store, **of_broker)


def adopt(settings: BrokerSettings, new: BrokerSettings) -> None:
    """Give the settings that everybody in the broker looks at the new values."""
    for each in fields(BrokerSettings):
        setattr(settings, each.name, getattr(new, each.name))
