"""The audit log of a name server: what tools change on it, what it refuses, and where there is none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.aio import Admin
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.errors import ConnectionLostError
from pyromq.nameserver import admin_requests
from pyromq.nameserver.server import LATER_MAX, NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address, open_connection
from pyromq.security.audit import AuditEntry, AuditLog, AuditOutcome, AuditSearch, find_entries
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.received import Received
from tests.conftest import CANARY as CANARY_PART
from tests.integration.guarded import guarded_access, signed

pytestmark = pytest.mark.integration


def settings(folder: Path | None, **more: Any) -> NameServerSettings:
    return NameServerSettings(port=0, kv_path=folder / "kvConfig.json" if folder else None, **more)


async def ask(
    address: Address, code: RequestCode, ext: dict[str, str], body: bytes = b"", user: str = ""
) -> Received[Any]:
    connection = await open_connection(address, clock=SystemClock())
    try:
        fields = signed(ext, body, user) if user else ext
        return await connection.request(code, fields, body, timeout_ms=5_000)
    finally:
        connection.close()


async def entries(address: Address, user: str = "", **wanted: Any) -> list[AuditEntry]:
    body = msgspec.json.encode(AuditSearch(**wanted))
    response = await ask(address, RequestCode.QUERY_AUDIT_LOG, {}, body, user)
    assert response.code == ResponseCode.SUCCESS, response.remark
    return msgspec.json.decode(response.body, type=list[AuditEntry])


async def test_what_tools_change_is_told_with_before_and_after_and_outlives_the_server(tmp_path: Path) -> None:
    key = {"namespace": "rooms", "key": "orders"}
    async with NameServer(settings(tmp_path)) as server:
        await ask(server.address, RequestCode.PUT_KV_CONFIG, {**key, "value": "one"})
        await ask(server.address, RequestCode.PUT_KV_CONFIG, {**key, "value": "two"})
        await ask(server.address, RequestCode.DELETE_KV_CONFIG, key)
        await ask(server.address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
        await ask(server.address, RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"orderMessageEnable=true")
        await ask(server.address, RequestCode.GET_NAMESRV_CONFIG, {})
        config, wiped, deleted, changed, put = await entries(server.address)
    assert put.changes == {"Kv:rooms/orders": (None, "one")} and put.resources == ("Kv:rooms/orders",)
    assert changed.changes == {"Kv:rooms/orders": ("one", "two")}
    assert deleted.changes == {"Kv:rooms/orders": ("two", None)} and deleted.server == "nameserver"
    assert wiped.action == "WIPE_WRITE_PERM_OF_BROKER" and wiped.resources == ("Broker:broker-a",)
    assert config.changes == {"Setting:orderMessageEnable": ("false", "true")}
    assert find_entries(tmp_path / "audit", AuditSearch()) == [config, wiped, deleted, changed, put]


async def test_what_it_refuses_is_told(tmp_path: Path) -> None:
    async with NameServer(settings(tmp_path)) as server:
        response = await ask(server.address, RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"listenPort=1")
        assert response.code == ResponseCode.NO_PERMISSION
        (entry,) = await entries(server.address, outcome="refused")
    assert (
        entry.action == "UPDATE_NAMESRV_CONFIG"
        and entry.outcome is AuditOutcome.REFUSED
        and "listenPort" in entry.reason
    )


async def test_with_access_control_the_log_has_users_and_refusals_and_no_secret(tmp_path: Path) -> None:
    async with NameServer(settings(tmp_path, access=guarded_access())) as server:
        user = b'{"username": "shop", "password": "%s-shop", "userType": "Normal"}' % CANARY_PART.encode()
        made = await ask(server.address, RequestCode.AUTH_CREATE_USER, {"username": "shop"}, user, "root")
        assert made.code == ResponseCode.SUCCESS, made.remark
        refused = await ask(server.address, RequestCode.PUT_KV_CONFIG, {"namespace": "a", "key": "b", "value": "c"})
        assert refused.code == ResponseCode.NO_PERMISSION
        kv, created = await entries(server.address, "root")
        stranger = await ask(server.address, RequestCode.QUERY_AUDIT_LOG, {}, b"{}")
        assert stranger.code == ResponseCode.NO_PERMISSION
    assert (created.action, created.user, created.resources) == ("AUTH_CREATE_USER", "root", ("User:shop",))
    assert created.changes["User:shop"] == (None, {"type": "Normal", "status": "enable"})
    assert (kv.action, kv.outcome, kv.user) == ("PUT_KV_CONFIG", AuditOutcome.REFUSED, "")
    text = b"".join(path.read_bytes() for path in (tmp_path / "audit").iterdir())
    assert CANARY_PART.encode() not in text


async def test_without_a_folder_there_is_no_log() -> None:
    async with NameServer(settings(None)) as server:
        response = await ask(server.address, RequestCode.QUERY_AUDIT_LOG, {}, b"{}")
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "kv_path" in (response.remark or "")


async def test_admin_asks_name_servers_too(tmp_path: Path) -> None:
    async with NameServer(settings(tmp_path / "names")) as server, NameServer(settings(None)) as other:
        names = (str(server.address), str(other.address))
        broker = BrokerSettings(port=0, store=SMALL_FILES, nameservers=names)
        async with Broker(broker, tmp_path / "data"), Admin(";".join(names)) as admin:
            await admin.topics.create("orders", queues=1)
            await ask(server.address, RequestCode.PUT_KV_CONFIG, {"namespace": "a", "key": "b", "value": "c"})
            found = await admin.audit.list()
            assert {entry.server for entry in found} == {"nameserver", "broker-a"}
            assert {entry.server for entry in await admin.audit.list(broker="broker-a")} == {"broker-a"}


class SlowFiles:
    """The files of the log are read as slowly as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = admin_requests.answer_of
        self.reading = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.threads: list[threading.Thread] = []
        monkeypatch.setattr(admin_requests, "answer_of", self.answer_of)

    def answer_of(self, log: AuditLog, body: bytes) -> Callable[[], bytes]:
        answer = self._real(log, body)

        def slowly() -> bytes:
            self.threads.append(threading.current_thread())
            self.reading.release()
            self.may_go_on.wait(30)
            return answer()

        return slowly

    async def are_read(self, times: int = 1) -> None:
        for _ in range(times):
            await asyncio.to_thread(self.reading.acquire, timeout=30)


