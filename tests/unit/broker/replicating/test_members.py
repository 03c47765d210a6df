"""Which connection is which broker: by its own end of it, or because there is no other from its host."""

from __future__ import annotations

import pytest

from pyromq.broker.base.lease import Lease, LeaseState
from pyromq.broker.replicating.members import ReplicaMembers
from pyromq.replication.replicas import ReplicaConnection, Replicas
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.testing import ManualClock
from pyromq.wire.json.membership import MemberReport

B, C = "10.0.0.2:10911", "10.0.0.3:10911"


class Rig:
    def __init__(self) -> None:
        self.clock, self.lease = ManualClock(), Lease()
        self.lease.state = LeaseState(number=1)
        self.replicas = Replicas(ReplicationSettings(role=Role.SYNC_MASTER))
        self.members = ReplicaMembers(self.replicas, self.lease, self.clock)

    def connects(self, name: str, position: int, broker_id: int | None = None) -> ReplicaConnection:
        connection = self.replicas.connected(name.rpartition(":")[0], name)
        connection.broker_id = broker_id
        self.replicas.begins(connection, position)
        self.replicas.reported(connection, position)  # it has compared
        return connection

    def reports(self, address: str, link: str, metadata: int = 1, host: str = "10.0.0.9", broker_id: int = -1) -> None:
        report = MemberReport(address=address, link=link, metadata=metadata, number=1, broker_id=broker_id)
        self.members.reported(report, host)


def test_a_member_has_what_its_own_connection_has() -> None:
    rig = Rig()
    rig.connects("127.0.0.1:1", 100)
    rig.connects("127.0.0.1:2", 200)
    rig.reports(B, "127.0.0.1:1", host="127.0.0.1")
    rig.reports(C, "127.0.0.1:2", host="127.0.0.1")
    assert (rig.members.position(B), rig.members.position(C)) == (100, 200)
    rig.lease.required = (B, C)
    assert rig.members.required_position() == 100
    rig.lease.required = ()
    assert rig.members.required_position() is None


def test_who_is_not_connected_has_nothing_and_is_waited_for() -> None:
    rig = Rig()
    connection = rig.connects("10.0.0.2:1", 100)
    rig.reports(B, "10.0.0.2:1", host="10.0.0.2")
    rig.replicas.disconnected(connection)
    rig.lease.required = (B, "10.0.0.4:1")
    assert rig.members.position(B) is None and rig.members.required_position() == 0
    assert rig.members.statuses() == ()


def test_a_connection_that_has_said_nothing_counts_as_nothing() -> None:
    rig = Rig()
    rig.replicas.connected("10.0.0.2", "10.0.0.2:1")
    rig.reports(B, "10.0.0.2:1")
    assert rig.members.position(B) is None


def test_behind_a_translated_address_the_connection_that_says_its_id_is_taken() -> None:
    rig = Rig()
    rig.connects("172.17.0.1:40000", 100, broker_id=1)
    rig.connects("172.17.0.1:40001", 200, broker_id=2)
    rig.connects("172.17.0.1:40002", 300)
    rig.reports(B, "10.0.0.2:1", host="172.17.0.1", broker_id=1)
    rig.reports(C, "10.0.0.3:1", host="172.17.0.1", broker_id=2)
    assert (rig.members.position(B), rig.members.position(C)) == (100, 200)


def test_what_another_replica_of_its_machine_has_is_not_its_own() -> None:
    rig = Rig()
    link = rig.connects("10.0.0.2:1", 100, broker_id=1)
    rig.connects("10.0.0.2:2", 900, broker_id=7)
    rig.connects("10.0.0.2:3", 900)
    rig.reports(B, "10.0.0.2:1", host="10.0.0.2", broker_id=1)
    rig.replicas.disconnected(link)
    assert rig.members.position(B) is None


def test_a_member_that_reports_no_more_is_not_told_of() -> None:
    rig = Rig()
    rig.connects("10.0.0.2:1", 100)
    rig.reports(B, "10.0.0.2:1", metadata=7)
    (status,) = rig.members.statuses()
    assert (status.address, status.position, status.metadata) == (B, 100, 7)
    rig.clock.advance_ms(5_000)
    assert rig.members.statuses() == ()


def test_a_member_that_does_not_get_on_is_not_told_of_though_it_reports() -> None:
    rig = Rig()
    link = rig.connects("10.0.0.2:1", 100)
    link.sent = 200
    rig.replicas.notice_stalls(0)
    rig.replicas.notice_stalls(2_000)
    rig.reports(B, "10.0.0.2:1")
    assert rig.members.statuses() == (), "the lease names it no more"
    rig.replicas.reported(link, 150)
    assert [each.position for each in rig.members.statuses()] == [150]


@pytest.mark.parametrize("sends", [True, False], ids=["with every send", "and for who looks while nothing is sent"])
def test_a_member_that_the_lease_has_dropped_counts_no_more_until_it_is_named_again(sends: bool) -> None:
    rig = Rig()
    rig.connects("10.0.0.2:1", 100, broker_id=1)
    rig.connects("10.0.0.3:1", 90, broker_id=2)
    rig.connects("10.0.0.4:1", 80)  # of RocketMQ: no member, and counted as ever
    rig.reports(B, "10.0.0.2:1")
    rig.reports(C, "10.0.0.3:1")
    assert rig.replicas.in_sync(100) == [100, 90, 80], "nobody was dropped"
    for required, counted in (((B, C), [100, 90, 80]), ((B,), [100, 80]), ((), [80]), ((C,), [90, 80])):
        rig.lease.required = required
        if sends:
            rig.members.required_position()
        assert rig.replicas.in_sync(100) == counted, required


def test_a_member_counts_under_the_lease_that_it_follows() -> None:
    rig = Rig()
    rig.connects("10.0.0.2:1", 100, broker_id=1)
    rig.connects("10.0.0.4:1", 80)  # of RocketMQ: it knows no leases
    rig.reports(B, "10.0.0.2:1")
    rig.lease.required = (B,)
    assert rig.members.required_position() == 100 and rig.replicas.in_sync(100) == [100, 80]
    assert rig.members.have_metadata(1)
    rig.lease.state = LeaseState(number=2)
    assert not rig.members.have_metadata(1)
    assert rig.members.required_position() == 0 and rig.members.statuses() == ()
    assert rig.replicas.in_sync(100) == [80], "it will cut what it has got under lease 2 so far"


def test_tables_are_there_when_all_that_the_lease_names_have_them() -> None:
    rig = Rig()
    assert rig.members.have_metadata(5), "nobody is waited for"
    rig.lease.required = (B, C)
    rig.reports(B, "10.0.0.2:1", metadata=5)
    assert not rig.members.have_metadata(5)
    rig.reports(C, "10.0.0.3:1", metadata=4)
    assert not rig.members.have_metadata(5) and rig.members.have_metadata(4)
