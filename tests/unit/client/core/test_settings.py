"""Settings of clients and producers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.core.settings import ClientSettings, Credentials, ProducerSettings, nameservers_from, tls_from
from pyromq.client.producer.producer import Producer
from pyromq.errors import ConfigError, InvalidNameError
from pyromq.net import TlsSettings


def test_name_servers_come_as_text_or_several_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ClientSettings(nameservers="a:1; b:2").nameservers == ("a:1", "b:2")
    assert ClientSettings(nameservers=("a:1", "b:2")).nameservers == ("a:1", "b:2")
    assert nameservers_from({"NAMESRV_ADDR": "a:1", "PYROMQ_NAMESERVER": "b:2;c:3"}) == ("b:2", "c:3")
    assert nameservers_from({"NAMESRV_ADDR": "a:1"}) == ("a:1",)
    assert nameservers_from({}) == ("127.0.0.1:9876",)
    monkeypatch.setenv("PYROMQ_NAMESERVER", "d:4")
    assert ClientSettings().nameservers == ("d:4",)


@pytest.mark.parametrize(
    "fields",
    [
        {"nameservers": "nowhere"},
        {"nameservers": "a:99999"},
        {"nameservers": "ftp://a/b"},
        {"nameservers": "a:1;http://b"},
        {"instance_name": "a@b"},
        {"heartbeat_ms": 0},
        {"namespace": "a%b"},
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ClientSettings(**fields)


def test_tls_comes_from_the_settings_or_else_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tls_from({}) is None and tls_from({"PYROMQ_TLS": "1"}) == TlsSettings()
    files = {"PYROMQ_TLS_CA": "ca.pem", "PYROMQ_TLS_CERTIFICATE": "c.pem", "PYROMQ_TLS_KEY": "k.pem"}
    switches = {"PYROMQ_TLS_CHECK_HOSTNAME": "false", "PYROMQ_TLS_HOSTNAME": "mq.example", "PYROMQ_TLS_VERIFY": "true"}
    assert tls_from(files | switches) == TlsSettings(
        ca_file=Path("ca.pem"),
        certificate_file=Path("c.pem"),
        key_file=Path("k.pem"),
        check_hostname=False,
        hostname="mq.example",
    )
    assert tls_from({**files, "PYROMQ_TLS": "false"}) is None
    with pytest.raises(ConfigError, match="PYROMQ_TLS=on: write true or false"):
        tls_from({"PYROMQ_TLS": "on"})
    assert ClientSettings().tls_settings is None
    monkeypatch.setenv("PYROMQ_TLS_CA", "ca.pem")
    assert ClientSettings().tls_settings == TlsSettings(ca_file=Path("ca.pem"))
    assert ClientSettings(tls=True).tls_settings == TlsSettings()
    without = ClientSettings(tls=False)
    assert without.tls_settings is None and replace(without, nameservers="a:1").tls_settings is None


def test_producer_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(timeout_ms=0)
    with pytest.raises(InvalidNameError):
        Producer(group="not a group")


def test_a_secret_is_not_shown() -> None:
    settings = ClientSettings(credentials=Credentials("key", "geheim", "token"))
    assert "geheim" not in repr(settings) and "token" not in repr(settings)
