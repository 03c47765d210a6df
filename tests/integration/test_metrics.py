"""Metrics and health of servers as they are started; the exporter; ``pyromq health``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, Producer, PushConsumer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.broker.lifecycle import Lifecycle
from pyromq.compiled_core import core
from pyromq.endpoint.endpoint import Endpoint, Shelter
from pyromq.errors import ConfigError
from pyromq.exporter.exporter import Exporter, ExporterSettings
from pyromq.metrics.exporter_table import ALSO_EXPORTED, EXPORTER_METRICS
from pyromq.metrics.settings import DEFAULT_PORT, MetricsSettings
from pyromq.operate.admin import Admin
from pyromq.testing import LoopbackBroker, ServerProcess, ServerProcessError, metrics_of
from pyromq.testing.loopback import SMALL_FILES
from release.monitoring.metrics import METRICS
from tests.integration.certificates import make_certificate
from tests.unit.metrics.grammar import read_text

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
START_S = 120


def get(url: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def health(url: str, check: str) -> tuple[int, dict[str, list[str]]]:
    status, body = get(url.replace("/metrics", f"/health/{check}"))
    return status, json.loads(body)


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyromq", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)


# --- servers -------------------------------------------------------------------------------------------------------


def test_up_shows_both_servers_and_health_has_an_exit_code(tmp_path: Path) -> None:
    with ServerProcess("up", data=tmp_path) as server:
        ready = server.addresses
        url = ready["metrics"]
        with Producer(ready["nameserver"], group="shop") as producer:
            producer.send(Message("orders", b"42"))
        found = read_text(get(url)[1])
        assert found["rocketmq_messages_in_total"].value(topic="orders", node_id="broker-a") == 1
        assert found["pyromq_nameserver_brokers"].value(node_type="nameserver") == 1
        assert found["pyromq_build_info"].value(node_id="broker-a", core="pure" if core is None else "core") == 1
        assert found["pyromq_memory_bytes"].value(kind="own") > 0
        assert set(found) <= {metric.text_name for metric in METRICS}
        openly = read_text(get(url, Accept="application/openmetrics-text")[1], is_open=True)
        assert openly["rocketmq_messages_in"].value(topic="orders") == 1
        for check in ("live", "ready", "startup"):
            assert health(url, check)[0] == 200
        where = url.removesuffix("/metrics")
        told = run_cli("health", "--url", where, "-o", "json")
        assert told.returncode == 0 and json.loads(told.stdout)["status"] == "ok"
    gone = run_cli("health", "--url", where)
    assert gone.returncode == 4 and "does not answer" in gone.stderr
    wrong = run_cli("health", "--url", "localhost")
    assert wrong.returncode == 1 and "--url" in wrong.stderr


def test_no_metrics_serves_none(tmp_path: Path) -> None:
    with ServerProcess("up", "--no-metrics") as server:
        assert set(server.addresses) == {"nameserver", "broker", "grpc"}


def test_a_name_server_by_itself_has_its_own() -> None:
    with ServerProcess("nameserver") as server:
        ready = server.addresses
        assert read_text(get(ready["metrics"])[1])["pyromq_nameserver_brokers"].value() == 0
        assert health(ready["metrics"], "ready")[0] == 200


def test_a_port_that_was_asked_for_is_used_or_the_start_fails(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = ("--nameserver-port", "0", "--broker-port", "0", "--metrics-port", port)
        server = ServerProcess("up", *ports, data=tmp_path)
        with pytest.raises(ServerProcessError, match="ended with 1"):
            server.start()
        assert port in server.log and "--metrics-port" in server.log and "--no-metrics" in server.log


async def test_a_default_port_that_is_taken_is_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DEFAULT_PORT == 5557, "RocketMQ's"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("pyromq.endpoint.endpoint.DEFAULT_PORT", port)
        async with Endpoint(MetricsSettings()) as endpoint:
            assert endpoint.url and f":{port}/" not in endpoint.url
    assert f"default metrics port taken, another one picked: taken={port}" in caplog.text


@pytest.mark.parametrize(
    ("settings", "shelter", "works"),
    [
        (MetricsSettings(host="0.0.0.0", port=0), Shelter(), False),
        (MetricsSettings(host="0.0.0.0", port=0), Shelter(insecure_network=True), True),
        (MetricsSettings(host="localhost", port=0), Shelter(), True),
        (MetricsSettings(port=0, tls=True), Shelter(), False),
        (MetricsSettings(host="no such host", port=0), Shelter(insecure_network=True), False),
    ],
)
async def test_strangers_are_kept_out_by_default(settings: MetricsSettings, shelter: Shelter, works: bool) -> None:
    if works:
        async with Endpoint(settings, shelter) as endpoint:
            assert endpoint.url
    else:
        with pytest.raises(ConfigError, match="metrics"):
            async with Endpoint(settings, shelter):
                raise AssertionError("it started")


@pytest.mark.parametrize("text", ["", "short", "\xff" * 20])
def test_a_token_that_is_none_is_told(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="token_file"):
        Endpoint(MetricsSettings(token_file=file))
    with pytest.raises(ConfigError, match="token_file"):
        Endpoint(MetricsSettings(token_file=tmp_path / "nothing"))


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-long-enough-token\n")
    with LoopbackBroker() as broker, metrics_of(broker, MetricsSettings(port=0, token_file=file)) as url:
        assert get(url)[0] == 401
        assert get(url, Authorization="Bearer a-long-enough-token")[0] == 200
        assert health(url, "ready")[0] == 200


def test_over_tls_with_a_token_it_may_listen_beyond_loopback(tmp_path: Path) -> None:
    certificate, token = make_certificate(tmp_path, "server"), tmp_path / "token"
    token.write_text("a-long-enough-token")
    settings = (
        *("--set", "broker.tls_mode=permissive", "--set", f"broker.tls_certificate_file={certificate.file}"),
        *("--set", f"broker.tls_key_file={certificate.key}", "--set", "broker.metrics.tls=true"),
        *("--set", f"broker.metrics.token_file={token}", "--set", "broker.metrics.host=0.0.0.0"),
    )
    with ServerProcess("up", *settings) as server:
        url = server.addresses["metrics"].replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate.file))
        request = urllib.request.Request(url, headers={"Authorization": "Bearer a-long-enough-token"})
        with urllib.request.urlopen(request, timeout=30, context=trusting) as response:
            assert read_text(response.read().decode())["rocketmq_topic_number"].value() > 0
        assert run_cli("health", "--url", url.removesuffix("/metrics")).returncode == 0


# --- transitions ---------------------------------------------------------------------------------------------------


async def ask(url: str, check: str) -> tuple[int, list[str]]:
    status, told = await asyncio.to_thread(health, url, check)
    return status, told["reasons"]


async def test_a_life_as_probes_see_it(tmp_path: Path) -> None:
    broker = Broker(replace(BrokerSettings(port=0), store=SMALL_FILES), tmp_path)
    async with Endpoint(MetricsSettings(port=0)) as endpoint:
        url = endpoint.url
        assert (await ask(url, "startup"))[0] == 503, "nothing is there yet"
        endpoint.add(broker)
        status, reasons = await ask(url, "startup")
        assert status == 503 and "the broker is starting" in reasons[0]
        assert (await ask(url, "live"))[0] == 200
        await broker.start()
        assert (await ask(url, "startup"))[0] == (await ask(url, "ready"))[0] == 200
        # the disk is full, and then it is not
        broker.store.health.disk_full("no space for a test")
        status, reasons = await ask(url, "ready")
        assert status == 503 and "no space for a test" in reasons[0] and len(reasons) == 1
        assert (await ask(url, "live"))[0] == 200
        broker.store.health.space_returned()
        assert (await ask(url, "ready"))[0] == 200
        # flow control
        pressure = broker.parts.write_path.pressure
        pressure.is_stuck = True
        assert "flow control" in broker.health().reasons[0]
        pressure.is_stuck, pressure.is_busy = False, True
        assert broker.health().is_ready and "flow control" in broker.health().findings[0].text
        broker.parts.write_path.gate.update_pressure()
        # not registered
        broker.settings.nameservers = ("127.0.0.1:1",)
        assert "not registered" in broker.health().reasons[0]
        broker.settings.nameservers = ()
        # the end
        stopping = asyncio.ensure_future(broker.stop())
        await asyncio.sleep(0)
        assert broker.state is Lifecycle.STOPPING and "stopping" in broker.health().reasons[0]
        await stopping
        status, reasons = await ask(url, "ready")
        assert status == 503 and "stopped" in reasons[0]


def test_a_recovery_is_told_while_the_loop_is_busy_with_it(tmp_path: Path) -> None:
    """The walk through the log is slowed down; the loop is busy all the time, and probes are answered."""
    code = f"""
