"""What servers are told about TLS and proxies, without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.net import ServerTls, TlsMode, TlsSettings, TrustedProxies
from pyromq.net.listener_settings import ListenerSettings


def test_only_named_addresses_and_networks_are_proxies() -> None:
    proxies = TrustedProxies(["10.0.0.7", "192.0.2.0/24", "fd00::/8"])
    for host in ("10.0.0.7", "::ffff:10.0.0.7", "192.0.2.200", "fd00::1"):
        assert host in proxies
    for host in ("10.0.0.8", "192.0.3.1", "fe80::1%eth0", "::1"):
        assert host not in proxies
    assert "127.0.0.1" not in TrustedProxies([])


@pytest.mark.parametrize("wrong", [{"trusted_proxies": ("proxy.example",)}, {"connections_max": 0}, {"idle_ms": -1}])
def test_what_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ListenerSettings(**wrong)


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
def test_tls_needs_a_certificate_that_is_there(mode: TlsMode, tmp_path: Path) -> None:
    assert ServerTls().context() is None
    with pytest.raises(ConfigError, match=f"{mode.value} needs tls_certificate_file"):
        ServerTls(mode=mode)
    with pytest.raises(ConfigError, match=r"cannot be used: .*none\.pem"):
        ServerTls(mode=mode, certificate_file=tmp_path / "none.pem").context()
    with pytest.raises(ConfigError, match=r"cannot be used: .*none\.pem"):
        TlsSettings(ca_file=tmp_path / "none.pem").context()