async def test_whoever_asks_for_the_log_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SlowFiles(monkeypatch)
    async with NameServer(settings(tmp_path)) as server:
        connection = await open_connection(server.address, clock=SystemClock())
        slow = connection.request_nowait(RequestCode.QUERY_AUDIT_LOG, {}, b"{}", timeout_ms=30_000)
        await files.are_read()
        for over in (connection, await open_connection(server.address, clock=SystemClock())):
            quick = await over.request(RequestCode.GET_NAMESRV_CONFIG, {}, timeout_ms=30_000)
            assert quick.code == ResponseCode.SUCCESS and not slow.done()
        files.may_go_on.set()
        assert (await slow).body == b"[]"
    assert threading.main_thread() not in files.threads


async def test_too_many_who_ask_for_the_log_are_told_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SlowFiles(monkeypatch)
    async with NameServer(settings(tmp_path)) as server:
        connection = await open_connection(server.address, clock=SystemClock())
        asked = [
            connection.request_nowait(RequestCode.QUERY_AUDIT_LOG, {}, b"{}", timeout_ms=30_000)
            for _ in range(LATER_MAX + 2)
        ]
        refused = [await each for each in asked[LATER_MAX:]]
        assert {each.code for each in refused} == {ResponseCode.SYSTEM_BUSY}
        files.may_go_on.set()
        assert {(await each).code for each in asked[:LATER_MAX]} == {ResponseCode.SUCCESS}


async def test_a_name_server_that_stops_does_not_wait_for_slow_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SlowFiles(monkeypatch)
    async with NameServer(settings(tmp_path)) as server:
        connection = await open_connection(server.address, clock=SystemClock())
        slow = connection.request_nowait(RequestCode.QUERY_AUDIT_LOG, {}, b"{}", timeout_ms=30_000)
        await files.are_read()
    with pytest.raises(ConnectionLostError):
        await slow
    files.may_go_on.set()


async def test_files_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(log: AuditLog, body: bytes) -> Callable[[], bytes]:
        def job() -> bytes:
            raise OSError("the disk is gone")

        return job

    monkeypatch.setattr(admin_requests, "answer_of", fail)
    async with NameServer(settings(tmp_path)) as server:
        response = await ask(server.address, RequestCode.QUERY_AUDIT_LOG, {}, b"{}")
    assert response.code == ResponseCode.SYSTEM_ERROR and "internal error" in (response.remark or "")
