"""TLS of servers and of their clients: files in, contexts out."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from pyromq.errors import ConfigError
from pyromq.net.settings import TlsMode


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
        """Raises ConfigError."""
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

    def __post_init__(self) -> None:
        if self.mode is not TlsMode.DISABLED and self.certificate_file is None:
            raise ConfigError(f"tls_mode {self.mode.value} needs tls_certificate_file")

    def context(self) -> ssl.SSLContext | None:
        """None when TLS is disabled. Raises ConfigError."""
        if self.mode is TlsMode.DISABLED or self.certificate_file is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate_file, self.key_file)
            if self.ca_file is not None:
                context.load_verify_locations(self.ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificates cannot be used: {error} ({_files(self)})") from error
        return context


def _files(tls: TlsSettings | ServerTls) -> str:
    return ", ".join(str(path) for path in (tls.certificate_file, tls.key_file, tls.ca_file) if path)
