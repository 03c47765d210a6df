from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyromq.broker.base.config import adopt, changed, describe, parse_changes
from pyromq.broker.base.config_ignored import IGNORED
from pyromq.broker.base.config_keys import CHANGEABLE, KEYS
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import ConfigError, InvalidNameError
from pyromq.setting_keys import CONFIG_BYTES_MAX
from pyromq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 65_536},
        {"permission": 8},
        {"permission": -1},
        {"broker_id": -1},
        {"offsets_save_ms": 0},
        {"register_interval_ms": 0},
        {"short_polling_ms": 0},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        BrokerSettings(**wrong)


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 128])
def test_names_become_topics_and_must_be_valid_ones(name: str) -> None:
    with pytest.raises(InvalidNameError):
        BrokerSettings(name=name)
    with pytest.raises(InvalidNameError):
        BrokerSettings(cluster=name)


def test_settings_are_told_in_rocketmqs_words_and_hold_no_paths() -> None:
    told = describe(BrokerSettings(nameservers=("a:1", "b:2")), "10.0.0.1", 10911)
    assert told["namesrvAddr"] == "a:1;b:2" and told["flushDiskType"] == "SYNC_FLUSH"
    assert (told["deleteWhen"], told["fileReservedTime"], told["autoCreateTopicEnable"]) == ("04", "72", "true")
    assert list(told) == sorted(told)
    assert not any("/" in value for value in told.values())


def test_what_is_told_can_be_sent_back_where_it_may_change() -> None:
    settings = BrokerSettings()
    told = describe(settings, "10.0.0.1", 10911)
    changeable: dict[str, str] = {}
    for key, value in told.items():
        try:
            changeable |= parse_changes(f"{key}={value}".encode())
        except RefusedError:
            continue
    assert set(changeable) == set(CHANGEABLE)
    assert changed(settings, changeable) == settings


def test_changes_reach_broker_and_store_settings() -> None:
    settings = BrokerSettings()
    changes = parse_changes(
        b"\n# comment\n! comment\n brokerPermission = 4 \ndeleteWhen=01;13\nlongPollingEnable=FALSE\n"
    )
    new = changed(settings, changes)
    assert (new.permission, new.store.delete_hours, new.long_polling) == (4, (1, 13), False)
    assert settings == BrokerSettings(), "nothing has happened yet"
    shared = replace(settings)
    adopt(shared, new)
    assert shared == new


@pytest.mark.parametrize("key", ["brokerName", "listenPort", "flushDiskType", "configBlackList", "nonsense", ""])
def test_keys_that_must_not_change_are_refused_with_a_list_of_those_that_may(key: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_changes(f"brokerPermission=6\n{key}=1".encode())
    assert refused.value.code == ResponseCode.NO_PERMISSION and "brokerPermission" in refused.value.remark


@pytest.mark.parametrize(
    "text",
    [
        b"brokerPermission=8",
        b"brokerPermission=",
        b"brokerPermission=-1",
        b"fileReservedTime=1e3",
        b"fileReservedTime=99999999999",
        b"deleteWhen=25",
        b"deleteWhen=",
        b"diskMaxUsedSpaceRatio=99",
        b"autoCreateTopicEnable=1",
        b"flushConsumerOffsetInterval=0",
    ],
)
def test_values_that_make_no_sense_are_refused_at_run_time_too(text: bytes) -> None:
    with pytest.raises(ConfigError):
        changed(BrokerSettings(), parse_changes(text))


@pytest.mark.parametrize("text", [b"brokerPermission", b"\xff=1", b"#" * (CONFIG_BYTES_MAX + 1)])
def test_text_that_is_no_list_of_settings_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_changes(text)


@pytest.mark.parametrize(("given", "used"), [("1", 10_000), ("10000", 10_000), ("45000", 45_000), ("99999999", 60_000)])
def test_the_period_of_registrations_stays_inside_rocketmqs_limits(given: str, used: int) -> None:
    new = changed(BrokerSettings(), parse_changes(f"registerNameServerPeriod={given}".encode()))
    assert new.register_interval_ms == used


def test_keys_of_flow_control_reach_their_settings() -> None:
    lines = b"waitTimeMillsInSendQueue=50\nbrokerFastFailureEnable=false\nflushDelayOffsetInterval=2000"
    new = changed(BrokerSettings(), parse_changes(lines))
    assert (new.parked_ms_max, new.fast_failure, new.delay_offsets_save_ms) == (50, False, 2_000)
    assert KEYS["osPageCacheBusyTimeOutMills"].field == "stuck_disk_ms"
    assert KEYS["sendThreadPoolQueueCapacity"].field == "unflushed_sends_max"
    ratio = KEYS["accessMessageInMemoryMaxRatio"]
    assert ratio.show(ratio.parse("40")) == 40 and ratio.field == "store.hot_bytes"


def test_no_key_is_used_and_ignored_at_once() -> None:
    assert set(KEYS).isdisjoint(IGNORED)
