"""docs/how-to/grow.md with PyroMQ at both ends: its commands, as they stand there but for ports, and live clients.

``interop/tests/test_grow.py`` does the same with Apache's brokers.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.aio import Admin, Message, MQError, Producer, PushConsumer
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.settings import ClientSettings, ProducerSettings
from pyromq.testing import AsyncServerProcess
from tests.integration.broker_process import SMALL
from tests.integration.ledger import Ledger
from tests.integration.ledger_rig import GROUP, TOPIC, Clerk
from tests.integration.ledger_worker import SETTINGS
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "grow.md"
LADDER = "store.delay_ladder_ms"
ADDRESS = re.compile(r"127\.0\.0\.1:(9876|10911|10931|10951)\b")


def commands(heading: str) -> list[str]:
    """The lines of the shell blocks of a part of the page; of its beginning, where there is no heading."""
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition(f"\n## {heading}\n")[2] if heading else text
    blocks = re.findall(r"```sh\n(.*?)```", part.partition("\n## ")[0], re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


class Server(AsyncServerProcess):
    """A server of the page as a process; ``says`` waits for a line."""

    async def says(self, beginning: str) -> str:
        return (await self.wait_for(rf"^{beginning}.*$"))[0]


class Reader:
    """Types what the page says, in a folder of its own; where a server of the page listens is known from its start."""

    def __init__(self, folder: Path, nameserver: str) -> None:
        self.folder = folder
        self.addresses = {"9876": nameserver}
        self.started: list[Server] = []

    def _here(self, command: str) -> str:
        return ADDRESS.sub(lambda found: self.addresses[found[1]], command)

    async def start(self, command: str, *more: str) -> Server:
        words = shlex.split(self._here(command))[1:]
        port = words.index("--port")
        known = words[port + 1]
        del words[port : port + 2]
        environment = {"PYROMQ_NAMESERVER": self.addresses["9876"]}
        server = Server(*words, *more, cwd=self.folder, env=environment)
        self.started.append(server)
        await server.start()
        self.addresses[known] = server.broker
        return server

    async def types(self, command: str) -> str:
        tool = f'pyromq() {{ {sys.executable} -m pyromq "$@"; }}; '
        process = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", tool + self._here(command)),
            env={**os.environ, "PYROMQ_NAMESERVER": self.addresses["9876"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0, f"{command}\n{said.decode()}"
        return said.decode()

    async def number(self, command: str) -> int:
        """Of a command that shows one line."""
        (found,) = re.findall(r":\s*(\d+)\s*$", await self.types(command), re.MULTILINE)
        return int(found)

    async def closes(self, steps: list[str]) -> int:
        """Steps 2 and 3: the broker takes no more messages, and the copy has all that it took, up to here."""
        for step in steps:
            if "updateBrokerConfig" in step:
                await self.types(step)
        end = await self.number(next(step for step in commands("To Apache's broker") if "commitLogMaxOffset" in step))
        shown = next(step for step in steps if "replicationMetadataLogEnd" in step)
        async with asyncio.timeout(PATIENCE_S):
            while await self.number(shown) < end:  # noqa: ASYNC110, another process is asked
                await asyncio.sleep(0.2)
        return end


def small() -> list[str]:
    """Settings that only the test needs: the log has many files, delays come to pass."""
    settings = SMALL | {LADDER: ";".join(["50"] * 18), "metrics.enabled": "false"}
    return [word for name, value in settings.items() for word in ("--set", f"broker.{name}={value}")]


class Senders:
    """One message after the other, some of them delayed; one that is refused is sent again, anew."""

    def __init__(self, nameserver: str, ledger: Ledger) -> None:
        settings = ProducerSettings(attempt_timeout_ms=2_000, compress_from_bytes=1 << 20)
        client = ClientSettings(nameservers=nameserver, route_poll_ms=300)
        self._producer = Producer(group="senders", settings=settings, client_settings=client, timeout_ms=2_000)
        self._ledger = ledger
        self._stopped = False
        self.places: set[tuple[int, int]] = set()  # queues and offsets of messages that did not wait
        self.refused = 0

    async def run(self) -> None:
        async with self._producer:
            await asyncio.gather(*(self._send_on(number) for number in range(4)))

    def stop(self) -> None:
        self._stopped = True

    async def _send_on(self, sender: int) -> None:
        number = 0
        while not self._stopped:
            number += 1
            wait_ms = 500 if number % 10 == 7 else 0
            message = Message(
                TOPIC, b"%d-%d" % (sender, number) + b"x" * 500, delay_level=int(number % 10 == 3), delay_ms=wait_ms
            )
            try:
                receipt = await self._producer.send(message)
            except MQError:
                self.refused += 1
                await asyncio.sleep(0.05)
                continue
            self._ledger.acknowledged.add(receipt.message_id)
            if number % 10 not in (3, 7):
                place = receipt.queue.number, receipt.offset
                assert place not in self.places, "an offset was given twice"
                self.places.add(place)
            await asyncio.sleep(0.005)

    async def flow(self) -> None:
        """Until some more messages have got through."""
        wanted = len(self._ledger.acknowledged) + 60
        await until(lambda: len(self._ledger.acknowledged) >= wanted, "messages get through")


@asynccontextmanager
async def traffic(nameserver: str, ledger: Ledger) -> AsyncIterator[Senders]:
    senders = Senders(nameserver, ledger)
    client = ClientSettings(nameservers=nameserver, route_poll_ms=300, heartbeat_ms=300)
    consumer = PushConsumer(
        listener=Clerk(ledger).consume, settings=SETTINGS, client_settings=client, group=GROUP, topics=[TOPIC]
    )
    async with consumer:
        sending = asyncio.create_task(senders.run())
        try:
            yield senders
        finally:
            senders.stop()
            await sending


def log_in(folder: Path, end: int) -> bytes:
    files = sorted(file for file in (folder / "commitlog").iterdir() if file.name.isdigit())
    assert len(files) > 1, "more than the last file has moved"
    return b"".join(file.read_bytes() for file in files)[:end]


async def test_a_live_broker_moves_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    _, first_broker = commands("")
    follow, *steps = commands("To Apache's broker")
    follow_back, *steps_back, own_broker = commands("And back")
    async with NameServer(NameServerSettings(port=0)) as names:
        nameserver = str(names.address)
        reader, ledger = Reader(tmp_path, nameserver), Ledger(nameserver, TOPIC, GROUP)
        try:
            broker = await reader.start(first_broker, *small())
            async with Admin(nameserver) as admin:
                await admin.topics.create(TOPIC, queues=4)
            async with traffic(nameserver, ledger) as senders:
                await senders.flow()
                copy = await reader.start(follow)
                await copy.says("caught up")
                await senders.flow()
                end = await reader.closes(steps)
                assert await broker.stop() == 0
                assert await copy.stop() == 0
                assert log_in(tmp_path / "shop", end) == log_in(tmp_path / "store", end)
                broker = await reader.start(own_broker.replace("--data back", "--data store"), *small())
                await senders.flow()

                copy = await reader.start(follow_back)
                await copy.says("caught up")
                await senders.flow()
                await reader.closes(steps_back)
                assert await broker.stop() == 0
                await copy.says("master broker=")
                await senders.flow()

                assert await copy.stop() == 0
                await reader.start(own_broker, *small())
                await senders.flow()
                senders.stop()
                account = await ledger.settled()
            assert not account.lost, str(account)
            assert account.is_settled, str(account)
        finally:
            for server in reader.started:
                await server.kill()


async def test_a_broker_that_hands_over_takes_no_message_though_producers_know_it(tmp_path: Path) -> None:
    close = [step for step in commands("To Apache's broker") if "updateBrokerConfig" in step]
    _, first_broker = commands("")
    async with NameServer(NameServerSettings(port=0)) as names:
        reader = Reader(tmp_path, str(names.address))
        try:
            await reader.start(first_broker, *small())
            async with Producer(str(names.address), group="senders", timeout_ms=2_000) as producer:
                await producer.send(Message(TOPIC, b"before"))
                shown = next(step for step in commands("To Apache's broker") if "commitLogMaxOffset" in step)
                end = await reader.number(shown)
                for step in close:
                    await reader.types(step)
                for refused in (Message(TOPIC, b"one"), Message(TOPIC, b"later", delay_level=1)):
                    with pytest.raises(MQError, match=r"unable to service|writ|route"):
                        await producer.send(refused)
                with pytest.raises(MQError):
                    await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(3)])
                assert await reader.number(shown) == end
                await reader.types(close[1].replace("4102444800000", "0"))
                await reader.types(close[0].replace("-v 4", "-v 6"))
                await until_sent(producer)
        finally:
            for server in reader.started:
                await server.kill()


async def until_sent(producer: Producer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await producer.send(Message(TOPIC, b"after"))
                return
            except MQError:
                await asyncio.sleep(0.05)
