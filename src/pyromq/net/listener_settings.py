"""Listener settings: who may connect to a server, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.exposure import Exposure
from pyromq.net.handler import Handler
from pyromq.net.proxies import TrustedProxies
from pyromq.net.server import Server
from pyromq.net.settings import ConnectionSettings, TlsMode
from pyromq.net.tls import FollowedContext, ServerTls
from pyromq.wire.frame import FRAME_BYTES_MAX


class HasListenerSettings(Protocol):
    """The listener settings within the settings of every server; frozen or not."""

    @property
    def tls_mode(self) -> TlsMode: ...
    @property
    def tls_certificate_file(self) -> Path | None: ...
    @property
    def tls_key_file(self) -> Path | None: ...
    @property
    def tls_client_ca_file(self) -> Path | None: ...
    @property
    def trusted_proxies(self) -> tuple[str, ...]: ...
    @property
    def connections_max(self) -> int: ...
    @property
    def half_read_bytes_max(self) -> int: ...
    @property
    def idle_ms(self) -> int: ...
    @property
    def exposure(self) -> Exposure: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Limits and TLS of a listening server. Raises ConfigError for what cannot work."""

    tls: ServerTls = field(default_factory=ServerTls)
    trusted_proxies: tuple[str, ...] = ()  # peers that may say in a PROXY header for whom they speak
    connections_max: int = 10_000
    half_read_bytes_max: int = 256 << 20
    idle_ms: int = 120_000
    exposure: Exposure = field(default_factory=Exposure)

    def __post_init__(self) -> None:
        TrustedProxies(self.trusted_proxies)
        if self.connections_max < 1:
            raise ConfigError("connections_max must be at least 1")
        if self.half_read_bytes_max < FRAME_BYTES_MAX:
            raise ConfigError(f"half_read_bytes_max must be at least {FRAME_BYTES_MAX}, the size of one frame")
        if self.idle_ms < 0:
            raise ConfigError("idle_ms cannot be negative; 0 keeps silent connections open")

    @classmethod
    def of(cls, settings: HasListenerSettings) -> Self:
        """Take the listener's part of a server's settings. Raises ConfigError."""
        tls = ServerTls(
            mode=settings.tls_mode,
            certificate_file=settings.tls_certificate_file,
            key_file=settings.tls_key_file,
            ca_file=settings.tls_client_ca_file,
        )
        return cls(
            tls=tls,
            trusted_proxies=settings.trusted_proxies,
            connections_max=settings.connections_max,
            half_read_bytes_max=settings.half_read_bytes_max,
            idle_ms=settings.idle_ms,
            exposure=settings.exposure,
        )

    def server(
        self, handler: Handler, listen: Sequence[Address], *, clock: Clock, new: Callable[..., Server] = Server
    ) -> Server:
        """A server that is not started yet. Raises ConfigError when certificates cannot be used."""
        return new(
            handler,
            listen,
            clock=clock,
            settings=ConnectionSettings(idle_ms=self.idle_ms, half_read_bytes_max=self.half_read_bytes_max),
            connections_max=self.connections_max,
            tls=FollowedContext(self.tls, clock),
            proxies=TrustedProxies(self.trusted_proxies),
            exposure=self.exposure,
        )
