"""Exposure: whether a server may listen where other machines reach it.

Whoever reaches a server that asks nobody for a name may send, read, delete and change settings. One whose clients sign
over plain connections can be listened to, and what was signed can be said again. Both are refused beyond loopback,
unless the operator takes the risk by name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.settings import TlsMode
from pyromq.net.tls import ServerContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exposure:
    """What a server does to know its peers, beside TLS, and what its operator accepts."""

    authenticates: bool = False  # every request is signed by a user, or comes with a certificate
    insecure_network: bool = False  # the operator accepts the risk

    def check(self, addresses: Sequence[Address], tls: ServerContext) -> None:
        """Refuse addresses that strangers could use (ConfigError), or warn where the operator accepts that."""
        open_to_all = [each for each in addresses if not ip_address(each.host.partition("%")[0]).is_loopback]
        risk = self._risk(tls)
        if not open_to_all or not risk:
            return
        where = ", ".join(map(str, open_to_all))
        if not self.insecure_network:
            raise ConfigError(
                f"{where} can be reached from other machines, and {risk}. Listen on 127.0.0.1, or set "
                "insecure_network (--insecure-network) if a firewall keeps strangers out"
            )
        logger.warning("open to other machines: address=%s risk=%s", where, risk)

    def _risk(self, tls: ServerContext) -> str:
        """What strangers could do; empty if nothing."""
        if tls.knows_peers or (self.authenticates and tls.mode is TlsMode.ENFORCING):
            return ""
        if self.authenticates:
            return (
                "requests are signed but not encrypted: who listens on the way reads them and may repeat them; "
                "set tls_mode to enforcing (pyromq tls init makes certificates)"
            )
        return (
            "there is no access control: who reaches it may send, read, delete and change settings; switch on "
            "access control and TLS (docs/how-to/security.md), or require certificates of clients (tls_mode "
            "enforcing with tls_client_ca_file)"
        )


NO_MATTER: Final = Exposure(insecure_network=True)
"""For servers whose owner looks after that."""
