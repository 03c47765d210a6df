"""The certificate of the gRPC port: that of the broker's settings, or one that is made at the first start.

Official clients in Java, Go and C# use TLS unless they are told otherwise, and trust any certificate. Without settings
for TLS the port takes both, TLS and plain text.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.settings import TlsMode
from pyromq.net.tls import FollowedContext, ServerContext, ServerTls
from pyromq.security.certificates import CertificateFolder

logger = logging.getLogger(__name__)

FOLDER: Final = "grpc-tls"
_STEM: Final = "server"
_PROTOCOLS: Final = ("h2",)  # clients of gRPC insist on hearing it


def grpc_tls(configured: ServerTls, folder: Path, host: str, clock: Clock) -> ServerContext:
    """How the port uses TLS. Raises ConfigError when a certificate that was configured cannot be used."""
    if configured.mode is not TlsMode.DISABLED:
        return FollowedContext(replace(configured, protocols=_PROTOCOLS), clock)
    certificate, key = folder / FOLDER / f"{_STEM}.pem", folder / FOLDER / f"{_STEM}-key.pem"
    if not certificate.exists():
        try:
            made = CertificateFolder(folder / FOLDER)
            made.make_authority("PyroMQ gRPC")
            made.add_server([host], name=_STEM)
        except (ConfigError, OSError) as error:
            logger.warning("gRPC is served without TLS, no certificate could be made: reason=%s", error)
            return ServerContext()
    own = ServerTls(mode=TlsMode.PERMISSIVE, certificate_file=certificate, key_file=key, protocols=_PROTOCOLS)
    try:
        return FollowedContext(own, clock)
    except ConfigError as error:
        logger.warning("gRPC is served without TLS: reason=%s", error)
        return ServerContext()
