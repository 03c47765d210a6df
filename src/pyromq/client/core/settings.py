"""Settings of clients: typed and frozen. RocketMQ's defaults where they mean the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

from pyromq.client.core.broker_health import TABLE_5, LatencyTable
from pyromq.errors import ConfigError, require
from pyromq.model.names import DEFAULT_TOPIC, validate_topic
from pyromq.net import Backoff, ConnectionSettings, TlsSettings
from pyromq.net.nameserver_list import check_nameservers, parse_nameservers
from pyromq.wire.flags import SysFlag

NAMESERVER_VARIABLES: Final = ("PYROMQ_NAMESERVER", "NAMESRV_ADDR")
SCHEMAS_VARIABLE: Final = "PYROMQ_SCHEMAS"
DEFAULT_NAMESERVER: Final = "127.0.0.1:9876"
SEND_TIMEOUT_MS: Final = 3_000  # of a send that is given no time


class Compression(Enum):
    """How large bodies are packed. Every client reads ZLIB; LZ4 and ZSTD need Java 5.x or PyroMQ."""

    NONE = 0
    ZLIB = int(SysFlag.ZLIB)
    LZ4 = int(SysFlag.LZ4)
    ZSTD = int(SysFlag.ZSTD)


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret; every request is signed with them."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What all clients share. ``nameservers`` may be given as text (``a:9876;b:9876``) or as several texts.

    Without them the environment decides (PYROMQ_NAMESERVER, then NAMESRV_ADDR), and then 127.0.0.1:9876. A URL such as
    ``http://host:8080/rocketmq/nsaddr`` is asked for the addresses, again and again. Without ``credentials`` the
    environment has them (PYROMQ_ACCESS_KEY with PYROMQ_SECRET_KEY or PYROMQ_SECRET_KEY_FILE), or requests are not
    signed. ``tls``: True or TlsSettings for TLS, False for none; without it the environment decides (PYROMQ_TLS,
    PYROMQ_TLS_CA, …). ``schemas`` is where the schemas of topics come from that values are sent by: ``topic`` (kept
    with the topic), ``none``, or ``registry:URL``; without it PYROMQ_SCHEMAS says, then ``topic``.
    Raises ConfigError for what cannot work.
    """

    nameservers: tuple[str, ...] | str = ()
    instance_name: str = ""  # part of the client id; different for every client when empty
    unit_name: str = ""
    namespace: str = ""
    client_ip: str = ""  # what the client id says; found out when empty
    request_timeout_ms: int = 3_000
    connect_timeout_ms: int = 3_000
    route_poll_ms: int = 30_000
    heartbeat_ms: int = 30_000
    probe_ms: int = 2_000  # a broker that owes responses and was silent for so long has as long to say that it is there
    close_timeout_ms: int = 3_000
    backoff: Backoff = field(default_factory=lambda: Backoff(first_ms=100, ceiling_ms=3_000))
    credentials: Credentials | None = None
    tls: TlsSettings | bool | None = None
    schemas: str = ""  # where schemas of topics come from: topic (kept with it), none, or registry:URL
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nameservers", parse_nameservers(self.nameservers) or nameservers_from(os.environ))
        check_nameservers(tuple(self.nameservers))
        if self.credentials is None:
            object.__setattr__(self, "credentials", credentials_from(os.environ))
        if not isinstance(self.tls, TlsSettings):
            chosen = tls_from(os.environ) if self.tls is None else TlsSettings() if self.tls else None
            object.__setattr__(self, "tls", chosen or False)
        for name in ("request_timeout_ms", "connect_timeout_ms", "route_poll_ms", "heartbeat_ms", "close_timeout_ms"):
            require_number(name, getattr(self, name), 1)
        require_number("probe_ms", self.probe_ms, 0)  # 0: never
        object.__setattr__(self, "schemas", self.schemas or os.environ.get(SCHEMAS_VARIABLE) or "topic")
        is_source = self.schemas in ("topic", "none") or self.schemas.startswith(
            ("registry:http://", "registry:https://")
        )
        require(is_source, f"schemas={self.schemas!r}: write topic, none, or registry:http://host:8081")
        for part in (self.instance_name, self.unit_name):
            require("@" not in part, f"{part!r}: @ separates the parts of a client id")
        if self.namespace:
            validate_topic(self.namespace)
            require("%" not in self.namespace, f"namespace {self.namespace!r}: % separates it from names")

    @property
    def tls_settings(self) -> TlsSettings | None:
        """What ``tls`` came to mean."""
        return self.tls if isinstance(self.tls, TlsSettings) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How one producer sends. Raises ConfigError or InvalidNameError for what cannot work."""

    timeout_ms: int | None = None  # of a send with all its attempts; None: 3 s, and ``restart_wait_ms`` for restarts
    restart_wait_ms: int = 15_000  # without timeout_ms: how long a send waits for a broker that is away or silent
    attempt_timeout_ms: int = 0  # of one attempt; 0: whatever is left of the time
    retries: int = 2  # attempts after the first that reached a broker
    nowait_retries: int | None = None  # the same of ``send_nowait``; None: as many
    retry_unless_ok: bool = False  # also when it was stored but not as safely as asked: makes duplicates
    template_topic: str = DEFAULT_TOPIC  # what automatically created topics are made after
    new_topic_queues: int = 4
    body_bytes_max: int = 4 << 20  # of a message or a batch, after compression; the broker has its own limit
    compress_from_bytes: int = 4_096
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    latency_fault: bool = False  # avoid brokers that were slow or failed (RocketMQ: sendLatencyFaultEnable)
    latency_table: LatencyTable = TABLE_5  # for how long
    in_flight_max: int = 20_000  # sends begun with send_nowait that are not finished

    def __post_init__(self) -> None:
        validate_topic(self.template_topic)
        for name in ("new_topic_queues", "body_bytes_max", "in_flight_max"):
            require_number(name, getattr(self, name), 1)
        for name in ("restart_wait_ms", "attempt_timeout_ms", "retries", "compress_from_bytes"):
            require_number(name, getattr(self, name), 0)
        if self.timeout_ms is not None:
            require_number("timeout_ms", self.timeout_ms, 1)
        if self.nowait_retries is not None:
            require_number("nowait_retries", self.nowait_retries, 0)
        require(
            isinstance(self.latency_fault, bool), f"latency_fault must be True or False, not {self.latency_fault!r}"
        )
        if not isinstance(self.compression, Compression):
            choices = ", ".join(f"Compression.{kind.name}" for kind in Compression)
            raise ConfigError(f"compression must be one of {choices}, not {self.compression!r}")

    @property
    def answer_ms(self) -> int:
        """How long a send waits for brokers to answer: ``timeout_ms``, or what stands for it."""
        return SEND_TIMEOUT_MS if self.timeout_ms is None else self.timeout_ms

    @property
    def longest_ms(self) -> int:
        """What a send takes at most. A time that was given is kept to, whatever brokers do."""
        return max(SEND_TIMEOUT_MS, self.restart_wait_ms) if self.timeout_ms is None else self.timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionProducerSettings(ProducerSettings):
    """How one transaction producer sends, and how it responds to check-backs."""

    confirm: bool = False  # wait for the broker's response to the outcome; RocketMQ does not, a lost one is asked for
    check_workers: int = 1  # check-backs that run at a time
    checks_max: int = 2_000  # check-backs that wait; the broker repeats what does not fit

    def __post_init__(self) -> None:
        ProducerSettings.__post_init__(self)
        for name in ("check_workers", "checks_max"):
            require_number(name, getattr(self, name), 1)


def client_settings_of(nameservers: str | Sequence[str], given: ClientSettings | None) -> ClientSettings:
    """The settings given, or default ones, with these name servers if there are any. Raises ConfigError."""
    if given is not None and not isinstance(given, ClientSettings):
        raise ConfigError(f"client_settings must be ClientSettings, not {type(given).__name__}")
    if not isinstance(nameservers, str | Sequence) or not all(isinstance(text, str) for text in nameservers):
        raise ConfigError(f"nameservers must be text such as '10.0.0.1:9876', or several texts, not {nameservers!r}")
    if given is None:
        return ClientSettings(nameservers=parse_nameservers(nameservers))
    return replace(given, nameservers=parse_nameservers(nameservers)) if nameservers else given


def nameservers_from(environment: Mapping[str, str]) -> tuple[str, ...]:
    for variable in NAMESERVER_VARIABLES:
        if found := parse_nameservers(environment.get(variable, "")):
            return found
    return (DEFAULT_NAMESERVER,)


def credentials_from(environment: Mapping[str, str]) -> Credentials | None:
    """PYROMQ_ACCESS_KEY with PYROMQ_SECRET_KEY, or the first line of PYROMQ_SECRET_KEY_FILE. Raises ConfigError."""
    access_key = environment.get("PYROMQ_ACCESS_KEY", "")
    if not access_key:
        return None
    secret_key = environment.get("PYROMQ_SECRET_KEY", "")
    if not secret_key and (file := environment.get("PYROMQ_SECRET_KEY_FILE", "")):
        try:
            secret_key = Path(file).read_text(encoding="utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"PYROMQ_SECRET_KEY_FILE {file} cannot be read: {error}") from error
    require(bool(secret_key), "PYROMQ_ACCESS_KEY is set: set PYROMQ_SECRET_KEY or PYROMQ_SECRET_KEY_FILE too")
    return Credentials(access_key, secret_key, environment.get("PYROMQ_SECURITY_TOKEN", ""))


def tls_from(environment: Mapping[str, str]) -> TlsSettings | None:
    """TLS if PYROMQ_TLS says so, or if PYROMQ_TLS_CA or PYROMQ_TLS_CERTIFICATE names a file. Raises ConfigError."""
    files = {name: environment.get(f"PYROMQ_TLS_{name}", "") for name in ("CA", "CERTIFICATE", "KEY")}
    if not _switch(environment, "PYROMQ_TLS", default=bool(files["CA"] or files["CERTIFICATE"])):
        return None
    return TlsSettings(
        ca_file=_path(files["CA"]),
        certificate_file=_path(files["CERTIFICATE"]),
        key_file=_path(files["KEY"]),
        verify=_switch(environment, "PYROMQ_TLS_VERIFY", default=True),
        check_hostname=_switch(environment, "PYROMQ_TLS_CHECK_HOSTNAME", default=True),
        hostname=environment.get("PYROMQ_TLS_HOSTNAME", ""),
    )


def require_number(name: str, value: object, smallest: int, largest: int | None = None) -> None:
    """Check that a value is a whole number within the bounds. Raises ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a whole number, not {value!r}")
    if largest is not None and not smallest <= value <= largest:
        raise ConfigError(f"{name} must be {smallest} to {largest}, not {value}")
    if value < smallest:
        raise ConfigError(f"{name} must be {'positive' if smallest == 1 else f'{smallest} or more'}, not {value}")


def _switch(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip().lower()
    require(text in ("", "1", "true", "0", "false"), f"{name}={text}: write true or false")
    return text in ("1", "true") if text else default


def _path(text: str) -> Path | None:
    return Path(text) if text else None
