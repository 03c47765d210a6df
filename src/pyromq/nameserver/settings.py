"""Settings of a name server: typed and frozen; a change over the network replaces the whole object.

Admin tools know them under RocketMQ's keys, as lines ``key=value`` (318 UPDATE_NAMESRV_CONFIG, 319 GET_…). A change
lasts until the process ends, and is all or nothing. What decides where the server listens or writes is protected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyromq.errors import ConfigError, quoted, require
from pyromq.metrics.settings import MetricsSettings
from pyromq.nameserver.config_keys import KEYS
from pyromq.nameserver.errors import ProtectedSettingError
from pyromq.net.exposure import Exposure
from pyromq.net.listener_settings import ListenerSettings
from pyromq.net.settings import TlsMode
from pyromq.security.audit import AuditSettings
from pyromq.security.settings import AccessSettings
from pyromq.setting_keys import parse_lines, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerLimits:
    """How much brokers and tools may put into a name server.

    A broker that breaks one is refused; of its topics those that break one are left out, and the others count. The
    sizes of requests are such that none takes the loop for 100 ms.
    """

    brokers_max: int = 4096  # addresses: masters and replicas
    topics_max: int = 100_000  # names, of all brokers together
    topics_per_broker_max: int = 100_000
    topics_per_registration_max: int = 20_000  # brokers with more send them in parts (enableSplitRegistration)
    name_characters_max: int = 255  # of clusters, brokers, topics, zones, addresses
    filter_servers_max: int = 64  # per broker
    registration_bytes_max: int = 8 * 1024 * 1024
    inflated_bytes_max: int = 8 * 1024 * 1024  # of a compressed registration
    small_body_bytes_max: int = 64 * 1024  # of every other request
    kv_bytes_max: int = 1024 * 1024  # of all namespaces together
    routes_cached_max: int = 100_000
    state_version_jump_max: int = 1 << 31  # what a registration may gain on who had its name and id before
    silence_ms_max: int = 3_600_000  # the longest silence that a broker may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerAuditSettings(AuditSettings):
    """Small files: they are looked through between two requests, and tools change little here."""

    file_bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerSettings:
    """Settings of a name server. Raises ConfigError for values that cannot work."""

    host: str = "127.0.0.1"
    port: int = 9876  # 0: any free one
    kv_path: Path | None = None  # None: key-value configuration is forgotten at the end
    scan_interval_ms: int = 5_000
    broker_silence_ms_max: int = 120_000  # unless the broker asks for something else
    return_order_topic_config: bool = True  # ordered topics, in the response to a registration
    order_message_enable: bool = False  # and in routes
    support_acting_master: bool = False  # routes show the first replica of a broker without master as its master
    all_topic_list_enable: bool = True
    topic_list_enable: bool = True
    wait_for_service: bool = False  # no routes at first, so that clients do not see half of the brokers
    wait_seconds_for_service: int = 45
    connections_max: int = 10_000
    half_read_bytes_max: int = 256 << 20  # incomplete frames of all connections; the largest is cut first
    idle_ms: int = 120_000  # a connection that is silent for this long is closed; 0: never
    tls_mode: TlsMode = TlsMode.DISABLED
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None  # None: it stands in the file of the certificate
    tls_client_ca_file: Path | None = None  # clients and brokers must show a certificate of these authorities
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose PROXY protocol header is believed
    insecure_network: bool = False  # listen beyond loopback though strangers could use it, or listen in
    access: AccessSettings = field(default_factory=AccessSettings)
    audit: NameServerAuditSettings = field(default_factory=NameServerAuditSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    limits: NameServerLimits = field(default_factory=NameServerLimits)

    def __post_init__(self) -> None:
        require(0 <= self.port <= 65_535, f"port {self.port} is outside [0, 65535]")
        require(100 <= self.scan_interval_ms <= 600_000, "scan_interval_ms must lie between 100 and 600000")
        silence_ms_max = self.limits.silence_ms_max
        require(
            1 <= self.broker_silence_ms_max <= silence_ms_max,
            f"broker_silence_ms_max must lie between 1 and {silence_ms_max}",
        )
        require(0 <= self.wait_seconds_for_service <= 3600, "wait_seconds_for_service must lie between 0 and 3600")
        _ = self.listener  # building it checks it

    @property
    def exposure(self) -> Exposure:
        return Exposure(authenticates=self.access.is_on, insecure_network=self.insecure_network)

    @property
    def listener(self) -> ListenerSettings:
        """What the listening side is given. Raises ConfigError."""
        return ListenerSettings.of(self)


# --- in RocketMQ's words ------------------------------------------------------------------------------------------

_PROTECTED: Final = frozenset(
    {"configBlackList", "configStorePath", *(name for name, key in KEYS.items() if not key.changeable)}
)


def describe_settings(settings: NameServerSettings) -> bytes:
    """Lines ``key=value`` in the order of their keys."""
    values = {name: key.text_of(settings) for name, key in KEYS.items()}
    values["configBlackList"] = ";".join(sorted(_PROTECTED))
    return "".join(f"{key}={value}\n" for key, value in sorted(values.items())).encode()


def update_settings(settings: NameServerSettings, text: bytes) -> NameServerSettings:
    """The settings with lines ``key=value`` applied; raises ProtectedSettingError and other ConfigErrors."""
    pairs = parse_lines(text)
    for name, _ in pairs:
        if name in _PROTECTED:
            raise ProtectedSettingError(name)
    return replace(settings, **dict(_parsed(name, value) for name, value in pairs))


def _parsed(name: str, value: str) -> tuple[str, Any]:
    key = KEYS.get(name)
    if key is None:
        raise ConfigError(f"{quoted(name)} is not a setting{suggestion(name, list(KEYS))}")
    try:
        return key.field, key.parse(value)
    except ConfigError as error:
        raise ConfigError(f"setting {name}: {error}") from error
