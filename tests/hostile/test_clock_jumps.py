"""The wall clock of a running server is set by days and years, both ways: nothing is lost, early or cut off."""

from __future__ import annotations

import asyncio
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyromq import Message, aio
from tests.hostile.rig import LONG, Peer, Victim, beside_honest_client, victim

pytestmark = pytest.mark.integration

TOPIC = "orders"
JUMPS = (3650, -3650, 0) if not LONG else (1, -1, 3650, -3650, 0) * 5  # days
SHORT_LEVEL, LONG_LEVEL = 1, 5  # a second, a minute


class SetClock:
    """A library that goes before the C library of a process, and the file that tells it how far the clock is off."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler (apt-get install gcc): the clock of a server was not set")
        library, source = folder / "set_clock.so", Path(__file__).with_name("set_clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
        self._offset = folder / "offset"
        self._offset.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self._offset), "TZ": "UTC"}

    def set(self, days: int) -> None:
        with self._offset.open("r+b") as file:  # the same file: it is mapped
            file.write(struct.pack("=q", days * 86_400))


async def days_off(server: Victim) -> int:
    """By the clock of the server, as its log shows it: a peer that breaks the protocol is worth a line."""
    async with Peer(server.broker) as peer:
        peer.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await peer.reader.read() == b"", "closed, after the line was written"
    (*_, date) = re.findall(r"(?m)^(\d{4}-\d\d-\d\d).*peer broke the protocol", server.log)
    return (datetime.fromisoformat(date).replace(tzinfo=UTC) - datetime.now(UTC)).days + 1


async def test_a_clock_that_is_set_takes_and_holds_back_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    clock = SetClock(tmp_path)
    arrived: set[bytes] = set()
    is_new = asyncio.Event()

    async def listener(message: aio.ReceivedMessage) -> None:
        arrived.add(message.body)
        is_new.set()

    async def have_come(expected: set[bytes]) -> None:
        async with asyncio.timeout(30):
            while not expected <= arrived:
                is_new.clear()
                await is_new.wait()

    async with victim(tmp_path / "v", environment=clock.environment) as server:
        name = "the clock is set by ten years, both ways"
        async with (
            beside_honest_client(server, name, len(JUMPS), record_property),
            aio.Producer(server.nameserver, group="senders") as producer,
            aio.PushConsumer(server.nameserver, group="readers", listener=listener, topics=TOPIC, start="earliest"),
        ):
            late: set[bytes] = set()
            for number, jump in enumerate(JUMPS):
                before = b"%d before" % number
                await producer.send(Message(TOPIC, before, delay_level=SHORT_LEVEL))
                await producer.send(Message(TOPIC, b"%d late" % number, delay_level=LONG_LEVEL))
                late.add(b"%d late" % number)
                clock.set(jump)
                assert abs(await days_off(server) - jump) <= 1
                sent = {b"%d %d" % (number, each) for each in range(20)}
                for body in sent:
                    await producer.send(Message(TOPIC, body))
                await producer.send(Message(TOPIC, b"%d behind" % number, delay_level=SHORT_LEVEL))
                await have_come(sent | {before, b"%d behind" % number})
                if not LONG:  # which takes longer than a minute
                    assert not late & arrived, "what waits for a minute does not come because the clock was set"
