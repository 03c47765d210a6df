"""Consumers that die, fail, come and go: every acknowledged message is found again, by its id."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pyromq.aio import PushConsumer
from tests.integration.ledger import Account, report
from tests.integration.ledger_rig import FAIL_PERCENT, GROUP, TOPIC, Clerk, expected_dead, fill, running, settled
from tests.integration.ledger_worker import ATTEMPTS_MAX, Plan, WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
MESSAGES = int(os.environ.get("PYROMQ_LEDGER_MESSAGES", "5000"))


@pytest.mark.parametrize(("point", "count"), [("work", 100), ("ack", 300), ("fail", 10)])
async def test_a_consumer_killed_at_a_marked_point_loses_nothing(
    point: str, count: int, tmp_path: Path, record_property: Property
) -> None:
    files = [tmp_path / "killed", tmp_path / "next"]
    percent = FAIL_PERCENT if point != "ack" else 0
    async with running(tmp_path) as (server, ledger):
        await fill(server, ledger, 300)
        plan = Plan(nameserver=server.nameserver, topic=TOPIC, group=GROUP, fail_percent=percent)
        async with WorkerProcess(msgspec.structs.replace(plan, point=point, count=count), files[0]) as killed:
            assert await killed.death() == -signal.SIGKILL
        ledger.read(files)
        after = await ledger.account()
        assert not after.lost and after.counts["consumed"] > 0, str(after)
        async with WorkerProcess(plan, files[1]):
            found = await settled(ledger, files)
        if point == "ack":  # none of the offsets was saved: all come again, and only once
            assert (after.counts["consumed"], found.duplicates) == (300, 300)
        elif point == "work":
            assert found.duplicates >= 1, "what it died with comes again"
        assert found.is_settled and found.counts["dead"] == (expected_dead(ledger) if percent else 0), str(found)
    record_property("processes killed", 1)
    report(found, record_property)


def test_a_tenth_that_fails_is_retried_then_dead_and_nothing_is_lost(tmp_path: Path, record_property: Property) -> None:
    found, dead = asyncio.run(fail_a_tenth(tmp_path))  # a full count takes longer than a coroutine test may
    assert found.is_settled and found.counts["dead"] == dead > 0, str(found)
    assert found.duplicates == 0, "nobody died: nothing comes twice"
    report(found, record_property)


async def fail_a_tenth(tmp_path: Path) -> tuple[Account, int]:
    async with asyncio.timeout(60 + MESSAGES / 500), running(tmp_path) as (server, ledger):
        async with Clerk(ledger).member(server):
            await fill(server, ledger, MESSAGES)
            found = await ledger.settled(30 + MESSAGES / 1_000)
        return found, expected_dead(ledger)


async def test_members_that_come_and_go_every_second_while_a_tenth_fails(
    tmp_path: Path, record_property: Property
) -> None:
    async with running(tmp_path) as (server, ledger):
        clerk, members = Clerk(ledger), list[PushConsumer]()
        for turn in range(6):
            if len(members) == 2:
                await members.pop(turn % 2).close()
            members.append(clerk.member(server))
            await members[-1].open()
            filling = asyncio.create_task(fill(server, ledger, 400))
            await asyncio.sleep(1)  # the load itself: one change of the group every second
            await filling
        await members.pop().close()
        found = await ledger.settled()
        await members.pop().close()
        assert clerk.failed > found.counts["dead"] * (ATTEMPTS_MAX + 1)
        assert found.is_settled and found.counts["dead"] == expected_dead(ledger), str(found)
    report(found, record_property)
