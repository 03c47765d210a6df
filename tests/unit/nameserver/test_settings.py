from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.nameserver.errors import ProtectedSettingError
from pyromq.nameserver.settings import NameServerSettings, describe_settings, update_settings


def test_the_defaults_are_rocketmqs_on_loopback() -> None:
    settings = NameServerSettings()
    assert (settings.host, settings.port) == ("127.0.0.1", 9876)
    assert (settings.scan_interval_ms, settings.broker_silence_ms_max) == (5_000, 120_000)


def test_settings_are_shown_under_rocketmqs_keys() -> None:
    text = describe_settings(NameServerSettings(kv_path=Path("/data/kvConfig.json"))).decode()
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines["listenPort"] == "9876" and lines["kvConfigPath"] == "/data/kvConfig.json"
    assert lines["orderMessageEnable"] == "false" and lines["returnOrderTopicConfigToBroker"] == "true"
    assert list(lines) == sorted(lines)


def test_comments_blank_lines_and_spaces_are_allowed() -> None:
    text = b"# a comment\n\n  orderMessageEnable = TRUE \r\nwaitSecondsForService=5\n"
    settings = update_settings(NameServerSettings(), text)
    assert settings.order_message_enable and settings.wait_seconds_for_service == 5


@pytest.mark.parametrize(
    "text",
    [
        b"orderMessageEnable",
        b"orderMessageEnable=maybe",
        b"scanNotActiveBrokerInterval=fast",
        b"scanNotActiveBrokerInterval=-1",
        b"scanNotActiveBrokerInterval=1",
        b"scanNotActiveBrokerInterval=\xc2\xb2",
        b"noSuchKey=1",
        b"limits=1",
        b"\xff=1",
        b"x" * 70_000,
    ],
)
def test_text_that_makes_no_sense_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        update_settings(NameServerSettings(), text)


def test_a_protected_key_is_told_apart() -> None:
    with pytest.raises(ProtectedSettingError, match="kvConfigPath"):
        update_settings(NameServerSettings(), b"kvConfigPath=/etc/passwd")


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"port": 65_536}, {"scan_interval_ms": 0}, {"broker_silence_ms_max": 0}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        NameServerSettings(**wrong)  # type: ignore[arg-type]
