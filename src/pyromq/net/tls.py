"""TLS of servers and of their clients: files in, contexts out."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.settings import TlsMode

logger = logging.getLogger(__name__)

_LOOK_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS to name servers and brokers; the system's authorities unless ``ca_file`` names others.

    ``ca_file`` may also hold the certificate of a server itself: then that one is trusted and no other.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None  # ours, where servers ask for one
    key_file: Path | None = None  # None: it stands in the file of the certificate
    verify: bool = True  # False: encrypted, but with a peer that is not verified
    check_hostname: bool = True  # False: any name, as long as the certificate is trusted
    hostname: str = ""  # what the servers' certificates say; the host we connect to when empty

    def context(self) -> ssl.SSLContext:
        """Build the client's TLS context. Raises ConfigError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificates cannot be used: {error} ({_files(self)})") from error
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # trust what ca_file holds, be it an authority or not
        context.check_hostname = self.verify and self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """How a server uses TLS, and with which certificate. Raises ConfigError for what cannot work."""

    mode: TlsMode = TlsMode.DISABLED
    certificate_file: Path | None = None
    key_file: Path | None = None  # None: it stands in the file of the certificate
    ca_file: Path | None = None  # clients must show a certificate of these authorities
    protocols: tuple[str, ...] = ()  # that the handshake names (ALPN), where clients insist on it

    def __post_init__(self) -> None:
        if self.mode is not TlsMode.DISABLED and self.certificate_file is None:
            raise ConfigError(f"tls_mode {self.mode.value} needs tls_certificate_file")

    def context(self) -> ssl.SSLContext | None:
        """None when TLS is disabled. Raises ConfigError."""
        if self.mode is TlsMode.DISABLED or self.certificate_file is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self.protocols:
            context.set_alpn_protocols(list(self.protocols))
        try:
            context.load_cert_chain(self.certificate_file, self.key_file)
            if self.ca_file is not None:
                context.load_verify_locations(self.ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificates cannot be used: {error} ({_files(self)})") from error
        return context


class ServerContext:
    """TLS of one server while it runs: its mode, and the context of the next handshake.

    Certificates are replaced without a restart: files that have changed are read again when the next client comes, at
    most once a second. Files that cannot be used are reported in the log, and the last good ones stay.
    """

    def __init__(self, mode: TlsMode = TlsMode.DISABLED, context: ssl.SSLContext | None = None) -> None:
        if mode is not TlsMode.DISABLED and context is None:
            raise ConfigError(f"TLS mode {mode.value} needs a certificate")
        self.mode = mode
        self._context = context

    @property
    def knows_peers(self) -> bool:
        """Whether every peer has shown a certificate that is trusted."""
        context = self._context
        return self.mode is TlsMode.ENFORCING and context is not None and context.verify_mode is ssl.CERT_REQUIRED

    def current(self) -> ssl.SSLContext | None:
        """For a handshake that begins now; None when TLS is disabled."""
        return self._context


class FollowedContext(ServerContext):
    """That of files, which may change. Raises ConfigError when they cannot be used at the start."""

    def __init__(self, tls: ServerTls, clock: Clock) -> None:
        super().__init__(tls.mode, tls.context())
        self._tls = tls
        self._clock = clock
        self._seen = _versions(tls)
        self._looked_ms = clock.monotonic_ms()

    def current(self) -> ssl.SSLContext | None:
        now_ms = self._clock.monotonic_ms()
        if self._context is not None and now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            self._look()
        return self._context

    def _look(self) -> None:
        versions = _versions(self._tls)
        if versions == self._seen:
            return
        self._seen = versions
        try:
            self._context = self._tls.context()
        except ConfigError as error:
            logger.error("certificates not replaced, those read before are still in use: reason=%s", error)
        else:
            logger.info("certificates replaced: files=%s", _files(self._tls))


def _versions(tls: ServerTls) -> list[tuple[int, int, int]]:
    """What tells a file from the one that stood there before."""
    found = []
    for path in (tls.certificate_file, tls.key_file, tls.ca_file):
        try:
            about = path.stat() if path else None
        except OSError:  # it is being replaced, perhaps
            about = None
        found.append((about.st_mtime_ns, about.st_size, about.st_ino) if about else (0, 0, 0))
    return found


def _files(tls: TlsSettings | ServerTls) -> str:
    return ", ".join(str(path) for path in (tls.certificate_file, tls.key_file, tls.ca_file) if path)
