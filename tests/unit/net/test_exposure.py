"""Whether a server may listen where other machines reach it."""

from __future__ import annotations

import logging
import ssl

import pytest

from pyromq.errors import ConfigError
from pyromq.net import Address, TlsMode
from pyromq.net.exposure import Exposure
from pyromq.net.tls import ServerContext

HERE = [Address("127.0.0.1", 1), Address("::1", 1)]
EVERYWHERE = [Address("127.0.0.1", 1), Address("0.0.0.0", 1)]
PLAIN = ServerContext()


def with_tls(mode: TlsMode, *, of_clients: bool = False) -> ServerContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED if of_clients else ssl.CERT_NONE
    return ServerContext(mode, context)


@pytest.mark.parametrize(
    ("authenticates", "tls", "risk"),
    [
        (False, PLAIN, "there is no access control"),
        (False, with_tls(TlsMode.ENFORCING), "there is no access control"),
        (False, with_tls(TlsMode.PERMISSIVE, of_clients=True), "there is no access control"),
        (True, PLAIN, "requests are signed but not encrypted"),
        (True, with_tls(TlsMode.PERMISSIVE), "requests are signed but not encrypted"),
    ],
)
def test_what_strangers_could_use_is_refused_unless_the_operator_takes_the_risk(
    authenticates: bool, tls: ServerContext, risk: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match=rf"^0\.0\.0\.0:1 can be reached.*{risk}.*--insecure-network"):
        Exposure(authenticates).check(EVERYWHERE, tls)
    Exposure(authenticates).check(HERE, tls)
    with caplog.at_level(logging.WARNING):
        Exposure(authenticates, insecure_network=True).check(EVERYWHERE, tls)
    assert f"open to other machines: address=0.0.0.0:1 risk={risk}" in caplog.text


def test_servers_that_know_their_peers_may_listen_anywhere() -> None:
    Exposure(authenticates=True).check(EVERYWHERE, with_tls(TlsMode.ENFORCING))
    Exposure().check(EVERYWHERE, with_tls(TlsMode.ENFORCING, of_clients=True))
