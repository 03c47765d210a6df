"""Reports of replicas: answered at once when the master has newer tables, else when it has some, or after a while."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pyromq.broker.admin.member_requests import HOLD_MS_MAX, MemberHandler
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import BODY_BYTES_MAX
from pyromq.net.connection import Connection
from pyromq.wire.json.membership import BrokerStatus, MemberReport, MemberRole
from pyromq.wire.received import Received
from tests.unit.failover.simulation import now_s, simulate


class Replica:
    """Stands for the connection of a replica; notes when it was answered."""

    def __init__(self) -> None:
        self.remote = SimpleNamespace(host="10.0.0.2")
        self.is_open = True
        self.answered_s: list[float] = []

    def send(self, frame: bytes) -> None:
        self.answered_s.append(round(now_s() - self.began_s, 3))

    began_s = 0.0


class Master:
    def __init__(self) -> None:
        self.changes = 5
        self.reports: list[MemberReport] = []
        self.handler = MemberHandler(Lease())
        self.handler.take(self.status, lambda report, host: self.reports.append(report))

    def status(self) -> BrokerStatus:
        return BrokerStatus(address="a:1", role=MemberRole.MASTER, number=0, end=0, metadata=self.changes)

    def hears(self, replica: Replica, metadata: int, hold_ms: int = 1_000) -> None:
        report = MemberReport(address="b:1", link="b:2", metadata=metadata, number=0, hold_ms=hold_ms)
        request = Received(code=31_023, header=None, body=msgspec.json.encode(report))
        self.handler.report(cast(Connection, replica), cast(Any, request))


def answers(story: Any) -> list[float]:
    replica = Replica()

    async def run() -> None:
        replica.began_s = now_s()
        await story(Master(), replica)

    simulate(run)
    return replica.answered_s


def test_a_replica_with_old_tables_is_answered_at_once_and_so_is_one_that_does_not_wait() -> None:
    async def story(master: Master, replica: Replica) -> None:
        master.hears(replica, metadata=4)
        master.hears(replica, metadata=5, hold_ms=0)

    assert answers(story) == [0.0, 0.0]


def test_a_replica_with_the_newest_tables_is_answered_after_a_while() -> None:
    async def story(master: Master, replica: Replica) -> None:
        master.hears(replica, metadata=5)
        assert len(master.reports) == 1, "what it says counts when it comes"
        await asyncio.sleep(3.0)
        master.hears(replica, metadata=5, hold_ms=1_000_000)
        await asyncio.sleep(60.0)

    assert answers(story) == [1.0, 3.0 + HOLD_MS_MAX / 1_000]


def test_it_is_answered_when_tables_change_and_once() -> None:
    async def story(master: Master, replica: Replica) -> None:
        master.hears(replica, metadata=5)
        await asyncio.sleep(0.5)
        master.changes += 1
        master.handler.tables_changed()
        await asyncio.sleep(3.0)

    assert answers(story) == [0.5]


def test_a_second_report_of_a_connection_lets_the_first_go() -> None:
    async def story(master: Master, replica: Replica) -> None:
        master.hears(replica, metadata=5)
        await asyncio.sleep(0.25)
        master.hears(replica, metadata=5)
        await asyncio.sleep(3.0)

    assert answers(story) == [0.25, 1.25]


def test_nobody_is_answered_by_a_broker_that_becomes_something_else_or_over_a_closed_connection() -> None:
    async def story(master: Master, replica: Replica) -> None:
        master.hears(replica, metadata=5)
        master.handler.drop_held()
        await asyncio.sleep(3.0)
        master.hears(replica, metadata=5)
        replica.is_open = False
        await asyncio.sleep(3.0)

    assert answers(story) == []


def test_a_report_that_is_too_long_is_refused_before_it_is_read() -> None:
    request = Received(code=31_023, header=None, body=b" " * (BODY_BYTES_MAX + 1))
    with pytest.raises(RefusedError, match="body"):
        Master().handler.report(cast(Connection, Replica()), cast(Any, request))