import threading, urllib.request, urllib.error, json, pathlib
from pyromq.store import recovery
from pyromq.broker.base.settings import BrokerSettings
from pyromq.metrics.settings import MetricsSettings
from pyromq import standalone
seen = threading.Event()
whole = recovery.Recovery._scan
def slow(self, start, rebuild):
    seen.wait(60)
    return whole(self, start, rebuild)
recovery.Recovery._scan = slow
def watch(url):
    try:
        urllib.request.urlopen(url.replace("/metrics", "/health/startup"))
    except urllib.error.HTTPError as error:
        print("startup", error.code, json.load(error)["reasons"][0], flush=True)
    print("live", urllib.request.urlopen(url.replace("/metrics", "/health/live")).status, flush=True)
    seen.set()
listen = standalone.Endpoint._listen
async def listening(self, server):
    await listen(self, server)
    threading.Thread(target=watch, args=(self.url,)).start()
standalone.Endpoint._listen = listening
standalone.run_broker(BrokerSettings(port=0, metrics=MetricsSettings(port=0)), pathlib.Path({str(tmp_path)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_S)
        process.stdout.close()
    assert re.match(r"startup 503 (the broker is starting|the servers of this process)", lines[0]), lines
    assert lines[1] == "live 200\n" and lines[2].startswith("ready broker=")


# --- the exporter --------------------------------------------------------------------------------------------------


async def exported(admin: Admin, settings: ExporterSettings) -> tuple[Exporter, str]:
    from pyromq.metrics.exposition import whole_text

    exporter = Exporter(admin, settings)
    await exporter.refresh()
    steps = exporter.collect()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return exporter, whole_text(end.value).decode()


def test_the_exporter_shows_a_cluster(tmp_path: Path) -> None:
    with LoopbackBroker(delay_levels_ms=(20,) * 18) as broker:
        got = threading.Event()
        reading: dict[str, Any] = {"group": "books", "topics": "orders", "start": "earliest"}
        with Producer(broker.nameserver, group="shop") as producer:
            for _ in range(10):
                producer.send(Message("orders", b"x"))
            with PushConsumer(broker.nameserver, listener=lambda message: None, **reading) as consumer:
                consumer.run(messages=10, timeout_ms=60_000)
        with (
            PushConsumer(broker.nameserver, listener=lambda message: got.set(), **reading),
            Producer(broker.nameserver, group="shop") as producer,
        ):
            producer.send(Message("orders", b"x"))
            assert got.wait(START_S)

            async def look() -> tuple[Exporter, str]:
                async with Admin(broker.nameserver) as admin:
                    return await exported(admin, ExporterSettings())

            exporter, text = asyncio.run(look())
    found = read_text(text)
    assert set(found) <= {metric.text_name for metric in (*EXPORTER_METRICS, *ALSO_EXPORTED)}
    assert found["pyromq_exporter_broker_up"].value(broker="broker-a") == 1
    ends = found["pyromq_queue_messages_total"].samples.items()
    assert sum(value for (_, labels), value in ends if dict(labels)["topic"] == "orders") == 11
    assert found["rocketmq_group_diff"].value(group="books", topic="orders") >= 0
    assert found["rocketmq_consumer_lag_messages"].value(consumer_group="books", topic="orders") >= 0
    assert found["rocketmq_consumer_connections"].value(consumer_group="books") == 1
    assert found["rocketmq_client_consume_ok_msg_tps"].value(group="books", topic="orders") > 0
    assert exporter.startup().is_done and exporter.health().is_ready and not exporter.errors


async def test_a_broker_that_does_not_answer_does_not_hide_the_others() -> None:
    async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        _, text = await exported(admin, ExporterSettings(with_members=False, with_topics=False))
        assert read_text(text)["pyromq_exporter_broker_up"].value(broker="broker-a") == 1
        cluster = await admin.brokers.cluster()
        await broker.broker.stop()
        admin.requests.nameservers.cluster = lambda: _told(cluster)  # type: ignore[method-assign, assignment, return-value]
        exporter, text = await exported(admin, ExporterSettings(broker_timeout_ms=2_000))
        found = read_text(text)
        assert found["pyromq_exporter_broker_up"].value(broker="broker-a") == 0
        assert set(found) <= {metric.text_name for metric in EXPORTER_METRICS}
        assert exporter.errors == {"runtime": 1, "tables": 1}


async def _told(value: object) -> object:
    return value


async def test_without_name_servers_the_exporter_is_not_ready() -> None:
    with socket.socket() as silent:  # has a port, and does not listen
        silent.bind(("127.0.0.1", 0))
        async with Admin(f"127.0.0.1:{silent.getsockname()[1]}") as admin:
            exporter, text = await exported(admin, ExporterSettings())
        assert not exporter.health().is_ready and "name servers do not answer" in exporter.health().reasons[0]
        assert read_text(text)["pyromq_exporter_errors_total"].value(request="cluster") == 1


def test_the_exporter_is_a_process(tmp_path: Path) -> None:
    with (
        ServerProcess("up", "--no-metrics", data=tmp_path) as servers,
        ServerProcess("exporter", "-n", servers.nameserver, "--port", "0", "--label", "zone:a") as exporter,
    ):
        url = exporter.addresses["metrics"]
        while health(url, "startup")[0] != 200:
            assert exporter.is_running
        found = read_text(get(url)[1])
        assert found["pyromq_exporter_broker_up"].value(zone="a", broker="broker-a") == 1
        assert run_cli("health", "--url", url.removesuffix("/metrics")).returncode == 0
        assert exporter.stop() == 0
