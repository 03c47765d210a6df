"""Settings that cannot be used are refused with what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pyromq.console.listening import PortTakenError, listening_socket, url_of
from pyromq.console.settings import ConsoleSettings
from pyromq.errors import ConfigError
from pyromq.security.secret import Secret


def test_listening_beyond_this_machine_needs_https_or_a_decision() -> None:
    for host in ("0.0.0.0", "10.0.0.7", "::", "console.example"):
        with pytest.raises(ConfigError, match="passwords would travel readable"):
            ConsoleSettings(host=host)
        ConsoleSettings(host=host, behind_https=True)
        ConsoleSettings(host=host, insecure_network=True)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        ConsoleSettings(host=host)


def test_a_short_token_and_half_a_certificate_are_refused() -> None:
    with pytest.raises(ConfigError, match="fewer than 32 characters"):
        ConsoleSettings(token=Secret("short"))
    with pytest.raises(ConfigError, match="private key"):
        ConsoleSettings(certificate=Path("a.pem"))
    with pytest.raises(ConfigError, match="ports are numbers"):
        ConsoleSettings(port=65_536)


def test_no_secret_is_shown() -> None:
    text = repr(ConsoleSettings(password=Secret("tell nobody"), token=Secret("t" * 40)))
    assert "tell nobody" not in text
    assert "tttt" not in text


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1") as caught:
            listening_socket(ConsoleSettings(port=port))
        assert caught.value.port == port


def test_the_default_port_that_is_taken_is_a_warning_and_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("pyromq.console.listening.DEFAULT_PORT", port)
        with listening_socket(ConsoleSettings()) as listening:
            assert listening.getsockname()[1] != port
            assert url_of(listening, ConsoleSettings()).startswith("http://127.0.0.1:")
        assert "console on another port" in caplog.text


def test_a_host_that_does_not_exist_is_told() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on|cannot be used"):
        listening_socket(ConsoleSettings(host="203.0.113.7", port=0, insecure_network=True))
