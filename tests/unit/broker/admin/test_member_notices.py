"""Who is told of changes of a group, and how often."""

from __future__ import annotations

from typing import Any

from pyromq.broker.admin.member_notices import AT_ONCE_MAX, INTERVAL_MS, PER_TICK, MemberNotices
from pyromq.broker.state.members import Members
from pyromq.model.topic import GroupConfig
from pyromq.testing import ManualClock
from pyromq.wire.json.heartbeat import MessageModel
from tests.unit.broker.builders import groups, heartbeat


class Peer:
    def __init__(self) -> None:
        self.is_open = True
        self.notices = 0

    def request_oneway(self, code: int, header: Any) -> None:
        self.notices += 1


class Rig:
    def __init__(self, members: int) -> None:
        self.clock = ManualClock()
        self.members: Members[Any] = Members(self.clock)
        self.notices = MemberNotices(self.members, groups(), self.clock)
        self.peers = [Peer() for _ in range(members)]
        for number, peer in enumerate(self.peers):
            self.notices.tell(self.members.heard_from(peer, heartbeat(f"c{number}", "orders"), "JAVA", 479))

    @property
    def told(self) -> int:
        return sum(peer.notices for peer in self.peers)


def test_members_of_a_small_group_hear_of_a_change_at_once() -> None:
    rig = Rig(3)
    assert [peer.notices for peer in rig.peers] == [3, 2, 1]


def test_members_of_a_large_group_hear_of_many_changes_once() -> None:
    rig = Rig(2 * PER_TICK)
    at_once = AT_ONCE_MAX * (AT_ONCE_MAX + 1) // 2
    assert rig.told == at_once, "not a matter of n²"
    rig.notices.tick()
    assert rig.told == at_once + PER_TICK, "a part of them with each tick"
    rig.notices.tick()
    assert rig.told == at_once + 2 * PER_TICK and min(peer.notices for peer in rig.peers) == 1
    rig.notices.tick()
    assert rig.told == at_once + 2 * PER_TICK


def test_a_change_during_a_round_is_told_in_the_next_one_after_a_while() -> None:
    rig = Rig(AT_ONCE_MAX + 1)
    rig.notices.tick()
    before = rig.told
    rig.notices.tell({"readers"})
    rig.notices.tick()
    assert rig.told == before
    rig.clock.advance_ms(INTERVAL_MS)
    rig.notices.tick()
    assert rig.told == before + AT_ONCE_MAX + 1


def test_groups_that_want_no_notices_and_those_that_broadcast_are_not_told() -> None:
    rig = Rig(2)
    before = rig.told
    group = rig.members.consumer_group("readers")
    assert group is not None
    group.model = MessageModel.BROADCASTING
    rig.notices.tell({"readers", "unknown"})
    assert rig.told == before
    group.model = MessageModel.CLUSTERING
    quiet = groups()
    quiet.update(GroupConfig(group_name="readers", notify_consumer_ids_changed_enable=False))
    MemberNotices(rig.members, quiet, rig.clock).tell({"readers"})
    assert rig.told == before
    rig.notices.tell({"readers"})
    assert rig.told == before + 2


def test_a_member_whose_connection_closes_meanwhile_is_passed_over() -> None:
    rig = Rig(AT_ONCE_MAX + 1)
    rig.peers[0].is_open, before = False, rig.peers[0].notices
    rig.notices.tick()
    assert rig.peers[0].notices == before and rig.peers[-1].notices == 1
