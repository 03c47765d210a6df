"""Settings of a name server: typed and frozen; a change over the network replaces the whole object.

Admin tools know them under RocketMQ's keys, as lines ``key=value`` (318 UPDATE_NAMESRV_CONFIG, 319 GET_…). A change
lasts until the process ends, and is all or nothing. What decides where the server listens or writes is protected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.errors import ConfigError
from pyromq.nameserver.errors import ProtectedSettingError, shown

CONFIG_BYTES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much brokers and tools may put into a name server; beyond that they are refused."""

    brokers_max: int = 4096  # addresses: masters and replicas
    topics_per_broker_max: int = 100_000
    name_characters_max: int = 255  # of clusters, brokers, topics, zones, addresses
    filter_servers_max: int = 64  # per broker
    registration_bytes_max: int = 16 * 1024 * 1024
    inflated_bytes_max: int = 32 * 1024 * 1024  # of a compressed registration
    small_body_bytes_max: int = 1024 * 1024  # of every other request
    kv_bytes_max: int = 4 * 1024 * 1024  # of all namespaces together
    routes_cached_max: int = 100_000
    silence_ms_max: int = 3_600_000  # the longest silence that a broker may ask to be forgiven


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerSettings:
    """Raises ConfigError for values that cannot work."""

    host: str = "127.0.0.1"
    port: int = 9876  # 0: any free one
    kv_path: Path | None = None  # None: key-value configuration is forgotten at the end
    scan_interval_ms: int = 5_000
    broker_silence_ms_max: int = 120_000  # unless the broker asks for something else
    return_order_topic_config: bool = True  # ordered topics, in the answer to a registration
    order_message_enable: bool = False  # and in routes
    support_acting_master: bool = False  # routes show the first replica of a broker without master as its master
    all_topic_list_enable: bool = True
    topic_list_enable: bool = True
    wait_for_service: bool = False  # no routes at first, so that nobody sees half of the brokers
    wait_seconds_for_service: int = 45
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        _require(0 <= self.port <= 65_535, f"port {self.port} is outside [0, 65535]")
        _require(100 <= self.scan_interval_ms <= 600_000, "the scan interval must lie between 100 ms and 10 minutes")
        silence_ms_max = self.limits.silence_ms_max
        _require(
            1 <= self.broker_silence_ms_max <= silence_ms_max,
            f"the silence of a broker must lie between 1 and {silence_ms_max} ms",
        )
        _require(0 <= self.wait_seconds_for_service <= 3600, "waiting for service is limited to an hour")


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ConfigError(reason)


# --- over the network ----------------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """How one of RocketMQ's keys maps to a setting; ``parse`` is None when it is protected."""

    attribute: str
    parse: Callable[[str], int | bool] | None = None


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{shown(text)} is neither true nor false")
    return text.lower() == "true"


def _parse_int(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ConfigError(f"{shown(text)} is not a whole number of at most nine digits")
    return int(text)


_KEYS: Final[dict[str, _Key]] = {
    "bindAddress": _Key("host"),
    "enableAllTopicList": _Key("all_topic_list_enable", _parse_bool),
    "enableTopicList": _Key("topic_list_enable", _parse_bool),
    "kvConfigPath": _Key("kv_path"),
    "listenPort": _Key("port"),
    "needWaitForService": _Key("wait_for_service", _parse_bool),
    "orderMessageEnable": _Key("order_message_enable", _parse_bool),
    "returnOrderTopicConfigToBroker": _Key("return_order_topic_config", _parse_bool),
    "scanNotActiveBrokerInterval": _Key("scan_interval_ms", _parse_int),
    "supportActingMaster": _Key("support_acting_master", _parse_bool),
    "waitSecondsForService": _Key("wait_seconds_for_service", _parse_int),
}
_PROTECTED: Final = frozenset(
    {"configBlackList", "configStorePath", *(key for key, (_, parse) in _KEYS.items() if parse is None)}
)


def describe_settings(settings: NameServerSettings) -> bytes:
    """Lines ``key=value`` in the order of their keys."""
    values = {key: getattr(settings, attribute) for key, (attribute, _) in _KEYS.items()}
    values["configBlackList"] = ";".join(sorted(_PROTECTED))
    return "".join(f"{key}={_text(value)}\n" for key, value in sorted(values.items())).encode()


def update_settings(settings: NameServerSettings, text: bytes) -> NameServerSettings:
    """The settings with lines ``key=value`` applied; raises ProtectedSettingError and other ConfigErrors."""
    if len(text) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{len(text)} bytes of settings, at most {CONFIG_BYTES_MAX} are allowed")
    try:
        lines = [line.strip() for line in text.decode().splitlines()]
    except UnicodeError as error:
        raise ConfigError("the settings are not UTF-8") from error
    pairs = [_pair(line) for line in lines if line and not line.startswith(("#", "!"))]
    for key, _ in pairs:
        if key in _PROTECTED:
            raise ProtectedSettingError(key)
    return replace(settings, **dict(_parsed(key, value) for key, value in pairs))  # type: ignore[arg-type]


def _pair(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals:
        raise ConfigError(f"{shown(line)} is not of the form key=value")
    return key.strip(), value.strip()


def _parsed(key: str, value: str) -> tuple[str, int | bool]:
    attribute, parse = _KEYS.get(key, _Key(""))
    if parse is None:
        raise ConfigError(f"there is no setting {shown(key)}")
    try:
        return attribute, parse(value)
    except ConfigError as error:
        raise ConfigError(f"setting {key}: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
