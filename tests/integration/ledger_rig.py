"""What tests with a ledger share: a broker with short delays, messages for it, and listeners that fail with some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.net import Backoff
from pyromq.settings import ClientSettings
from pyromq.testing import AsyncServerProcess, LoopbackBroker
from tests.integration.ledger import Account, Ledger
from tests.integration.ledger_worker import ATTEMPTS_MAX, SETTINGS, failures_of, is_to_fail

TOPIC, GROUP = "orders", "billing"
FAIL_PERCENT = 10
DELAY_MS = 50
_AT_ONCE = 500


@asynccontextmanager
async def running(folder: Path, *flags: str) -> AsyncIterator[tuple[AsyncServerProcess, Ledger]]:
    """A broker in a process of its own, all of whose delay levels are short, and the ledger of a topic."""
    ladder = "broker.store.delay_ladder_ms=" + ";".join([str(DELAY_MS)] * 18)
    async with AsyncServerProcess("up", "--set", ladder, *flags, data=folder / "data") as server:
        async with Admin(server.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=4)
        yield server, Ledger(server.nameserver, TOPIC, GROUP)


async def fill(server: AsyncServerProcess | LoopbackBroker, ledger: Ledger, count: int) -> None:
    async with Producer(server.nameserver, group="makers") as producer:
        for begin in range(0, count, _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, count))
            receipts = await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number)) for number in numbers))
            ledger.acknowledged |= {receipt.message_id for receipt in receipts}


def expected_dead(ledger: Ledger, fail_percent: int = FAIL_PERCENT) -> int:
    """Those that fail for as long as anybody tries."""
    return sum(failures_of(each, fail_percent) > ATTEMPTS_MAX for each in ledger.acknowledged)


def patient(nameserver: str) -> ClientSettings:
    """Of a client that finds a broker again soon after it was gone."""
    return ClientSettings(nameservers=nameserver, heartbeat_ms=500, backoff=Backoff(first_ms=20, ceiling_ms=200))


class Clerk:
    """A listener in this process that fails with some messages and writes the others down."""

    def __init__(self, ledger: Ledger, fail_percent: int = FAIL_PERCENT) -> None:
        self._ledger, self._fail_percent, self.failed = ledger, fail_percent, 0

    async def consume(self, message: ReceivedMessage) -> None:
        if is_to_fail(message, self._fail_percent):
            self.failed += 1
            raise ValueError("this one fails")
        self._ledger.consumed[message.message_id] += 1

    def member(self, server: AsyncServerProcess | LoopbackBroker) -> PushConsumer:
        made = PushConsumer(
            listener=self.consume, settings=SETTINGS, client_settings=patient(server.nameserver), group=GROUP
        )
        made.subscribe(TOPIC)
        return made


async def settled(ledger: Ledger, files: list[Path], timeout_s: float = 120) -> Account:
    """The ledger's account when all is over, of consumers that write to files."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    ledger.refresh = partial(ledger.read, files)
    while True:
        ledger.read(files)
        found = await ledger.settled(0)
        if found.is_settled or asyncio.get_running_loop().time() > deadline:
            ledger.read(files)  # once more: offsets may have been committed after the files were read
            return await ledger.account()
        await asyncio.sleep(0.1)
