"""The lanes of the compiled core behind real sockets: with TLS, behind a proxy, signed, in a killed broker."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq import Message
from pyromq.aio import Admin, Producer, PullConsumer
from pyromq.broker.broker import Broker
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.net.settings import TlsMode
from pyromq.store.message_store import MessageStore
from pyromq.testing import AsyncServerProcess
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command, decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import decode_record
from tests.crash.script import check_agreement, log_records
from tests.integration.certificates import make_certificate
from tests.integration.guarded import ROOT, guarded_access
from tests.integration.test_broker import settings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}"),
]
PATIENCE_S = 60
QUEUES = 4


def request(code: int, number: int, ext: dict[str, str], body: bytes = b"") -> bytes:
    header = {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": number, "version": 401}
    text = json.dumps(header, separators=(",", ":")).encode()
    return (len(text) + len(body) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def send(number: int, topic: str = "orders") -> bytes:
    ext = {"a": "producers", "b": topic, "c": "TBW102", "d": str(QUEUES), "e": str(number % QUEUES), "f": "0"}
    ext |= {"g": "1700000000123", "h": "0", "i": f"UNIQ_KEY\x01{number:032X}\x02", "j": "0", "k": "false", "m": "false"}
    return request(310, number, ext, b"%d" % number * 50)


def pull(number: int, queue: int, offset: int = 0) -> bytes:
    ext = {"consumerGroup": "readers", "topic": "orders", "queueId": str(queue), "queueOffset": str(offset)}
    ext |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    return request(11, number, ext | {"subscription": "*", "subVersion": "0", "expressionType": "TAG"})


class Raw:
    """A client that sends what it is told to, all at once, and waits for as many responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder()

    async def ask(self, *frames: bytes) -> list[tuple[Command, bytes]]:
        self._writer.write(b"".join(frames))
        found: list[tuple[Command, bytes]] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < len(frames):
                found += await self.some()
        return found

    async def some(self) -> list[tuple[Command, bytes]]:
        """What comes next; raises ConnectionError when nothing comes any more."""
        data = await self._reader.read(1 << 16)
        if not data:
            raise ConnectionError
        return [(decode_command(frame), frame.body) for frame in self._decoder.feed(data)]

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def close(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def client(address: Address, tls: ssl.SSLContext | None = None, before: bytes = b"") -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection(*address)
    raw = Raw(reader, writer)
    try:
        writer.write(before)
        if tls is not None:
            await writer.drain()
            await writer.start_tls(tls, server_hostname="localhost")
        yield raw
    finally:
        await raw.close()


def count(lane: Any) -> list[int]:
    """Requests that the lane takes from now on, on connections that begin from now on."""
    taken, take = [0], lane.take

    def counted(connection: Any, data: Any) -> int:
        before = connection.frames_in
        consumed: int = take(connection, data)
        taken[0] += connection.frames_in - before
        return consumed

    lane.take = counted
    return taken


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "behind a proxy"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["open", "TLS"])
async def test_lanes_take_what_comes_over_tls_and_from_proxies(tmp_path: Path, encrypted: bool, proxied: bool) -> None:
    changes: dict[str, Any] = {"trusted_proxies": ("127.0.0.1",)} if proxied else {}
    context = None
    if encrypted:
        own = make_certificate(tmp_path, "broker")
        changes |= {"tls_mode": TlsMode.ENFORCING, "tls_certificate_file": own.file, "tls_key_file": own.key}
        context = ssl.create_default_context(cafile=own.file)
    before = b"PROXY TCP4 192.0.2.7 127.0.0.1 54321 10911\r\n" if proxied else b""
    async with Broker(settings(**changes), tmp_path / "data") as broker:
        handlers = broker.parts.handlers
        sends, pulls = count(handlers.sends.lane), count(handlers.pulls.lane)
        async with client(broker.address, context, before) as raw:
            for first in range(0, 400, 40):
                found = await raw.ask(*map(send, range(first, first + 40)))
                assert [command.code for command, _ in found] == [0] * 40
            answers = [await raw.ask(pull(1000 + each, each % QUEUES, each)) for each in range(20)]
        assert {answer[0][0].code for answer in answers} == {ResponseCode.SUCCESS}
        assert sends[0] > 300 and pulls[0] >= 10
        record = decode_record(answers[7][0][1])  # of queue 3, from offset 7 on
        assert record.body == b"31" * 50
        assert record.born_host[:4] == bytes((192, 0, 2, 7) if proxied else (127, 0, 0, 1))


async def test_lanes_serve_clients_that_sign(tmp_path: Path) -> None:
    wanted, seen = {b"%d" % number for number in range(1_000)}, set[bytes]()
    async with NameServer(NameServerSettings(port=0)) as names:
        own = settings(nameservers=(str(names.address),), access=guarded_access())
        async with Broker(own, tmp_path / "data") as broker:
            handlers = broker.parts.handlers
            sends, pulls = count(handlers.sends.lane), count(handlers.pulls.lane)
            async with Admin(str(names.address), credentials=ROOT) as admin:
                await admin.topics.create("orders", queues=1)
            async with Producer(str(names.address), group="producers", credentials=ROOT) as producer:
                await asyncio.gather(*(producer.send(Message("orders", body)) for body in wanted))
            async with (
                asyncio.timeout(PATIENCE_S),
                PullConsumer(
                    str(names.address), group="readers", credentials=ROOT, topics="orders", start="earliest"
                ) as consumer,
            ):
                while seen != wanted:
                    seen.update(message.body for message in await consumer.poll())
        assert sends[0] > 0 and pulls[0] > 0


@pytest.mark.parametrize("seed", range(3))
async def test_a_killed_broker_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    rng, told, number = Random(seed), set[int](), 0
    server = AsyncServerProcess("up", "--no-metrics", data=tmp_path)
    for _ in range(2):
        await server.start()
        try:
            wanted = len(told) + rng.randrange(200, 3_000)
            async with client(Address.parse(server.broker)) as raw, asyncio.timeout(PATIENCE_S):
                while len(told) < wanted:
                    raw.write(b"".join(send(each, f"topic-{each % 8}") for each in range(number, number + 64)))
                    number += 64
                    told |= {command.correlation_id for command, _ in await raw.some() if command.code == 0}
        finally:
            await server.kill()
        with MessageStore.open(tmp_path) as store:
            found = {int(decode_properties(record.properties)["UNIQ_KEY"], 16) for record in log_records(store)}
            assert told <= found, f"lost: {sorted(told - found)[:5]}"
            check_agreement(store)
