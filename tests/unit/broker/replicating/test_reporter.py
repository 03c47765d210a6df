"""When a replica reports itself to its master: every quarter of a second, and at once when it follows a new one."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from pyromq.broker.base.lease import Lease
from pyromq.broker.replicating.members import REPORT_INTERVAL_S
from pyromq.broker.replicating.reporter import LeaseFollowing
from pyromq.wire.json.membership import MemberReport
from tests.unit.failover.simulation import now_s, simulate


def test_a_new_master_hears_of_its_replica_at_once() -> None:
    reported_s: list[float] = []

    async def follow_two_masters() -> None:
        began_s = now_s()
        calls, follower = Mock(), Mock(link="127.0.0.1:1", broker_id=1)
        follower.attached, follower.parted = asyncio.Event(), asyncio.Event()

        async def report(report: MemberReport) -> Mock:
            reported_s.append(round(now_s() - began_s, 3))
            return Mock(metadata=0)

        calls.report = report
        following = LeaseFollowing(Lease(), Mock(), calls, "127.0.0.1:10911")
        task = asyncio.create_task(following.run(follower, Mock(rounds=1)))
        follower.attached.set()
        await asyncio.sleep(1.5 * REPORT_INTERVAL_S)
        follower.attached.clear()
        follower.parted.set()
        await asyncio.sleep(0.01)
        follower.parted.clear()
        follower.attached.set()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(follow_two_masters)
    assert reported_s == [0.0, REPORT_INTERVAL_S, round(1.5 * REPORT_INTERVAL_S + 0.01, 3)]
