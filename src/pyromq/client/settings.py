"""Settings of clients: typed and frozen. RocketMQ's defaults where they mean the same."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyromq.model.names import DEFAULT_TOPIC, validate_group, validate_topic
from pyromq.net import Address, Backoff, ConnectionSettings
from pyromq.wire.flags import SysFlag

NAMESERVER_VARIABLES: Final = ("PYROMQ_NAMESERVER", "NAMESRV_ADDR")
DEFAULT_NAMESERVER: Final = "127.0.0.1:9876"


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
class TlsSettings:
    """TLS to name servers and brokers; the system's authorities unless ``ca_file`` names others."""

    ca_file: Path | None = None
    certificate_file: Path | None = None  # ours, where servers ask for one
    key_file: Path | None = None
    verify: bool = True  # False: encrypted, but with whomever
    hostname: str = ""  # what the servers' certificates say; the host we connect to when empty

    def context(self) -> ssl.SSLContext:
        """Raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificates cannot be used: {error}") from error
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What all clients share. ``nameservers`` may be given as text (``a:9876;b:9876``) or as several texts.

    Without them the environment decides (PYROMQ_NAMESERVER, then NAMESRV_ADDR), and then 127.0.0.1:9876.
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
    close_timeout_ms: int = 3_000
    backoff: Backoff = field(default_factory=lambda: Backoff(first_ms=100, ceiling_ms=3_000))
    credentials: Credentials | None = None
    tls: TlsSettings | None = None
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nameservers", parse_nameservers(self.nameservers) or nameservers_from(os.environ))
        for address in self.nameservers:
            Address.parse(address)
        for name in ("request_timeout_ms", "connect_timeout_ms", "route_poll_ms", "heartbeat_ms", "close_timeout_ms"):
            _require(getattr(self, name) > 0, f"{name} must be positive")
        for part in (self.instance_name, self.unit_name):
            _require("@" not in part, f"{part!r}: @ separates the parts of a client id")
        if self.namespace:
            validate_topic(self.namespace)
            _require("%" not in self.namespace, f"namespace {self.namespace!r}: % separates it from names")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How one producer sends. Raises ConfigError or InvalidNameError for what cannot work."""

    group: str = "PYROMQ_PRODUCER"
    timeout_ms: int = 3_000  # of a send with all its attempts
    attempt_timeout_ms: int = 0  # of one attempt; 0: whatever is left of the time
    retries: int = 2  # attempts after the first that reached a broker
    retry_unless_ok: bool = False  # also when it was stored but not as safely as asked: makes duplicates
    template_topic: str = DEFAULT_TOPIC  # what automatically created topics are made after
    new_topic_queues: int = 4
    body_bytes_max: int = 4 << 20  # of a message or a batch, after compression; the broker has its own limit
    compress_from_bytes: int = 4_096
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    avoid_slow_brokers: bool = False
    in_flight_max: int = 20_000  # sends begun with send_nowait that are not finished

    def __post_init__(self) -> None:
        validate_group(self.group)
        validate_topic(self.template_topic)
        for name in ("timeout_ms", "new_topic_queues", "body_bytes_max", "in_flight_max"):
            _require(getattr(self, name) > 0, f"{name} must be positive")
        for name in ("attempt_timeout_ms", "retries", "compress_from_bytes"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative")


def parse_nameservers(given: str | Iterable[str]) -> tuple[str, ...]:
    """``a:9876;b:9876``, or several such texts, as addresses."""
    texts = [given] if isinstance(given, str) else given
    return tuple(address.strip() for text in texts for address in text.split(";") if address.strip())


def nameservers_from(environment: Mapping[str, str]) -> tuple[str, ...]:
    for variable in NAMESERVER_VARIABLES:
        if found := parse_nameservers(environment.get(variable, "")):
            return found
    return (DEFAULT_NAMESERVER,)


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ConfigError(text)
