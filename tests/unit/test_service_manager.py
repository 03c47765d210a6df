"""What systemd hears of a server."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.service_manager import ServiceManager


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        yield manager


async def test_ready_status_and_stopping_are_told(heard: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname()})
    manager.ready("broker=127.0.0.1:10911\nand more")
    assert heard.recv(1000) == b"READY=1\nSTATUS=broker=127.0.0.1:10911 and more"
    manager.status("draining")
    assert heard.recv(1000) == b"STATUS=draining"
    manager.stopping(for_s=2.5)
    assert heard.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=2500000"
    manager.stopping()
    assert heard.recv(1000) == b"STOPPING=1"
    manager.close()
    manager.close()


async def test_signs_of_life_come_from_the_loop_until_it_is_closed(heard: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "3000"})
    heard.setblocking(False)
    loop = asyncio.get_running_loop()
    manager.ready("")
    assert (await loop.sock_recv(heard, 1000)).startswith(b"READY=1")
    for _ in range(3):
        assert await loop.sock_recv(heard, 1000) == b"WATCHDOG=1"
    manager.close()


@pytest.mark.parametrize("limit", ["", "soon", "-1"])
async def test_without_a_limit_there_are_no_signs_of_life(heard: socket.socket, limit: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": limit})
    manager.ready("")
    assert heard.recv(1000).startswith(b"READY=1")
    manager.stopping()
    assert heard.recv(1000) == b"STOPPING=1"


async def test_signs_of_life_of_another_process_are_not_ours(heard: socket.socket) -> None:
    given = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "3000", "WATCHDOG_PID": str(os.getpid() + 1)}
    manager = ServiceManager(given)
    manager.ready("")
    assert heard.recv(1000).startswith(b"READY=1")
    manager.stopping()
    assert heard.recv(1000) == b"STOPPING=1"


async def test_names_that_begin_with_an_at_sign_are_abstract(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0pyromq-test-{os.getpid()}")
        manager.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": f"@pyromq-test-{os.getpid()}"}).status("x")
        assert manager.recv(100) == b"STATUS=x"


async def test_nobody_to_tell_is_no_reason_to_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager({}).ready("alone")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("told")
    assert "service manager not told" in caplog.text
