"""Settings of servers from files, the environment and flags."""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.base.config_keys import BROKER_CONF
from pyromq.broker.base.settings import BrokerSettings, GrpcSettings
from pyromq.cli.main import main
from pyromq.cli.servers.settings import BROKER, NAMESERVER, ServerSettings, for_broker, for_nameserver, for_up
from pyromq.errors import ConfigError
from pyromq.metrics.settings import MetricsSettings
from pyromq.model.delay_levels import DELAY_LADDER, parse_ladder
from pyromq.nameserver.config_keys import NAMESRV_CONF
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import TlsMode
from pyromq.replication.settings import ReplicationSettings
from pyromq.security.audit import AuditSettings
from pyromq.security.settings import AccessSettings
from pyromq.store.settings import Flush, StoreSettings

REAL_CONF = """\
# as Apache RocketMQ ships it, and as people write it
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
listenPort=10921
storePathRootDir=/data/rocketmq/store
storePathCommitLog=/data/rocketmq/store/commitlog
brokerIP1=10.0.0.7
autoCreateTopicEnable=false
defaultTopicQueueNums=4
mappedFileSizeCommitLog=1073741824
mappedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=88
maxMessageSize=65536
sendMessageThreadPoolNums=128
transientStorePoolEnable=false
aclEnable=false
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYROMQ_NAMESERVER", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def broker_with(*files: Path, assignments: tuple[str, ...] = (), **flags: Any) -> ServerSettings:
    named = {name: (f"--{name}", value) for name, value in flags.items()}
    return for_broker(files, {"broker": named}, assignments)


def sources(settings: ServerSettings) -> dict[str, tuple[Any, str, str]]:
    return {str(row["setting"]): (row["value"], str(row["source"]), str(row["from"])) for row in settings.rows()}


# --- which source wins ---


def test_without_any_source_there_are_the_defaults() -> None:
    assert broker_with().broker() == BrokerSettings(nameservers=("127.0.0.1:9876",))
    assert for_nameserver([], {}, []).nameserver() == NameServerSettings()
    assert for_up([], {}, []).broker() == BrokerSettings()


def test_flags_win_over_the_environment_and_that_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = '[broker]\nport = 1\nname = "from-file"\nregion = "r"\n[broker.store]\nflush = "async"\n'
    file = written(tmp_path, "one.toml", f"{own}[nameserver]\nport = 9\n")
    later = written(tmp_path, "two.toml", '[broker]\nregion = "s"\n')
    monkeypatch.setenv("PYROMQ_BROKER_PORT", "2")
    monkeypatch.setenv("PYROMQ_BROKER_NAME", "from-environment")
    monkeypatch.setenv("PYROMQ_BROKER_STORE_DELETE_HOURS", "1;13")
    settings = broker_with(file, later, assignments=("broker.store.keep_ms=5", "broker.port=4"), port=3)
    broker = settings.broker()
    assert (broker.port, broker.name, broker.region) == (4, "from-environment", "s")
    assert (broker.store.flush, broker.store.delete_hours, broker.store.keep_ms) == (Flush.ASYNC, (1, 13), 5)
    told = sources(settings)
    assert told["broker.port"] == (4, "flag", "--set")
    assert told["broker.name"] == ("from-environment", "environment", "PYROMQ_BROKER_NAME")
    assert told["broker.region"] == ("s", "file", f"{later}, line 2")
    assert told["broker.store.flush"] == ("async", "file", f"{file}, line 6")
    assert told["broker.cluster"] == ("DefaultCluster", "default", "")
    assert for_nameserver([file], {}, []).nameserver().port == 9, "one file may serve all commands"


INNER = {"store", "access", "audit", "grpc", "metrics", "replication"}


def test_every_setting_can_be_given_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for schema in (BROKER, NAMESERVER):
        variables = {schema.variable(name) for name in schema.settings}
        assert len(variables) == len(schema.settings), "two settings share a variable"
    own = {each.name for each in fields(BrokerSettings)} - INNER
    inner = [*(f"store.{each.name}" for each in fields(StoreSettings))]
    inner += [f"access.{each.name}" for each in fields(AccessSettings)]
    inner += [f"audit.{each.name}" for each in fields(AuditSettings)]
    inner += [f"metrics.{each.name}" for each in fields(MetricsSettings)]
    inner += [f"grpc.{each.name}" for each in fields(GrpcSettings)]
    inner += [f"replication.{each.name}" for each in fields(ReplicationSettings)]
    assert set(BROKER.settings) == {"data", *own, *inner}
    monkeypatch.setenv("PYROMQ_NAMESERVER_LIMITS_BROKERS_MAX", "7")
    monkeypatch.setenv("PYROMQ_NAMESERVER_TLS_MODE", "permissive")
    file = written(tmp_path, "s.toml", f"[nameserver]\ntls_certificate_file = '{tmp_path}/cert.pem'\n")
    settings = for_nameserver([file], {}, ["nameserver.limits.kv_bytes_max=9"]).nameserver()
    assert (settings.limits.brokers_max, settings.limits.kv_bytes_max) == (7, 9)
    assert (settings.tls_mode, settings.tls_certificate_file) == (TlsMode.PERMISSIVE, tmp_path / "cert.pem")


def test_a_broker_that_was_told_no_name_server_uses_those_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert broker_with().broker().nameservers == ("a:1", "b:2")
    assert sources(broker_with())["broker.nameservers"] == (["a:1", "b:2"], "environment", "NAMESRV_ADDR")
    assert broker_with(nameservers=("c:3",)).broker().nameservers == ("c:3",)
    assert for_up([], {}, []).broker().nameservers == (), "up has its own, and stays to itself"
    monkeypatch.setenv("PYROMQ_BROKER_NAMESERVERS", "d:4")
    assert broker_with().broker().nameservers == ("d:4",)


def test_up_keeps_everything_in_its_folder_unless_told_otherwise(tmp_path: Path) -> None:
    flags = {"broker": {"data": ("--data", tmp_path)}}
    assert for_up([], flags, []).nameserver().kv_path == tmp_path / "namesrv" / "kvConfig.json"
    given = for_up([], flags, ["nameserver.kv_path=/k.json"])
    assert (given.nameserver().kv_path, given.data()) == (Path("/k.json"), tmp_path)


# --- what is wrong is told ---


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[broker\n", r"b\.toml: .*line 1"),
        ("[broker]\nprot = 1\n", r"b\.toml, line 2: broker\.prot is not a setting; did you mean port\?"),
        ("[broker]\nflsh = 1\n", r"did you mean store\.flush\?"),
        (
            "[broker.store]\nflush = 'never'\n",
            r"line 2: broker\.store\.flush: expected one of sync, async, got 'never'",
        ),
        ("[broker]\nport = '1'\n", r"line 2: broker\.port: expected a whole number, got '1'"),
        ("[broker]\nheld_pulls_max = -1\n", "expected a number that is not negative, got -1"),
        ("[broker]\nport = true\n", "expected a whole number, got True"),
        ("[broker]\nlong_polling = 1\n", "expected true or false, got 1"),
        ("[broker]\nnameservers = 'a:1'\n", "expected a list, each text, got 'a:1'"),
        ("[broker]\nstore = 1\n", "broker.store is not a setting"),
        ("[broker]\ntls_key_file = 5\n", "expected a path, got 5"),
        ("port = 1\n", r"'port' is not a table of settings; there are \[broker\] and \[nameserver\]"),
        ("[brokr]\n", "'brokr' is not a table"),
        ("[nameserver]\nprt = 1\n", r"nameserver\.prt is not a setting; did you mean port\?"),
        ("[broker]\nport = 70000\n", r"outside \[0, 65535\] \(broker\.port: .*b\.toml, line 2\)"),
        ("[broker]\nname = 'a b'\n", r"'a b' is not allowed.* \(broker\.name: .*b\.toml, line 2\)"),
        ("[broker]\nnameservers = ['nowhere']\n", "'nowhere' is not an address"),
        ("[broker]\ntrusted_proxies = ['10.0.0.0/99']\n", "'10.0.0.0/99' is not an address or network"),
        ("[broker]\ntls_mode = 'enforcing'\n", "needs tls_certificate_file"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        broker_with(written(tmp_path, "b.toml", text)).broker()


@pytest.mark.parametrize("content", [b"\xff", b"#" * (1 << 20) + b"#"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.toml"
    with pytest.raises(ConfigError, match=r"b\.toml cannot be read: No such file"):
        broker_with(path)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"b\.toml (is not UTF-8|has 1048577 bytes)"):
        broker_with(path)


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("port=1", r"expected NAME=VALUE, such as broker\.port=0"),
        ("broker.port", r"expected NAME=VALUE, such as broker\.port=0"),
        ("broker.prt=1", r"did you mean port\?"),
        ("broker.port=x", r"--set broker\.port: expected a whole number, got 'x'"),
    ],
)
def test_a_mistake_in_a_flag_is_told(assignment: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        broker_with(assignments=(assignment,))


def test_a_mistake_in_the_environment_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYROMQ_BROKER_PROT", "1")
    broker_with()
    assert "PYROMQ_BROKER_PROT is not a setting; did you mean PYROMQ_BROKER_PORT?" in caplog.text
    monkeypatch.setenv("PYROMQ_BROKER_PORT", "tcp://10.0.0.1:10911")
    with pytest.raises(ConfigError, match=r"PYROMQ_BROKER_PORT: expected a whole number.*enableServiceLinks"):
        broker_with()


# --- RocketMQ's files ---


def test_a_real_broker_conf_is_understood(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        settings = broker_with(written(tmp_path, "broker.conf", REAL_CONF))
    broker, store = settings.broker(), settings.broker().store
    assert (broker.cluster, broker.name, broker.broker_id) == ("DefaultCluster", "broker-b", 0)
    assert (broker.host, broker.advertised_host, broker.port) == ("0.0.0.0", "10.0.0.7", 10921)
    assert broker.nameservers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (broker.auto_create_topics, broker.default_topic_queues) == (False, 4)
    assert (store.flush, store.delete_hours, store.keep_ms) == (Flush.ASYNC, (4,), 48 * 3_600_000)
    assert (store.segment_bytes, store.queue_file_entries, store.body_bytes_max) == (1 << 30, 15_000, 65_536)
    assert store.clean_percent == store.force_clean_percent == 85, "from there on files go anyway"
    assert settings.data() == Path("/data/rocketmq/store")
    assert "keys=sendMessageThreadPoolNums, transientStorePoolEnable" in caplog.text
    assert sources(settings)["broker.port"][2].endswith("broker.conf, line 10: listenPort")


def test_who_names_no_address_for_others_is_not_opened_to_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for text, host in (
        ("brokerName=a", "127.0.0.1"),
        ("brokerIP1=127.0.0.1", "127.0.0.1"),
        ("brokerIP1=localhost", "127.0.0.1"),
        ("brokerIP1=mq.example", "0.0.0.0"),
        ("brokerIP1=fd00::1", "::"),
        ("brokerIP1=10.0.0.7\nbindAddress=127.0.0.1", "127.0.0.1"),
    ):
        caplog.clear()
        assert broker_with(written(tmp_path, "broker.conf", text)).broker().host == host
        assert ("bindAddress=0.0.0.0 would let other machines connect" in caplog.text) == (text == "brokerName=a")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("brokerRole=SLAVE", "a replica needs a broker id above 0"),
        ("brokerRole=SYNC_MASTER\nbrokerId=1", "a master has broker id 0, not 1"),
        ("brokerRole=FOLLOWER", "'FOLLOWER' is none of ASYNC_MASTER, SYNC_MASTER, SLAVE, ALONE"),
        ("authorizationEnabled=true", "authorization without authentication"),
        ("initAuthenticationUser=canary", "is not JSON of the form"),
        ("enableDLegerCommitLog=true", "replication"),
        ("storeType=defaultRocksDB", "RocksDB"),
        ("fetchNamesrvAddrByAddressServer=true", "namesrvAddr=http"),
        ("brokerNmae=a", r"line 2: brokerNmae is not a setting; did you mean brokerName\?"),
        ("listenPort=ten", r"line 2: listenPort: 'ten' is not a whole number"),
        ("flushDiskType=NEVER", "neither SYNC_FLUSH nor ASYNC_FLUSH"),
        ("storePathCommitLog=/elsewhere", "storePathCommitLog: it is always commitlog in storePathRootDir"),
        ("listenPort=70000", r"outside \[0, 65535\] \(broker\.port: .*line 2: listenPort\)"),
    ],
)
def test_what_a_broker_conf_cannot_have_is_told(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        broker_with(written(tmp_path, "broker.conf", f"brokerName=a\n{line}\n")).broker()


def test_a_namesrv_conf_is_understood_by_the_name_server_and_by_up(tmp_path: Path) -> None:
    text = "listenPort=19876\nkvConfigPath=/k.json\nscanNotActiveBrokerInterval=7000\nserverWorkerThreads=8\n"
    names, broker = written(tmp_path, "namesrv.conf", text), written(tmp_path, "broker.properties", "listenPort=3")
    settings = for_nameserver([names], {}, []).nameserver()
    assert (settings.port, settings.kv_path, settings.scan_interval_ms) == (19876, Path("/k.json"), 7_000)
    both = for_up([names, broker], {}, [])
    assert (both.nameserver().port, both.broker().port) == (19876, 3)
    with pytest.raises(ConfigError, match="no controller"):
        for_nameserver([written(tmp_path, "n.conf", "enableControllerInNamesrv=true")], {}, [])


@pytest.mark.parametrize(("table", "settings"), [(BROKER_CONF, BrokerSettings()), (NAMESRV_CONF, NameServerSettings())])
def test_every_key_says_of_the_defaults_what_it_can_read(table: Any, settings: Any) -> None:
    for name, key in table.keys.items():
        text = key.text_of(settings)
        value = settings
        for part in key.field.split("."):
            value = getattr(value, part)
        if name == "accessMessageInMemoryMaxRatio":  # percent of this machine's memory: only near
            assert str(key.show(key.parse(text))) == text
        else:
            assert key.parse(text) == value, name
    assert BROKER_CONF.keys["messageDelayLevel"].text_of(BrokerSettings()) == DELAY_LADDER
    quick = BrokerSettings(store=StoreSettings(delay_ladder_ms=(50, 1_500, 2_000)))
    assert BROKER_CONF.keys["messageDelayLevel"].text_of(quick) == "50ms 1500ms 2s"
    assert parse_ladder("50ms 1500ms 2s") == (50, 1_500, 2_000)


# --- as a user sees it ---


def test_the_effective_settings_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, "b.toml", "[broker]\nport = 5\n")
    assert main(["broker", "-c", str(file), "--flush", "async", "--print-config", "-o", "json"]) == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["broker.port"] == {"setting": "broker.port", "value": 5, "source": "file", "from": f"{file}, line 2"}
    assert (rows["broker.store.flush"]["value"], rows["broker.store.flush"]["from"]) == ("async", "--flush")
    assert rows["broker.store.delete_hours"]["value"] == [4]
    assert main(["up", "--data", "d", "--print-config", "-o", "table"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["nameserver.kv_path", "d/namesrv/kvConfig.json", "flag", "--data"] in lines
    assert ["broker.long_polling", "true", "default"] in lines
    assert main(["nameserver", "--set", "nameserver.port=x"]) == 1
    assert "expected a whole number, got 'x'" in capsys.readouterr().err
