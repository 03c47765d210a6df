"""``pyromq.testing.ServerProcess``: real servers that tests start, kill, pause and start again."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from pyromq import Message, Producer, aio
from pyromq.testing import AsyncServerProcess, ServerProcess, ServerProcessError, free_port

pytestmark = pytest.mark.integration


def test_a_killed_server_comes_back_at_the_same_addresses_with_its_data() -> None:
    with ServerProcess("up", "--no-metrics") as server:
        before = (server.nameserver, server.broker)
        with Producer(server.nameserver, group="shop") as producer:
            receipt = producer.send(Message("orders", b"1"))
        server.kill()
        assert (server.is_running, server.exit_code) == (False, -9)
        server.start()
        assert (server.nameserver, server.broker) == before
        with Producer(server.nameserver, group="shop") as producer:
            again = [producer.send(Message("orders", b"2")) for _ in range(len("all the queues"))]
        assert receipt.offset + 1 in [each.offset for each in again if each.queue == receipt.queue]
        assert server.stop() == 0
        folder = server._folder
    assert not folder.exists(), "what it wrote by itself is gone"


def test_a_paused_server_is_silent_and_goes_on() -> None:
    with ServerProcess("nameserver") as server:
        host, port = server.nameserver.split(":")
        server.pause()
        assert server.is_running
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.settimeout(0.2)
            connection.sendall(b"\0\0\0\xffno frame")
            with pytest.raises(TimeoutError):
                connection.recv(1)
        server.resume()
        server.restart()
        assert server.is_running


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerProcessError, match=r"(?s)ended with 1 before it was ready.*No such option '--nosuch'"):
        ServerProcess("up", "--nosuch").start()


def test_a_port_that_was_lost_is_replaced_at_the_first_start_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr("pyromq.testing.server_process.free_port", lambda **_: next(ports))
        with ServerProcess("nameserver") as server:
            assert server.nameserver != f"127.0.0.1:{taken.getsockname()[1]}"


def test_an_error_in_the_block_carries_what_the_server_said() -> None:
    with pytest.raises(ValueError, match="mine") as raised, ServerProcess("nameserver"):
        raise ValueError("mine")
    assert any("ready nameserver=" in note for note in raised.value.__notes__)


def test_a_server_that_was_not_started_and_one_that_runs_are_told_apart(tmp_path: Path) -> None:
    server = ServerProcess("up", data=tmp_path)
    with pytest.raises(ServerProcessError, match=r"call start\(\)"):
        server.pause()
    with server, pytest.raises(ServerProcessError, match=r"stop\(\) or kill\(\)"):
        server.start()


async def test_coroutines_go_on_while_a_server_starts(tmp_path: Path) -> None:
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0)
            steps += 1

    counting = asyncio.create_task(count())
    async with AsyncServerProcess("up", data=tmp_path) as server:
        counting.cancel()
        assert steps > 10
        async with aio.Producer(server.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"1"))
        assert (await server.wait_for(r"ready nameserver=(\S+)"))[1] == server.nameserver
        with pytest.raises(ServerProcessError, match="said nothing like"):
            await server.wait_for("never said", timeout_s=0.05)
        await server.restart()
        assert await server.stop() == 0
    assert (tmp_path / "commitlog").is_dir()
