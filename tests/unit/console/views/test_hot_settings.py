"""Settings that may be changed while a broker runs: all of the broker's, and no others; values that make sense."""

from __future__ import annotations

import pytest

from pyromq.broker.base.config import changed
from pyromq.broker.base.config_keys import CHANGEABLE
from pyromq.broker.base.settings import BrokerSettings
from pyromq.console.views.hot_settings import HOT, Change, Kind, changes_of, checked
from pyromq.errors import ConfigError


def test_the_table_is_the_broker_s_own() -> None:
    assert sorted(HOT) == sorted(CHANGEABLE)
    assert all(key == setting.key and setting.meaning for key, setting in HOT.items())


@pytest.mark.parametrize("key", sorted(HOT))
def test_the_broker_takes_what_the_table_allows(key: str) -> None:
    setting = HOT[key]
    values = {
        Kind.SWITCH: ["true", "FALSE"],
        Kind.NUMBER: [str(setting.least), str(setting.most)],
        Kind.HOURS: ["04", "04;16"],
        Kind.TEXT: [""],
    }[setting.kind]
    for value in values:
        changed(BrokerSettings(), {key: checked(key, value)})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fileReservedTime", "0"),
        ("fileReservedTime", "-5"),
        ("fileReservedTime", "９"),
        ("fileReservedTime", "9" * 30),
        ("fileReservedTime", "1e3"),
        ("autoCreateTopicEnable", "yes"),
        ("deleteWhen", "25"),
        ("deleteWhen", ""),
        ("deleteWhen", "4;;5"),
        ("quotas", "a\nbrokerName=x"),
        ("brokerName", "other"),
        ("storePathRootDir", "/tmp"),
        ("", ""),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed is|not one of the settings"):
        checked(key, value)


def test_changes_are_what_differs() -> None:
    now = {"fileReservedTime": "72", "longPollingEnable": "true"}
    assert changes_of(now, {"fileReservedTime": " 96 ", "longPollingEnable": "True"}) == [
        Change(key="fileReservedTime", before="72", after="96")
    ]
    with pytest.raises(ConfigError, match="nothing would change"):
        changes_of(now, {"fileReservedTime": "72"})
    with pytest.raises(ConfigError, match="nothing would change"):
        changes_of(now, {})
