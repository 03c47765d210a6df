"""Who is told of changes of a group, and how often."""

from __future__ import annotations

from typing import Any

from pyromq.broker.admin.member_notices import AT_ONCE_MAX, INTERVAL_MS, PER_TICK, MemberNotices
from pyromq.broker.state.members import Members
from pyromq.testing import ManualClock
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
