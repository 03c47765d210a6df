"""Brokers that take nothing back, and retry topics that vanish: failed messages stay where somebody finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.aio import Admin
from pyromq.model.topic import Perm
from tests.integration.ledger import report
from tests.integration.ledger_rig import GROUP, TOPIC, Clerk, expected_dead, fill, running, settled
from tests.integration.ledger_worker import Plan, WorkerProcess
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
RETRIES = f"%RETRY%{GROUP}"
FAIL_PERCENT = 50  # one in ten for ever: by chance all 300 ids could be among the others if it were few


async def set_writable(admin: Admin, what: str, is_writable: bool) -> None:
    perm = Perm.READ_WRITE if is_writable else Perm.READ
    if what == "broker":
        await admin.brokers.update_config("broker-a", {"brokerPermission": str(int(perm))})
    else:
        await admin.topics.create(RETRIES, queues=1, perm=perm)


@pytest.mark.parametrize("what", ["retry topic", "broker"])
async def test_what_is_refused_stays_with_the_consumer_and_survives_its_death(
    what: str, tmp_path: Path, record_property: Property
) -> None:
    files = [tmp_path / "killed", tmp_path / "next"]
    async with running(tmp_path) as (server, ledger), Admin(server.nameserver) as admin:
        await admin.groups.create(GROUP)
        await fill(server, ledger, 300)
        await set_writable(admin, what, False)
        plan = Plan(nameserver=server.nameserver, topic=TOPIC, group=GROUP, fail_percent=FAIL_PERCENT)
        async with WorkerProcess(plan, files[0]):
            await until(
                lambda: len(ledger.read(files)) == 300 - expected_dead(ledger, FAIL_PERCENT), "all that can succeed"
            )
        after = await ledger.account()  # it was killed: what it held must be behind the group's progress
        assert not after.lost and after.counts["queued"] == expected_dead(ledger, FAIL_PERCENT) > 0, str(after)
        await set_writable(admin, what, True)
        async with WorkerProcess(plan, files[1]):
            found = await settled(ledger, files)
        assert found.is_settled and found.counts["dead"] == expected_dead(ledger, FAIL_PERCENT), str(found)
    record_property("processes killed", 1)
    report(found, record_property)


async def test_a_retry_topic_that_is_deleted_is_made_anew_and_read_from_its_beginning(
    tmp_path: Path, record_property: Property
) -> None:
    async with running(tmp_path) as (server, ledger), Admin(server.nameserver) as admin:
        async with Clerk(ledger, 100).member(server):  # every message fails at first
            await fill(server, ledger, 50)
            before = await ledger.settled()
            assert before.is_settled, str(before)
            await admin.topics.delete(RETRIES)  # nothing is in it that anybody waits for
            for count in (1, 50):  # the topic comes back, and its queues begin at 0 again
                await fill(server, ledger, count)
                found = await ledger.settled(10)  # less than the pull is held that waits behind the old end
                assert found.is_settled, str(found)
        assert found.counts["dead"] == expected_dead(ledger, 100), str(found)
    report(found, record_property)
