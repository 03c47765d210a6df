"""Servers with the settings of files: RocketMQ's broker.conf, TLS, the PROXY protocol, name servers from a list."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq import aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.errors import ConfigError, ConnectFailedError, MQError, NameServersUnreachableError
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address, TlsMode
from pyromq.net.nameserver_list import fetch_text
from pyromq.settings import ClientSettings, TlsSettings
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from tests.integration.certificates import Certificate, make_certificate

pytestmark = pytest.mark.integration

SMALL_CONF = """
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
brokerIP1 = 127.0.0.1
autoCreateTopicEnable = true
mappedFileSizeCommitLog = 8388608
mappedFileSizeConsumeQueue = 200000
maxHashSlotNum = 1000
maxIndexNum = 4000
diskMaxUsedSpaceRatio = 88
sendMessageThreadPoolNums = 16
"""
SMALL_TOML = """
[broker.store]
segment_bytes = 8_388_608
queue_file_entries = 10_000
index_slots = 10_000
index_entries = 50_000
full_percent = 100
"""


@contextmanager
def pyromq(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server as a process, and the line it prints when it is ready (empty if it never is)."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-m", "pyromq", *words], text=True, **pipes)  # type: ignore[call-overload]
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate(timeout=60)


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pyromq", *words]
    return subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


async def send_one(nameservers: str, tls: TlsSettings | None = None, timeout_ms: int = 30_000) -> None:
    settings = ClientSettings(nameservers=nameservers, tls=tls, request_timeout_ms=timeout_ms)
    async with aio.Producer(client_settings=settings, group="settings") as producer:
        await producer.send(aio.Message("settings", b"x"))


def refused(nameservers: str, tls: TlsSettings | None = None) -> bool:
    try:
        asyncio.run(send_one(nameservers, tls, 2_000))
    except MQError:
        return True
    return False


# --- a file of RocketMQ ---


def test_a_broker_starts_with_a_real_broker_conf(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    store = tmp_path / "store"
    with pyromq("nameserver", "--port", "0") as (_, ready):
        nameserver = ready.partition("nameserver=")[2].split()[0]
        lines = f"namesrvAddr={nameserver}\nlistenPort=0\nstorePathRootDir={store}\n"
        conf.write_text(SMALL_CONF + lines, encoding="utf-8")
        with pyromq("broker", "--config", str(conf)) as (_, ready):
            assert ready.startswith("ready broker=127.0.0.1:")
            asyncio.run(send_one(nameserver))
        assert (store / "commitlog").is_dir()
        conf.write_text(conf.read_text(encoding="utf-8").replace("ASYNC_MASTER", "SLAVE"), encoding="utf-8")
        with pyromq("broker", "--config", str(conf)) as (process, ready):
            assert (process.wait(60), ready) == (1, "")
            assert process.stderr is not None
            assert "a replica needs a broker id above 0" in process.stderr.read()


# --- TLS ---


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "client", "elsewhere.example")


def test_everything_of_up_under_tls_and_nothing_else(tmp_path: Path, ours: Certificate) -> None:
    tls = f"tls_mode = 'enforcing'\ntls_certificate_file = '{ours.file}'\ntls_key_file = '{ours.key}'\nport = 0\n"
    file = tmp_path / "up.toml"
    file.write_text(f"[nameserver]\n{tls}[broker]\n{tls}{SMALL_TOML}", encoding="utf-8")
    with pyromq("up", "--config", str(file), "--data", str(tmp_path / "data")) as (_, ready):
        nameserver = ready.split()[1].partition("=")[2]
        trusting = TlsSettings(ca_file=ours.file)
        asyncio.run(send_one(nameserver, trusting))
        assert refused(nameserver)
        assert refused(nameserver, TlsSettings())
        asyncio.run(send_one(nameserver, TlsSettings(verify=False)))
        assert refused(nameserver, replace(trusting, hostname="elsewhere.example"))
        asyncio.run(send_one(nameserver, replace(trusting, hostname="elsewhere.example", check_hostname=False)))
        sent = command("--tls-ca", str(ours.file), "send", "lines", "one", "-n", nameserver)
        assert sent.returncode == 0, sent.stderr
        listed = command("topic", "ls", PYROMQ_TLS_CA=str(ours.file), NAMESRV_ADDR=nameserver)
        assert "lines" in [json.loads(line)["topic"] for line in listed.stdout.splitlines()]
        assert command("--no-tls", "topic", "ls", PYROMQ_TLS_CA=str(ours.file), NAMESRV_ADDR=nameserver).returncode == 4


async def test_servers_may_ask_clients_for_certificates(tmp_path: Path, ours: Certificate, theirs: Certificate) -> None:
    clients = tmp_path / "clients.pem"
    clients.write_text(theirs.file.read_text() + ours.file.read_text())  # the broker is a client of the name server
    names = NameServerSettings(
        port=0,
        tls_mode=TlsMode.ENFORCING,
        tls_certificate_file=ours.file,
        tls_key_file=ours.key,
        tls_client_ca_file=clients,
    )
    async with NameServer(names) as nameserver:
        settings = BrokerSettings(
            port=0,
            store=SMALL_FILES,
            nameservers=(str(nameserver.address),),
            tls_mode=TlsMode.ENFORCING,
            tls_certificate_file=ours.file,
            tls_key_file=ours.key,
            tls_client_ca_file=clients,
            nameserver_tls=True,
            nameserver_tls_ca_file=ours.file,
        )
        async with Broker(settings, tmp_path / "store"):
            known = TlsSettings(ca_file=ours.file, certificate_file=theirs.file, key_file=theirs.key)
            await send_one(str(nameserver.address), known)
            with pytest.raises(MQError):
                await send_one(str(nameserver.address), TlsSettings(ca_file=ours.file))


async def test_a_broker_with_unusable_certificates_does_not_start(tmp_path: Path, ours: Certificate) -> None:
    settings = BrokerSettings(
        port=0,
        store=SMALL_FILES,
        tls_mode=TlsMode.PERMISSIVE,
        tls_certificate_file=ours.file,
        tls_key_file=tmp_path / "none.pem",
    )
    with pytest.raises(ConfigError, match=r"none\.pem"):
        async with Broker(settings, tmp_path / "store"):
            pass


# --- the PROXY protocol ---


async def test_only_trusted_proxies_say_who_their_clients_are(tmp_path: Path) -> None:
    for trusted, believed in (("127.0.0.0/8",), True), (("192.0.2.0/24",), False), ((), False):
        settings = BrokerSettings(port=0, store=SMALL_FILES, trusted_proxies=trusted)
        async with Broker(settings, tmp_path / f"{len(trusted)}{believed}") as broker:
            reader, writer = await asyncio.open_connection(*broker.address)
            request = encode_request(RequestCode.GET_BROKER_RUNTIME_INFO, 1)
            writer.write(b"PROXY TCP4 198.51.100.7 127.0.0.1 5555 10911\r\n" + request)
            assert bool(await reader.read(4)) is believed, trusted
            remotes = [connection.remote for connection in broker._server.connections]
            assert remotes == ([Address("198.51.100.7", 5555)] if believed else [])
            writer.close()
            await writer.wait_closed()


# --- a list of name servers ---


@asynccontextmanager
async def address_server(*responses: bytes) -> AsyncIterator[str]:
    """Serves answers in turn, the last one for ever; yields the URL."""
    left = list(responses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rocketmq/nsaddr"
    finally:
        server.close()


def ok(text: str) -> bytes:
    return f"HTTP/1.0 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


async def test_brokers_clients_and_commands_ask_an_address_server(tmp_path: Path) -> None:
    async with NameServer(NameServerSettings(port=0)) as names, address_server(ok(f"{names.address}\n")) as url:
        async with Broker(BrokerSettings(port=0, store=SMALL_FILES, nameservers=(url,)), tmp_path):
            await send_one(url)
            listed = await asyncio.to_thread(command, "topic", "ls", "-n", url)
            assert "settings" in [json.loads(line)["topic"] for line in listed.stdout.splitlines()], listed.stderr


async def test_a_client_outlives_an_address_server_that_begins_late(tmp_path: Path) -> None:
    broken = b"HTTP/1.0 503 Service Unavailable\r\n\r\n"
    async with NameServer(NameServerSettings(port=0)) as names:
        settings = BrokerSettings(port=0, store=SMALL_FILES, nameservers=(str(names.address),))
        async with Broker(settings, tmp_path), address_server(broken, broken, ok(str(names.address))) as url:
            async with aio.Admin(client_settings=ClientSettings(nameservers=url)) as admin:
                errors: list[str] = []
                for _ in range(3):
                    try:
                        assert await admin.topics.names()
                        break
                    except NameServersUnreachableError as error:
                        errors.append(str(error))
                assert 0 < len(errors) < 3 and f"{url} answered with HTTP status 503" in errors[0]


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "answered with HTTP status 404"),
        (b"HTTP/1.0 204 No Content\r\n\r\n", "answered with HTTP status 204"),
        (b"not HTTP at all\r\n\r\n", "request to address server .* failed"),
        (b"", "request to address server .* failed"),
    ],
)
async def test_a_response_that_is_no_list_is_told(response: bytes, told: str) -> None:
    async with address_server(response) as url:
        with pytest.raises(ConnectFailedError, match=told):
            await fetch_text(url)


async def test_an_address_server_that_does_not_answer_or_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(ConnectFailedError, match=r"did not answer within 50 ms|timed out"):
            await fetch_text(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout_ms=50)
    with pytest.raises(ConnectFailedError, match=r"request to address server .* failed"):
        await fetch_text("http://127.0.0.1:1/", timeout_ms=5_000)
