"""Servers under a service manager: told when they are ready, drained before they stop, logs for collectors."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pyromq import Admin, Message, Producer, aio
from pyromq.testing import AsyncServerProcess, LoopbackBroker

pytestmark = pytest.mark.integration


async def test_a_drained_broker_leaves_routes_first_and_serves_until_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        loop = asyncio.get_running_loop()
        flags, env = ("--set", "broker.drain_ms=600000"), {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        async with AsyncServerProcess("up", *flags, data=tmp_path / "data", env=env) as server:
            assert (await loop.sock_recv(manager, 1000)).startswith(b"READY=1\nSTATUS=nameserver=")
            nameserver = server.nameserver
            async with aio.Producer(nameserver, group="shop") as producer, aio.Admin(nameserver) as admin:
                await producer.send(Message("orders", b"before"))
                server.signal(signal.SIGTERM)
                assert await loop.sock_recv(manager, 1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=660000000"
                assert await loop.sock_recv(manager, 1000) == b"STATUS=draining for 600 s"
                await until_not_writable(admin)
                assert (await admin.topics.route("orders")).readable_queues("orders")
                assert [message.body for message in await admin.messages.newest("orders")] == [b"before"]
            server.signal(signal.SIGTERM)  # the second one ends the drain
            assert await server.wait(60) == 0
            assert await loop.sock_recv(manager, 1000) == b"STOPPING=1"
    assert not (tmp_path / "data" / "abort").exists()


async def until_not_writable(admin: aio.Admin) -> None:
    while any(each.writable for each in (await admin.topics.route("orders")).queue_datas):  # noqa: ASYNC110, nobody tells
        await asyncio.sleep(0.01)


async def test_json_logs_are_an_object_on_each_line(tmp_path: Path) -> None:
    async with AsyncServerProcess("up", "--log", "info", "--log-format", "json") as server:
        await server.stop()
        lines = [json.loads(line) for line in server.log.splitlines()]
    assert {"time", "level", "logger", "event"} <= lines[0].keys()
    assert any("broker stopped" in line["event"] for line in lines)


def test_a_bundle_has_the_facts_and_no_secret(tmp_path: Path) -> None:
    with LoopbackBroker() as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send(Message("orders", b"c4n4ry in a body"))
        with Admin(broker.nameserver) as admin:
            admin.groups.create("billing")
        where = tmp_path / "facts.tar.gz"
        words = ("doctor", "--bundle", str(where), "--nameserver", broker.nameserver)
        done = subprocess.run([sys.executable, "-m", "pyromq", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "look into it before you send it" in done.stdout and where.stat().st_mode & 0o777 == 0o600
    with tarfile.open(where) as archive:
        files = {name.removeprefix("pyromq-bundle/"): _text(archive, name) for name in archive.getnames()}
    assert {"about.json", "cluster.json", "findings.json", "topics.json", "groups.json"} <= files.keys()
    assert {"brokers/broker-a-0/run-time.json", "brokers/broker-a-0/settings.json"} <= files.keys()
    assert "orders" in json.loads(files["topics.json"])["described"]
    assert "billing" in json.loads(files["groups.json"])["described"]
    assert "c4n4ry" not in "".join(files.values())


def _text(archive: tarfile.TarFile, name: str) -> str:
    content = archive.extractfile(name)
    assert content is not None
    return content.read().decode()
