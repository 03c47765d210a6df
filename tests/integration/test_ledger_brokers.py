"""A broker killed while messages go back, wait, and are committed: all of them are found again, by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.aio import Message, MQError, Producer, ReceivedMessage, TransactionOutcome, TransactionProducer
from pyromq.client.core.transaction import Transaction
from pyromq.testing import AsyncServerProcess
from tests.integration.ledger import Ledger, report
from tests.integration.ledger_rig import TOPIC, Clerk, expected_dead, patient, running
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
LANES, KILLS = 8, 3
QUICK_CHECKS = ("broker.transaction_timeout_ms=300", "broker.transaction_check_interval_ms=100")


async def keep_sending(send: Callable[[int], Awaitable[None]]) -> None:
    """In many lanes until it is cancelled; what is refused, or gets no answer, counts as not sent."""
    numbers = count()

    async def lane() -> None:
        for number in numbers:
            try:
                await send(number)
            except MQError:
                await asyncio.sleep(0.02)

    await asyncio.gather(*(lane() for _ in range(LANES)))


async def kill_again_and_again(
    server: AsyncServerProcess, ledger: Ledger, progress: Callable[[], int], step: int
) -> None:
    """Each time in the middle of what makes progress; the account is right after every restart."""
    rng = Random(step)
    for _ in range(KILLS):
        wanted = progress() + step + rng.randrange(step)
        await until(lambda: progress() >= wanted, f"progress to {wanted}")  # noqa: B023
        await server.kill()
        await server.start()
        found = await ledger.account()
        assert not found.lost, str(found)


async def run(
    tmp_path: Path, record: Property, step: int, *, fail_percent: int = 0, **delay: Callable[[int], int]
) -> None:
    """Messages are sent with a delay of some kind, or fail often, while the broker is killed; then all are counted."""
    async with running(tmp_path) as (server, ledger):
        clerk = Clerk(ledger, fail_percent)
        async with (
            clerk.member(server),
            Producer(client_settings=patient(server.nameserver), group="makers") as producer,
        ):

            async def send(number: int) -> None:
                waiting: dict[str, Any] = {name: choose(number) for name, choose in delay.items()}
                receipt = await producer.send(Message(TOPIC, b"%d" % number, **waiting), timeout_ms=1_000)
                ledger.acknowledged.add(receipt.message_id)

            load = asyncio.ensure_future(keep_sending(send))
            await kill_again_and_again(
                server, ledger, (lambda: clerk.failed) if fail_percent else lambda: len(ledger.consumed), step
            )
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            found = await ledger.settled()
        assert found.is_settled and found.counts["dead"] == expected_dead(ledger, fail_percent), str(found)
    record("processes killed", KILLS)
    report(found, record)


async def test_a_broker_killed_while_messages_are_sent_back(tmp_path: Path, record_property: Property) -> None:
    await run(tmp_path, record_property, 200, fail_percent=60)


async def test_a_broker_killed_while_levels_are_delivered(tmp_path: Path, record_property: Property) -> None:
    await run(tmp_path, record_property, 300, delay_level=lambda number: 1 + number % 18)


async def test_a_broker_killed_while_timers_are_delivered(tmp_path: Path, record_property: Property) -> None:
    await run(tmp_path, record_property, 300, delay_ms=lambda number: 50 + number % 400)


async def test_a_broker_killed_while_transactions_are_committed(tmp_path: Path, record_property: Property) -> None:
    """The table of outcomes stands for a database: what it says was committed is what was acknowledged."""
    outcomes: dict[str, TransactionOutcome] = {}
    flags = [part for setting in QUICK_CHECKS for part in ("--set", setting)]

    async def check(message: ReceivedMessage) -> TransactionOutcome:
        return outcomes.get(message.message_id, TransactionOutcome.UNKNOWN)

    async with running(tmp_path, *flags) as (server, ledger):

        async def execute(transaction: Transaction) -> TransactionOutcome:
            is_wanted = transaction.argument % 4 != 0
            outcome = TransactionOutcome.COMMIT if is_wanted else TransactionOutcome.ROLLBACK
            outcomes[transaction.id] = outcome
            if is_wanted:
                ledger.acknowledged.add(transaction.id)
            return outcome if transaction.argument % 10 else TransactionOutcome.UNKNOWN

        clerk, chosen = Clerk(ledger, 0), patient(server.nameserver)
        async with (
            clerk.member(server),
            TransactionProducer(client_settings=chosen, group="shop", topics=TOPIC, check=check) as producer,
        ):

            async def send(number: int) -> None:
                await producer.send(Message(TOPIC, b"%d" % number), execute, number, timeout_ms=1_000)

            load = asyncio.ensure_future(keep_sending(send))
            await kill_again_and_again(server, ledger, lambda: len(ledger.consumed), 300)
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            found = await ledger.settled()
        assert found.is_settled, str(found)
        refused = {each for each, outcome in outcomes.items() if outcome is TransactionOutcome.ROLLBACK}
        assert refused and not refused & ledger.consumed.keys(), "what was rolled back is never seen"
    record_property("processes killed", KILLS)
    report(found, record_property)
