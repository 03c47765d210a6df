"""The wall clock of a running server is set by days and years, both ways: nothing is lost, early or cut off.

Waits are not compared here: libfaketime also stands before the waits of Python's threads, and makes them slow.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyromq import Message, aio
from tests.hostile.rig import LONG, Peer, Victim, beside_honest_client, victim

pytestmark = pytest.mark.integration

TOPIC = "orders"
JUMPS = ("+3650d", "-3650d", "+0") if not LONG else ("+1d", "-1d", "+3650d", "-3650d", "+0") * 5
SHORT_LEVEL, LONG_LEVEL = 1, 5  # a second, a minute


@pytest.fixture
def faketime(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A file that says by how much the clock is off, and the environment of a process that believes it."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("libfaketime is not installed (apt-get install faketime): the clock was not set")
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    yield (
        offset,
        {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # setting a clock does not change it either
            "TZ": "UTC",
        },
    )


async def days_off(server: Victim) -> int:
    """By the clock of the server, as its log shows it: a peer that breaks the protocol is worth a line."""
    async with Peer(server.broker) as peer:
        peer.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await peer.reader.read() == b"", "closed, after the line was written"
    (*_, date) = re.findall(r"(?m)^(\d{4}-\d\d-\d\d).*peer broke the protocol", server.log)
    return (datetime.fromisoformat(date).replace(tzinfo=UTC) - datetime.now(UTC)).days + 1


async def has_jumped(server: Victim, jump: str) -> None:
    """libfaketime looks at its file once a second."""
    for _ in range(100):
        if abs(await days_off(server) - int(jump.rstrip("d"))) <= 1:
            return
        await asyncio.sleep(0.2)
    raise AssertionError("the clock of the server was not set")


async def test_a_clock_that_is_set_takes_and_holds_back_nothing(
    tmp_path: Path, faketime: tuple[Path, dict[str, str]], record_property: Callable[[str, object], None]
) -> None:
    offset, environment = faketime
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

    async with victim(tmp_path / "v", environment=environment) as server:
        name = "the clock is set by ten years, both ways"
        async with (
            beside_honest_client(server, name, len(JUMPS), record_property),
            aio.Producer(server.nameserver, group="senders", timeout_ms=20_000) as producer,
            aio.PushConsumer(server.nameserver, group="readers", listener=listener, topics=TOPIC, start="earliest"),
        ):
            late: set[bytes] = set()
            for number, jump in enumerate(JUMPS):
                before = b"%d before" % number
                await producer.send(Message(TOPIC, before, delay_level=SHORT_LEVEL))
                await producer.send(Message(TOPIC, b"%d late" % number, delay_level=LONG_LEVEL))
                late.add(b"%d late" % number)
                offset.write_text(f"{jump}\n")
                await has_jumped(server, jump)
                sent = {b"%d %d" % (number, each) for each in range(20)}
                for body in sent:
                    await producer.send(Message(TOPIC, body))
                await producer.send(Message(TOPIC, b"%d behind" % number, delay_level=SHORT_LEVEL))
                await have_come(sent | {before, b"%d behind" % number})
                if not LONG:  # which takes longer than a minute
                    assert not late & arrived, "what waits for a minute does not come because the clock was set"
