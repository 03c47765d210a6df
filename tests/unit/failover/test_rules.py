"""What an agent decides, case by case."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pyromq.failover.agent import AgentState
from pyromq.failover.doubt import Ask, Census
from pyromq.failover.next_record import JOIN_BYTES_MAX, required_members
from pyromq.failover.record import BrokerStatus, LeaseError, LeaseRecord, MemberRole, MemberStatus, decode_record
from pyromq.failover.rules import decide
from pyromq.failover.sight import (
    AskHolder,
    Follow,
    HoldSends,
    KeepWaiting,
    Promote,
    ReleaseSends,
    Sight,
    Timing,
    Write,
)
from pyromq.failover.store import StoredLease
from pyromq.wire.json.membership import Epoch

A, B, C = "a:1", "b:1", "c:1"
TIMING = Timing(duration_s=9.0, renew_s=3.0, margin_s=2.0, look_s=0.5, absent_s=6.0)
RECORD = LeaseRecord(holder=A, number=3, in_sync=(A, B), confirmed=100, metadata=7, duration_ms=9000)
MASTER = BrokerStatus(
    address=A,
    role=MemberRole.MASTER,
    number=3,
    end=120,
    flushed=120,
    metadata=7,
    acknowledged=110,
    required=(B,),
    replicas=(MemberStatus(address=B, position=115, metadata=7),),
)
REPLICA = BrokerStatus(address=B, role=MemberRole.REPLICA, number=3, end=115, flushed=115, metadata=7, master=A)


def sight(me: str, broker: BrokerStatus | None, record: LeaseRecord | None = RECORD, **given: Any) -> Sight:
    usual: dict[str, Any] = {
        "now_s": 100.0,
        "timing": TIMING,
        "seen_s": 99.0,
        "renewed_s": 99.0,
        "heard_s": {B: 99.9},
    }
    return Sight(me=me, broker=broker, record=record, **{**usual, **given})


def written(step: object) -> LeaseRecord:
    assert isinstance(step, Write), step
    return step.record


def test_the_holder_waits_and_renews_in_time() -> None:
    assert isinstance(decide(sight(A, MASTER)), KeepWaiting)
    renewed = written(decide(sight(A, MASTER, renewed_s=96.0)))
    assert (renewed.holder, renewed.number, renewed.in_sync, renewed.confirmed) == (A, 3, (A, B), 115)
    assert renewed.renewals == RECORD.renewals + 1


def test_a_broker_that_does_not_answer_is_not_renewed_for() -> None:
    assert isinstance(decide(sight(A, None, renewed_s=0.0)), KeepWaiting)


def test_a_replica_that_is_not_heard_is_taken_out_of_the_record_first() -> None:
    gone = replace(MASTER, replicas=())
    record = written(decide(sight(A, gone)))
    assert record.in_sync == (A,) and required_members(record, gone) == ()
    assert required_members(RECORD, gone) == (B,)  # until the record is written, it is waited for
    assert written(decide(sight(A, MASTER, heard_s={B: 90.0}))).in_sync == (A,)


def test_a_member_that_comes_back_with_an_empty_disk_is_in_sync_no_more() -> None:
    """It is heard, and the record names it: were it to stay, what it lacks would count as never acknowledged."""
    emptied = replace(MASTER, replicas=(MemberStatus(address=B, position=0, metadata=7),))
    renewed = written(decide(sight(A, emptied)))
    assert (renewed.in_sync, renewed.confirmed) == ((A,), 120)
    copied = replace(MASTER, replicas=(MemberStatus(address=B, position=99, metadata=7),))
    assert written(decide(sight(A, copied))).in_sync == (A,), "it has not got everything again"
    whole = replace(MASTER, replicas=(MemberStatus(address=B, position=110, metadata=7),))
    assert written(decide(sight(A, whole, renewed, renewed_s=96.0))).in_sync == (A, B)


def test_no_member_lowers_what_is_confirmed_under_one_lease() -> None:
    """While a master is new its members are given time; one with an empty disk can take the lease nevertheless not."""
    emptied = replace(MASTER, replicas=(MemberStatus(address=B, position=3, metadata=7),))
    renewed = written(decide(sight(A, emptied, renewed_s=96.0, since_s=99.0)))
    assert (renewed.in_sync, renewed.confirmed) == ((A, B), 100)
    waiting = decide(sight(B, replace(REPLICA, end=3), renewed, seen_s=0.0))
    assert isinstance(waiting, KeepWaiting), "it lacks acknowledged messages"


def test_a_tail_that_the_disk_refuses_is_not_confirmed_and_so_does_not_keep_others_from_being_master() -> None:
    """A master alone appends, its disk fails: nobody was answered, and nobody else will ever have that tail."""
    alone = replace(RECORD, in_sync=(A,))
    broken = replace(MASTER, flushed=110, failing="no space left", replicas=())
    renewed = written(decide(sight(A, broken, alone, renewed_s=96.0)))
    assert (renewed.in_sync, renewed.confirmed) == ((A,), 110)
    back = replace(broken, replicas=(MemberStatus(address=B, position=110, metadata=7),))
    joined = written(decide(sight(A, back, renewed)))
    assert (joined.in_sync, joined.confirmed) == ((A, B), 110)
    wanted = written(decide(sight(A, back, joined, failing_s=0.0)))
    assert wanted.wanted == B
    handed = written(decide(sight(A, replace(back, held=True), wanted, held_s=99.0)))
    assert (handed.holder, handed.confirmed) == (B, 110)
    assert isinstance(decide(sight(B, replace(REPLICA, end=110, flushed=110), handed)), Promote)


def test_what_is_acknowledged_before_it_is_flushed_is_confirmed() -> None:
    asynchronous = replace(MASTER, flushed=50, replicas=())
    assert written(decide(sight(A, asynchronous, replace(RECORD, in_sync=(A,)), renewed_s=96.0))).confirmed == 110


def test_what_a_member_has_not_said_to_have_is_not_confirmed() -> None:
    """While a master is new its members stay named before they have connected: one of them may have to take over."""
    record, young = replace(RECORD, metadata=6), {"renewed_s": 96.0, "since_s": 99.0}
    renewed = written(decide(sight(A, replace(MASTER, replicas=()), record, **young)))
    assert (renewed.in_sync, renewed.confirmed, renewed.metadata) == ((A, B), 100, 6)
    three = replace(record, in_sync=(A, B, C))
    renewed = written(decide(sight(A, MASTER, three, **young)))
    assert (renewed.in_sync, renewed.confirmed, renewed.metadata) == ((A, B, C), 100, 6), "C is not connected"


def test_a_replica_joins_after_it_is_waited_for_and_has_everything() -> None:
    alone = replace(RECORD, in_sync=(A,))
    near = replace(MASTER, required=())
    assert required_members(alone, near) == (B,)
    assert isinstance(decide(sight(A, near, alone)), KeepWaiting)  # not waited for yet
    behind = replace(MASTER, acknowledged=116)
    assert isinstance(decide(sight(A, behind, alone)), KeepWaiting)
    assert written(decide(sight(A, MASTER, alone))).in_sync == (A, B)
    old = replace(MASTER, replicas=(MemberStatus(address=B, position=115, metadata=6),))
    assert isinstance(decide(sight(A, old, alone)), KeepWaiting)


def test_a_replica_far_behind_is_not_waited_for() -> None:
    far = replace(MASTER, end=JOIN_BYTES_MAX * 2, required=())
    assert required_members(replace(RECORD, in_sync=(A,)), far) == ()


def test_members_in_sync_that_answer_stay_it_when_another_takes_over() -> None:
    three, expired = replace(RECORD, in_sync=(A, B, C)), {"seen_s": 0.0}
    assert decide(sight(B, REPLICA, three, **expired)) == Ask((C,), only=True)
    third = replace(REPLICA, address=C, end=112)
    taken = written(decide(sight(B, REPLICA, three, **expired, census=Census(answers={C: third}), wall_ms=77)))
    assert (taken.in_sync, taken.confirmed, taken.members) == ((B, C), 112, (A, B, C))
    assert taken.away == {A: 77}
    assert written(decide(sight(B, REPLICA, three, **expired, census=Census()))).in_sync == (B,)
    old = Census(answers={C: replace(third, end=99)})
    assert written(decide(sight(B, REPLICA, three, **expired, census=old))).in_sync == (B,)
    unsure = {**UNSURE, **expired, "census": Census(answers={C: third})}
    assert written(decide(sight(B, REPLICA, three, **unsure))).in_sync == (B,), "an older record may name it"


def test_members_that_a_new_master_was_given_are_waited_for_a_moment_before_they_are_missed() -> None:
    promoted = replace(MASTER, number=4, replicas=(), required=())
    record = replace(RECORD, number=4, in_sync=(A, B))
    assert isinstance(decide(sight(A, promoted, record, since_s=99.0, heard_s={})), KeepWaiting)
    assert required_members(record, promoted) == (B,)
    missed = written(decide(sight(A, promoted, record, since_s=90.0, heard_s={}, wall_ms=5)))
    assert missed.in_sync == (A,) and missed.away == {B: 5}
    again = written(decide(sight(A, promoted, missed, since_s=90.0, renewed_s=0.0, heard_s={}, wall_ms=9)))
    assert again.away == {B: 5}, "since then, not since now"


def test_of_three_the_old_master_is_not_waited_for_after_a_planned_change_of_two_it_is() -> None:
    here = tuple(MemberStatus(address=each, position=120, metadata=7) for each in (B, C))
    held = replace(MASTER, held=True, replicas=here)
    three = replace(RECORD, in_sync=(A, B, C), wanted=B)
    assert written(decide(sight(A, held, three, held_s=99.9))).in_sync == (B, C)
    two = replace(RECORD, wanted=B)
    assert written(decide(sight(A, held, two, held_s=99.9))).in_sync == (A, B)


@pytest.mark.parametrize("waits", [True, False])
def test_a_set_stays_what_it_is(waits: bool) -> None:
    renewed = written(decide(sight(A, replace(MASTER, waits=waits), renewed_s=0.0)))
    assert renewed.waits is waits
    taken = written(decide(sight(B, REPLICA, renewed, seen_s=0.0, census=Census())))
    assert decide(sight(B, REPLICA, taken)) == Promote(4, waits)


def test_nobody_takes_a_lease_that_is_renewed() -> None:
    assert isinstance(decide(sight(B, REPLICA)), KeepWaiting)
    assert isinstance(decide(sight(B, REPLICA, seen_s=100 - 9.0)), KeepWaiting)


def test_a_member_in_sync_takes_an_expired_lease_with_the_next_number() -> None:
    taken = written(decide(sight(B, REPLICA, seen_s=100 - 11.1)))
    assert (taken.holder, taken.number, taken.in_sync, taken.confirmed) == (B, 4, (B,), 115)


@pytest.mark.parametrize(
    ("me", "status", "why"),
    [
        (C, replace(REPLICA, address=C), "may lack"),
        (B, replace(REPLICA, end=99), "acknowledged is 100"),
        (B, replace(REPLICA, metadata=6), "topics and groups"),
    ],
)
def test_who_may_lack_something_does_not_take_it(me: str, status: BrokerStatus, why: str) -> None:
    step = decide(sight(me, status, seen_s=0.0))
    assert isinstance(step, KeepWaiting) and why in step.reason


def test_a_master_that_lost_its_lease_follows_the_new_one() -> None:
    assert decide(sight(A, MASTER, replace(RECORD, holder=B, number=4))) == Follow(B, 4)
    other = replace(REPLICA, master=C)
    assert decide(sight(B, other)) == Follow(A, 3)


def test_a_broker_that_came_back_as_replica_is_promoted_under_its_own_lease_only_with_everything() -> None:
    back = replace(REPLICA, address=A, end=120)
    assert decide(sight(A, back)) == Promote(3)
    assert isinstance(decide(sight(A, replace(back, end=99))), KeepWaiting)


def test_the_first_lease_is_made_by_who_was_started_as_master() -> None:
    nobody = Census()
    assert decide(sight(A, replace(MASTER, number=0), None)) == Ask((A,))
    assert isinstance(decide(sight(B, replace(REPLICA, number=0, master=""), None, census=nobody)), KeepWaiting)
    assert written(decide(sight(A, replace(MASTER, number=0), None, census=nobody))).number == 1


UNSURE: dict[str, Any] = {"is_sure": False, "asked_s": 99.0}
KNOWN = replace(RECORD, members=(A, B, C))


def test_a_holder_that_is_not_sure_of_the_store_asks_before_it_goes_on() -> None:
    assert decide(sight(A, MASTER, KNOWN, **UNSURE)) == Ask((A, B, C))
    alone = decide(sight(A, MASTER, KNOWN, **UNSURE, census=Census()))
    assert isinstance(alone, KeepWaiting) and f"{B}, {C} do not answer" in alone.reason
    everybody = Census(answers={B: REPLICA, C: replace(REPLICA, address=C)})
    assert isinstance(decide(sight(A, MASTER, KNOWN, **UNSURE, census=everybody)), KeepWaiting)  # the lease is ours
    assert written(decide(sight(A, MASTER, KNOWN, **UNSURE, census=everybody, renewed_s=0.0))).number == 3
    most = Census(answers={B: REPLICA})
    assert written(decide(sight(A, MASTER, KNOWN, **UNSURE, census=most))).number == 4, "what C has alone is older"
    newer = Census(answers={B: replace(REPLICA, number=4, role=MemberRole.MASTER, master="")})
    step = decide(sight(A, MASTER, KNOWN, **UNSURE, census=newer))
    assert isinstance(step, KeepWaiting) and "set back" in step.reason and B in step.reason


def test_of_two_members_one_waits_a_while_for_the_other() -> None:
    step = decide(sight(A, MASTER, **UNSURE, census=Census()))
    assert isinstance(step, KeepWaiting) and "waiting a while" in step.reason
    waited = {"is_sure": False, "asked_s": 100.0 - TIMING.alone_s}
    assert written(decide(sight(A, MASTER, **waited, census=Census(), renewed_s=0.0))).number == 3


def test_a_lost_lease_is_made_again_by_its_master_alone_when_every_earlier_one_has_ended() -> None:
    known, replicas = replace(MASTER, members=(A, B)), Census(answers={B: REPLICA})
    assert isinstance(decide(sight(A, known, None, **UNSURE, census=replicas)), KeepWaiting)
    again = written(decide(sight(A, known, None, **UNSURE, census=replicas, seen_s=0.0)))
    assert (again.holder, again.number, again.in_sync) == (A, 4, (A,))
    other = decide(sight(B, REPLICA, None, **UNSURE, census=Census(answers={A: MASTER}), seen_s=0.0))
    assert isinstance(other, KeepWaiting) and f"master, {A}," in other.reason
    old = replace(RECORD, number=2, holder=B)
    assert written(decide(sight(A, known, old, **UNSURE, census=replicas, seen_s=0.0))).number == 4
    both = Census(answers={B: replace(REPLICA, role=MemberRole.MASTER, master="")})
    assert isinstance(decide(sight(A, known, None, **UNSURE, census=both, seen_s=0.0)), KeepWaiting)


def test_a_master_of_the_newest_lease_asks_for_an_operator_where_the_other_went_on_under_an_older_one() -> None:
    newest, older = replace(MASTER, address=B, number=4, members=(A, B)), replace(MASTER, granted_s=2.0)
    step = decide(sight(B, newest, **UNSURE, census=Census(answers={A: older})))
    assert isinstance(step, KeepWaiting) and f"{A} went on alone under lease 3" in step.reason
    assert "decide with pyromq cluster recover" in step.reason, "that lease is renewed, and never ends"
    ended = Census(answers={A: replace(older, granted_s=0.0)})
    assert isinstance(decide(sight(B, newest, **UNSURE, census=ended)), KeepWaiting)
    assert written(decide(sight(B, newest, **UNSURE, census=ended, seen_s=0.0))).number == 5


def test_a_master_whose_time_runs_writes_its_lease_again_where_the_store_lost_it() -> None:
    mine = replace(RECORD, renewals=50)
    assert written(decide(sight(A, MASTER, None, mine=mine))).number == 3
    back = written(decide(sight(A, MASTER, replace(mine, renewals=40, in_sync=(A, B, C)), mine=mine)))
    assert (back.renewals, back.in_sync) == (51, (A, B))
    assert isinstance(decide(sight(A, MASTER, replace(mine, renewals=51), mine=mine)), KeepWaiting)
    assert isinstance(decide(sight(A, MASTER, None, mine=mine, renewed_s=0.0)), Ask)


def test_a_last_master_that_lost_its_end_makes_the_lost_lease_again_for_who_has_it() -> None:
    """Its disk was an older copy, and the store was set back, too: found by seed 610500."""
    master = replace(MASTER, end=90, flushed=90, log_number=3, replicas=(), members=(A, B))
    whole = replace(REPLICA, end=120, flushed=120, log_number=3)
    lost = {**UNSURE, "seen_s": 0.0}
    given = written(decide(sight(A, master, None, **lost, census=Census(answers={B: whole}))))
    assert (given.holder, given.number, given.in_sync, given.members) == (B, 4, (B,), (A, B))
    as_short = Census(answers={B: replace(whole, end=90)})
    assert written(decide(sight(A, master, None, **lost, census=as_short))).holder == A
    ours, theirs = ((Epoch(number=3, start=0, mark=mark),) for mark in (7, 8))
    other_line = Census(answers={B: replace(whole, epochs=theirs)})
    assert written(decide(sight(A, replace(master, epochs=ours), None, **lost, census=other_line))).holder == A
    unfit = Census(answers={B: replace(whole, failing="the disk is full")})
    step = decide(sight(A, master, None, **lost, census=unfit))
    assert isinstance(step, KeepWaiting) and "cannot be master now (the disk is full): mend that" in step.reason


LOST: dict[str, Any] = {"seen_s": 0.0, "is_sure": False}  # and every earlier lease has ended
CUT_SHORT = replace(MASTER, end=90, flushed=90, log_number=3, replicas=(), members=(A, B, C))
WHOLE = replace(REPLICA, end=120, flushed=120, log_number=3)


def test_a_master_that_lost_its_end_waits_for_all_who_may_have_more_of_it() -> None:
    """Who answers need not have been in sync, and the record that would say so is lost."""
    behind = Census(answers={C: replace(WHOLE, address=C, end=95, flushed=95)})
    step = decide(sight(A, CUT_SHORT, None, **LOST, census=behind))
    assert isinstance(step, KeepWaiting) and f"{B} may have more" in step.reason, "C lacks what A and B acknowledged"
    all_answer = Census(answers={**behind.answers, B: WHOLE})
    assert written(decide(sight(A, CUT_SHORT, None, **LOST, census=all_answer))).holder == B
    asynchronous = replace(CUT_SHORT, waits=False)
    assert written(decide(sight(A, asynchronous, None, **LOST, census=behind))).holder == C, "nothing was promised"


def test_an_agent_that_has_seen_more_confirmed_than_its_master_has_waits_for_all() -> None:
    given: dict[str, Any] = {"record": None, **LOST, "newest": RECORD}
    as_short = {C: replace(WHOLE, address=C, end=90, flushed=90)}
    step = decide(sight(A, CUT_SHORT, **given, census=Census(answers=as_short)))
    assert isinstance(step, KeepWaiting) and f"{B} may have more" in step.reason
    all_answer = Census(answers={**as_short, B: replace(WHOLE, end=90)})
    assert written(decide(sight(A, CUT_SHORT, **given, census=all_answer))).holder == A, "nobody has what is missing"


def test_a_log_of_another_line_hides_nobody_who_has_the_end() -> None:
    ours, theirs = (Epoch(number=3, start=0, mark=mark) for mark in (7, 8))
    answers = {
        B: replace(WHOLE, epochs=(ours,)),
        C: replace(WHOLE, address=C, end=150, flushed=150, epochs=(theirs,)),  # follows A, and has not compared yet
    }
    master = replace(CUT_SHORT, epochs=(ours,))
    assert written(decide(sight(A, master, None, **LOST, census=Census(answers=answers)))).holder == B


def test_of_two_logs_with_the_end_that_of_a_disk_which_takes_messages_gets_the_lost_lease() -> None:
    full = replace(WHOLE, failing="the disk is full")
    answers = {B: full, C: replace(WHOLE, address=C)}
    given = written(decide(sight(A, CUT_SHORT, None, **LOST, census=Census(answers=answers))))
    assert (given.holder, given.confirmed) == (C, 120), "nor is it master with less, should it lose its end, too"
    longest = Census(answers={**answers, B: replace(full, end=121)})
    assert isinstance(decide(sight(A, CUT_SHORT, None, **LOST, census=longest)), KeepWaiting)


def test_members_that_only_the_agent_remembers_are_waited_for() -> None:
    """The disk is an older copy, from before they came."""
    alone, nobody = replace(CUT_SHORT, end=120, flushed=120, members=()), Census(answers={})
    three = replace(RECORD, in_sync=(A, B, C))
    step = decide(sight(A, alone, None, **LOST, newest=three, census=nobody))
    assert isinstance(step, KeepWaiting) and f"{B}, {C} do not answer" in step.reason
    third = Census(answers={C: replace(WHOLE, address=C)})
    again = written(decide(sight(A, alone, None, **LOST, newest=three, census=third)))
    assert (again.holder, again.members) == (A, (A, B, C))


def test_a_lost_lease_is_not_made_again_under_a_number_that_the_agent_has_seen() -> None:
    """Two leases of one number are for an operator, also where nothing was acknowledged under one of them."""
    whole, third = replace(CUT_SHORT, end=120), Census(answers={C: replace(WHOLE, address=C)})
    given = replace(RECORD, holder=B, number=4)
    assert written(decide(sight(A, whole, None, **LOST, newest=given, census=third))).number == 5


def test_a_master_that_was_started_anew_looks_for_its_end_before_it_writes_its_lease_again() -> None:
    """The agent lived on, its lease is running, and the store was emptied meanwhile."""
    mine = replace(RECORD, renewals=50)
    given: dict[str, Any] = {"record": None, "mine": mine, "is_restarted": True}
    assert decide(sight(A, CUT_SHORT, **given)) == Ask((B,), only=True)
    assert isinstance(decide(sight(A, CUT_SHORT, **given, census=Census(answers={}))), KeepWaiting)
    lease = written(decide(sight(A, CUT_SHORT, **given, census=Census(answers={B: WHOLE}))))
    assert (lease.holder, lease.number, lease.confirmed) == (B, 4, 120)
    as_short = Census(answers={B: replace(WHOLE, end=90)})
    assert written(decide(sight(A, CUT_SHORT, **given, census=as_short))).holder == A
    elsewhere = replace(RECORD, holder=C, number=7, renewals=60)
    assert decide(sight(A, CUT_SHORT, **{**given, "record": elsewhere})) == Follow(C, 7), "it acknowledges nothing"


def test_who_takes_over_without_being_sure_has_the_longest_log() -> None:
    expired = {**UNSURE, "seen_s": 0.0}
    assert decide(sight(B, REPLICA, KNOWN, **expired)) == Ask((A, B, C))
    shorter = Census(answers={C: replace(REPLICA, address=C, end=110)})
    assert written(decide(sight(B, REPLICA, KNOWN, **expired, census=shorter))).number == 4
    third = replace(REPLICA, address=C, end=116)
    given = written(decide(sight(B, REPLICA, KNOWN, **expired, census=Census(answers={C: third}), wall_ms=9)))
    assert (given.holder, given.number, given.in_sync, given.confirmed) == (C, 4, (C, B), 115)
    assert given.away == {A: 9}, "the one that was in sync gives it the lease: neither could go on by itself"


def test_a_longer_log_that_is_no_copy_of_ours_is_waited_for() -> None:
    expired = {**UNSURE, "seen_s": 0.0}
    ours, theirs = (Epoch(number=3, start=100, mark=mark) for mark in (7, 8))
    replica = replace(REPLICA, epochs=(ours,))
    third = replace(replica, address=C, end=116)
    others = (
        replace(third, epochs=(theirs,)),
        replace(third, metadata=6),
        replace(third, failing="the disk is full"),
    )
    for other in others:
        step = decide(sight(B, replica, KNOWN, **expired, census=Census(answers={C: other})))
        assert isinstance(step, KeepWaiting) and f"{C} has a longer log" in step.reason, other
    copy = Census(answers={C: third})
    assert written(decide(sight(B, replica, KNOWN, **expired, census=copy))).holder == C
    changed = decide(sight(B, replace(replica, metadata=8), KNOWN, **expired, census=copy))
    assert isinstance(changed, KeepWaiting), "a change of tables that B has may be confirmed, and not in the record yet"


def test_a_copy_that_has_not_come_to_where_its_lease_began_is_not_the_longest_log() -> None:
    """It got one lease after the other, each of which ended before it had what the giver has."""
    expired = {**UNSURE, "seen_s": 0.0}
    older = Epoch(number=2, start=0, mark=7)
    replica = replace(REPLICA, log_number=2, epochs=(older,))
    short = replace(REPLICA, address=C, end=50, log_number=3, epochs=(older, Epoch(number=3, start=118, mark=8)))
    assert written(decide(sight(B, replica, KNOWN, **expired, census=Census(answers={C: short})))).holder == B
    copied = Census(answers={C: replace(short, end=119)})
    assert written(decide(sight(B, replica, KNOWN, **expired, census=copied))).holder == C


def test_a_holder_that_was_never_promoted_goes_on_whatever_tail_the_master_before_it_has() -> None:
    taken = replace(KNOWN, holder=B, number=4, in_sync=(B,), confirmed=115)
    replica = replace(REPLICA, log_number=3)
    back = replace(MASTER, role=MemberRole.REPLICA, number=4, log_number=3, end=120, master=B)
    everybody = Census(answers={A: back, C: replace(replica, address=C, end=110)})
    assert decide(sight(B, replica, taken, **UNSURE, census=everybody)) == Promote(4), "A waits for B"
    written_to = Census(answers={A: replace(back, log_number=4), C: replace(replica, address=C)})
    step = decide(sight(B, replica, taken, **UNSURE, census=written_to))
    assert isinstance(step, KeepWaiting) and f"{A} has a longer log" in step.reason, "another was master under lease 4"


def test_a_holder_with_a_new_disk_names_an_operator_if_nobody_else_is_in_sync() -> None:
    """What it had acknowledged alone is on no other member: none takes over, however long its log is."""
    named, alone = (replace(KNOWN, renewals=9, in_sync=in_sync) for in_sync in ((A, B), (A,)))
    new = BrokerStatus(address=A, role=MemberRole.REPLICA, number=0, end=0, metadata=0, is_new=True)
    longer = replace(REPLICA, log_number=3)
    everybody = Census(answers={B: longer, C: replace(longer, address=C, end=110)})
    asked: dict[str, Any] = {**UNSURE, "census": everybody}
    for given, text in ((asked, f"{B} has a longer log"), ({}, "this disk is new")):
        step = decide(sight(A, new, named, **given))
        assert isinstance(step, KeepWaiting) and text in step.reason and "takes over, or decide" in step.reason
        step = decide(sight(A, new, alone, **given))
        assert isinstance(step, KeepWaiting) and text in step.reason
        assert step.reason.endswith("nobody takes over: decide with pyromq cluster recover")
    waits = decide(sight(B, longer, alone, seen_s=0.0))
    assert isinstance(waits, KeepWaiting) and "may lack acknowledged messages" in waits.reason


def test_a_holder_with_a_copy_of_a_replicas_disk_does_not_begin_its_lease_a_second_time() -> None:
    """The copy was written under the lease that the record gives to this broker: it was never master with it."""
    named, alone = (replace(KNOWN, renewals=9, in_sync=in_sync) for in_sync in ((A, B), (A,)))
    copy = replace(REPLICA, address=A, master="", number=3, log_number=3, is_new=True)
    step = decide(sight(A, copy, named))
    assert isinstance(step, KeepWaiting) and "another member's" in step.reason and "takes over, or" in step.reason
    step = decide(sight(A, copy, alone))
    assert isinstance(step, KeepWaiting) and step.reason.endswith("decide with pyromq cluster recover")
    assert written(decide(sight(B, replace(REPLICA, log_number=3), named, seen_s=0.0, census=Census()))).holder == B


def test_who_was_master_under_the_number_of_another_waits_for_an_operator() -> None:
    step = decide(sight(A, MASTER, replace(RECORD, holder=B)))
    assert isinstance(step, KeepWaiting) and "pyromq cluster recover" in step.reason


def test_an_operators_choice_waits_for_the_end_of_earlier_leases_and_asks_nobody() -> None:
    forced = replace(RECORD, number=9, in_sync=(A,), forced=True)
    assert isinstance(decide(sight(A, MASTER, forced, **UNSURE)), KeepWaiting)
    assert decide(sight(A, MASTER, forced, **UNSURE, seen_s=0.0)) == Promote(9)


def test_an_agent_is_sure_of_what_it_watched_since_the_holder_was_master_by_the_record() -> None:
    state, holder = AgentState(), replace(MASTER, granted_s=2.0, renewals=1)
    state.note_record(StoredLease(replace(RECORD, renewals=1), "1"), 10.0, 4.0)
    assert not state.is_sure
    state.note_holder(holder)
    assert state.is_sure
    state.note_record(StoredLease(replace(RECORD, renewals=2), "2"), 11.0, 4.0)
    assert state.is_sure and state.seen_s == 11.0
    state.note_record(StoredLease(RECORD, "0"), 12.0, 4.0)
    assert not state.is_sure, "it went back"
    state.note_record(StoredLease(replace(RECORD, renewals=3), "4"), 14.0, 4.0)
    assert not state.is_sure, "another backup may have been restored"
    state.note_holder(holder)
    state.note_record(StoredLease(replace(RECORD, renewals=3), "4"), 20.0, 4.0)
    assert not state.is_sure and state.seen_s == 20.0, "nobody looked for longer than a lease"
    state.note_broker(replace(MASTER, granted_s=2.0, renewals=3))
    assert state.is_sure, "our own broker is that master"
    state.note_broker(replace(MASTER, number=4))
    assert not state.is_sure


@pytest.mark.parametrize(
    "holder",
    [
        replace(MASTER, granted_s=0.0, renewals=5),
        replace(MASTER, granted_s=2.0, renewals=6),
        replace(MASTER, granted_s=2.0, renewals=0),
        replace(MASTER, granted_s=2.0, renewals=5, number=4),
        replace(MASTER, granted_s=2.0, renewals=5, address=C),
        None,
    ],
    ids=["its time is over", "it wrote a newer record", "not known from which", "newer lease", "another", "no answer"],
)
def test_a_holder_that_is_not_master_by_the_record_says_nothing_about_the_store(holder: BrokerStatus | None) -> None:
    state = AgentState()
    state.note_record(StoredLease(replace(RECORD, renewals=5), "1"), 10.0, 4.0)
    state.note_holder(holder)
    assert not state.is_sure


def test_a_master_whose_time_runs_writes_over_a_lease_that_nobody_can_have_taken() -> None:
    mine = replace(RECORD, renewals=7)
    elsewhere = LeaseRecord(holder=C, number=5, in_sync=(C,), duration_ms=9000, renewals=9)
    running = replace(MASTER, granted_s=6.0)
    found = written(decide(sight(A, running, elsewhere, mine=mine)))
    assert (found.holder, found.number, found.in_sync, found.confirmed) == (A, 6, (A, B), 115)
    assert written(decide(sight(A, running, replace(elsewhere, number=3), mine=mine))).number == 4
    assert decide(sight(A, running, elsewhere, mine=mine, renewed_s=90.0)) == Follow(C, 5), "its time is over"
    assert decide(sight(A, running, elsewhere)) == Follow(C, 5), "it has handed over, or has just started"
    assert decide(sight(A, running, replace(elsewhere, forced=True), mine=mine)) == Follow(C, 5), "an operator chose"
    assert decide(sight(A, MASTER, elsewhere, mine=mine)) == Follow(C, 5), "it was started anew, without a grant"


def test_a_replica_that_is_not_sure_asks_the_holder_once_about_each_record() -> None:
    assert decide(sight(B, REPLICA, is_sure=False)) == AskHolder(A)
    assert isinstance(decide(sight(B, REPLICA, is_sure=False, is_holder_asked=True)), KeepWaiting)
    assert isinstance(decide(sight(B, REPLICA)), KeepWaiting)
    assert isinstance(decide(sight(B, replace(REPLICA, master=C), is_sure=False)), Follow)


def test_a_planned_change_holds_sends_until_the_wanted_member_has_everything() -> None:
    wanted = replace(RECORD, wanted=B)
    assert isinstance(decide(sight(A, MASTER, wanted)), HoldSends)
    held = replace(MASTER, held=True)
    assert isinstance(decide(sight(A, held, wanted, held_s=99.5)), KeepWaiting)
    level = replace(held, replicas=(MemberStatus(address=B, position=120, metadata=7),))
    handed = written(decide(sight(A, level, wanted, held_s=99.5)))
    assert (handed.holder, handed.number, handed.wanted, handed.confirmed) == (B, 4, "", 120)


@pytest.mark.parametrize(
    ("waited_s", "behind", "expected"),
    [
        (0.1, MASTER, KeepWaiting),
        (0.8, MASTER, HoldSends),
        (0.8, replace(MASTER, metadata=8), KeepWaiting),
        (0.8, replace(MASTER, end=MASTER.end + JOIN_BYTES_MAX), KeepWaiting),
        (2.6, replace(MASTER, metadata=8), HoldSends),
        (0.1, replace(MASTER, failing="the disk is full"), HoldSends),
    ],
    ids=["not all agents know", "ready", "lacks tables", "far behind", "not for ever", "sends fail already"],
)
def test_sends_go_on_until_a_planned_change_is_prepared(waited_s: float, behind: BrokerStatus, expected: type) -> None:
    step = decide(sight(A, behind, replace(RECORD, wanted=B), wanted_s=100.0 - waited_s))
    assert isinstance(step, expected), step


def test_a_master_renews_its_lease_while_the_next_one_prepares() -> None:
    wanted = replace(RECORD, wanted=B)
    renewed = written(decide(sight(A, MASTER, wanted, wanted_s=99.9, renewed_s=96.0)))
    assert (renewed.holder, renewed.wanted, renewed.renewals) == (A, B, wanted.renewals + 1)


def test_an_agent_remembers_since_when_a_change_is_wanted() -> None:
    state = AgentState()
    for now_s, wanted, since_s in ((10.0, "", float("-inf")), (11.0, B, 11.0), (12.0, B, 11.0), (13.0, C, 13.0)):
        state.note_record(StoredLease(replace(RECORD, wanted=wanted), "1"), now_s, 4.0)
        state.note_wanted(now_s)
        assert state.wanted == (wanted, since_s)


def test_a_planned_change_that_takes_too_long_is_given_up() -> None:
    wanted, held = replace(RECORD, wanted=B), replace(MASTER, held=True)
    given_up = written(decide(sight(A, held, wanted, held_s=90.0)))
    assert (given_up.holder, given_up.number, given_up.wanted) == (A, 3, "")
    assert isinstance(decide(sight(A, held, given_up)), ReleaseSends)
    assert written(decide(sight(A, MASTER, replace(RECORD, wanted=C)))).wanted == ""


def test_without_waiting_for_replicas_those_near_could_be_next() -> None:
    careless = replace(MASTER, waits=False, required=(), acknowledged=120)
    assert required_members(RECORD, careless) == ()
    assert written(decide(sight(A, careless, renewed_s=0.0))).in_sync == (A, B)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"holder":1}'])
def test_what_is_no_lease_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(LeaseError):
        decode_record(data)
    assert decode_record(RECORD.encode()) == RECORD


def test_a_member_that_gets_no_nearer_is_given_up_and_one_that_keeps_up_is_not() -> None:
    """Its connection is there, its disk hangs: else every send would wait for it, for ever."""
    state, end = AgentState(), 1_000
    timing = TIMING

    def look(now_s: float, position: int) -> LeaseRecord | None:
        broker = replace(MASTER, end=end, replicas=(MemberStatus(address=B, position=position, metadata=7),))
        state.note_positions(broker, now_s, timing.absent_s)
        step = decide(sight(A, broker, now_s=now_s, renewed_s=now_s, heard_s=state.heard_s))
        return step.record if isinstance(step, Write) else None

    for number in range(40):  # always two seconds behind
        end = 1_000 + 100 * number
        assert look(number * 0.5, max(1_000, end - 400)) is None
    stuck = end - 400
    steps = [look(20 + number * 0.5, stuck) for number in range(13)]
    assert steps[0] is None and steps[-1] is not None and steps[-1].in_sync == (A,)
    slow = [B]
    broker = replace(MASTER, end=end, replicas=(MemberStatus(address=B, position=stuck, metadata=7),))
    assert required_members(steps[-1], broker) == (B,) and required_members(steps[-1], broker, slow) == ()
    look(40.0, end)  # it has everything again
    assert state.heard_s[B] == 40.0


def test_a_master_with_a_damaged_log_hands_over_as_with_a_failing_disk() -> None:
    damaged = replace(MASTER, log_damaged=True, reason="the log is damaged on disk")
    assert damaged.unfit == "the log is damaged on disk" and not MASTER.unfit
    step = decide(sight(A, damaged, failing_s=90.0))
    assert isinstance(step, Write) and step.record.wanted == B and damaged.unfit in step.reason


FAILING = replace(MASTER, failing="the disk is full", flushed=115, end=130)


def test_an_async_master_with_a_full_disk_waits_a_while_until_all_that_it_acknowledged_is_flushed_and_copied() -> None:
    held, asked = replace(FAILING, held=True, waits=False), replace(RECORD, wanted=B, waits=False)
    assert isinstance(decide(sight(A, held, asked, held_s=99.0, failing_s=90.0)), KeepWaiting)
    assert written(decide(sight(A, held, asked, held_s=97.0, failing_s=90.0))).holder == B


def test_a_master_whose_disk_takes_nothing_hands_over_to_a_member_that_can_write() -> None:
    assert isinstance(decide(sight(A, FAILING, failing_s=99.5)), KeepWaiting), "it may be a moment only"
    asked = written(decide(sight(A, FAILING, failing_s=90.0)))
    assert (asked.holder, asked.number, asked.wanted) == (A, 3, B)
    held = replace(FAILING, held=True)
    handed = written(decide(sight(A, held, asked, held_s=99.9, failing_s=90.0)))
    assert (handed.holder, handed.number, handed.handed) == (B, 4, True), "what is not on disk was never acknowledged"


def test_a_master_whose_disk_takes_nothing_stays_it_where_nobody_else_could_write() -> None:
    full = replace(FAILING, replicas=(MemberStatus(address=B, position=115, metadata=7, writable=False),))
    assert isinstance(decide(sight(A, full, failing_s=90.0)), KeepWaiting)
    alone = written(decide(sight(A, FAILING, replace(RECORD, in_sync=(A,)), failing_s=90.0)))
    assert (alone.holder, alone.wanted) == (A, "")


def test_a_lease_is_over_for_others_a_margin_after_it_is_over_for_its_holder() -> None:
    duration_s = RECORD.duration_ms / 1000
    last = 100.0 - duration_s - TIMING.margin_s
    others = [sight(B, REPLICA, seen_s=last + late_s) for late_s in (0.0, -0.01)]
    assert [each.is_expired for each in others] == [False, True]
    last = 100.0 - duration_s + TIMING.margin_s
    own = [sight(A, MASTER, mine=RECORD, renewed_s=last + late_s) for late_s in (0.01, 0.0)]
    assert [each.is_granted for each in own] == [True, False], "clocks may differ by twice the margin"
    assert not sight(A, MASTER).is_granted, "it has written none"


def test_a_lease_of_ours_does_not_promote_a_log_that_it_does_not_call_in_sync() -> None:
    record = replace(RECORD, holder=B, in_sync=(A,))
    assert isinstance(decide(sight(B, REPLICA, record)), KeepWaiting)
    assert decide(sight(B, REPLICA, replace(record, in_sync=(A, B)))) == Promote(record.number)


# --- disks that were replaced ---


def test_a_holder_with_a_new_disk_waits_for_a_member_that_has_something() -> None:
    """The others cut what they had: found by seed 300676 of the simulator, with one of three members away."""
    empty = replace(MASTER, number=0, end=0, flushed=0, acknowledged=0, required=(), replicas=())
    renewed = replace(KNOWN, renewals=5)
    most = Census(answers={B: REPLICA})
    assert isinstance(decide(sight(A, empty, renewed, **UNSURE, census=most)), KeepWaiting)
    nothing_yet = replace(renewed, confirmed=0)
    assert isinstance(decide(sight(A, empty, nothing_yet, **UNSURE, census=most)), KeepWaiting)
    assert isinstance(decide(sight(A, empty, nothing_yet)), KeepWaiting), "sure of the store or not"
    shorter = replace(MASTER, number=2, end=99, flushed=99)
    assert isinstance(decide(sight(A, shorter, renewed, **UNSURE, census=most)), KeepWaiting)
    forced = replace(nothing_yet, forced=True, in_sync=(A,))
    assert decide(sight(A, empty, forced, **{**UNSURE, "seen_s": 0.0})) == Promote(3, None), "an operator knows better"


def test_the_first_lease_is_that_of_a_new_disk() -> None:
    first = LeaseRecord(holder=A, number=1, in_sync=(A,), duration_ms=9000)
    assert decide(sight(A, replace(MASTER, number=0), first)) == Promote(1, None)


def test_the_first_lease_needs_an_answer_of_everybody_who_is_known() -> None:
    """One of two lost its disk and the store its lease, and it went on alone: found by seed 302046 of the simulator."""
    empty = replace(MASTER, number=0, end=0, flushed=0, acknowledged=0, required=(), replicas=())
    waited = {**UNSURE, "asked_s": 0.0, "seen_s": 0.0}
    step = decide(sight(A, empty, None, **waited, census=Census(named=frozenset((B,)))))
    assert isinstance(step, KeepWaiting) and f"start {B}" in step.reason
    other = Census(answers={B: replace(REPLICA, number=0, master="")}, named=frozenset((B,)))
    assert written(decide(sight(A, empty, None, **waited, census=other))).number == 1


def test_an_agent_remembers_a_lease_that_store_and_disk_have_lost() -> None:
    empty = replace(MASTER, number=0, end=0, flushed=0, acknowledged=0, required=(), replicas=())
    state = AgentState()
    state.note_record(StoredLease(replace(RECORD, renewals=4), "1"), 10.0, 9.0)
    state.note_record(StoredLease(replace(RECORD, renewals=3), "2"), 11.0, 9.0)
    state.note_record(None, 12.0, 9.0)
    assert state.newest == replace(RECORD, renewals=4)
    assert decide(sight(A, empty, None, **UNSURE, newest=state.newest)) == Ask((A, B))
    step = decide(sight(A, empty, None, **UNSURE, newest=state.newest, census=Census(), seen_s=0.0))
    assert isinstance(step, KeepWaiting) and "lease 3 of a:1 was seen" in step.reason
    never_granted = LeaseRecord(holder=A, number=1, in_sync=(A,), duration_ms=9000)
    again = written(decide(sight(A, empty, None, **UNSURE, newest=never_granted, census=Census(), seen_s=0.0)))
    assert again.number == 1


def test_a_member_with_a_new_disk_has_nothing_to_say() -> None:
    """One member was master of a newer lease with it, and is away: found by seed 301102 of the simulator."""
    known = replace(MASTER, members=(A, B, C))
    empty = replace(REPLICA, number=0, end=0, flushed=0, master="")
    for record in (None, KNOWN):
        step = decide(sight(A, known, record, **UNSURE, census=Census(answers={B: empty}), seen_s=0.0))
        assert isinstance(step, KeepWaiting) and f"{B}, {C}" in step.reason
        one_remembers = Census(answers={B: empty, C: replace(REPLICA, address=C)})
        assert written(decide(sight(A, known, record, **UNSURE, census=one_remembers, seen_s=0.0))).number == 4


def test_a_new_disk_that_was_told_of_an_older_lease_has_nothing_to_say_either() -> None:
    """The store was set back, and a member with a new disk followed what it said: found by seed 400020."""
    known = replace(MASTER, members=(A, B, C))
    told = replace(REPLICA, is_new=True)
    step = decide(sight(A, known, KNOWN, **UNSURE, census=Census(answers={B: told}), seen_s=0.0))
    assert isinstance(step, KeepWaiting) and f"{B}, {C}" in step.reason
    assert (
        written(decide(sight(A, known, KNOWN, **UNSURE, census=Census(answers={B: REPLICA}), seen_s=0.0))).number == 4
    )
    ours = replace(known, is_new=True)
    step = decide(sight(A, ours, KNOWN, **UNSURE, census=Census(answers={B: REPLICA}), seen_s=0.0))
    assert isinstance(step, KeepWaiting) and f"{A}, {C}" in step.reason, "nor has our own"


def test_when_all_members_answer_nobody_is_left_who_could_know_more() -> None:
    """A set that was killed in its first second had no master for ever, nor one with two new disks of three."""
    known = replace(MASTER, members=(A, B, C))
    new = {each: replace(REPLICA, address=each, is_new=True) for each in (B, C)}
    assert written(decide(sight(A, known, KNOWN, **UNSURE, census=Census(answers=new)))).number == 4
    assert isinstance(decide(sight(A, known, KNOWN, **UNSURE, census=Census(answers={B: new[B]}))), KeepWaiting)
    newer = {**new, C: replace(new[C], number=5)}
    assert isinstance(decide(sight(A, known, KNOWN, **UNSURE, census=Census(answers=newer))), KeepWaiting), "set back"


def test_the_first_lease_stays_the_first_one_where_a_member_is_missing() -> None:
    """The next one was no first lease, and that disk was new: its holder waited for ever."""
    first = LeaseRecord(holder=A, number=1, in_sync=(A,), duration_ms=9000, members=(A, B, C))
    empty = replace(MASTER, number=0, end=0, flushed=0, acknowledged=0, required=(), replicas=(), is_new=True)
    other = replace(REPLICA, number=0, end=0, flushed=0, master="", is_new=True)
    assert decide(sight(A, empty, first, **UNSURE, census=Census(answers={B: other}))) == Promote(1, None)


def test_of_two_one_with_a_new_disk_waits_for_the_other_however_long() -> None:
    ours = replace(MASTER, is_new=True)
    waited = {**UNSURE, "asked_s": 0.0, "renewed_s": 0.0}
    assert isinstance(decide(sight(A, ours, **waited, census=Census())), KeepWaiting)
    assert written(decide(sight(A, MASTER, **waited, census=Census()))).number == 3
    assert written(decide(sight(A, ours, **waited, census=Census(answers={B: REPLICA})))).number == 3


def test_a_member_that_is_new_is_not_waited_for() -> None:
    new = replace(REPLICA, address="d:1", number=0, end=0, flushed=0, master="")
    both = Census(answers={B: REPLICA, "d:1": new}, named=frozenset(("d:1",)))
    again = written(decide(sight(A, replace(MASTER, members=(A, B)), None, **UNSURE, census=both, seen_s=0.0)))
    assert again.number == 4 and "d:1" not in again.members


def test_members_hear_which_lease_an_operator_chose() -> None:
    chosen = replace(RECORD, holder=B, number=5, in_sync=(B,), decided=5, forced=True)
    later = replace(chosen, number=6, forced=False, renewals=9)
    assert decide(sight(A, MASTER, chosen)) == Follow(B, 5, 5) and decide(sight(A, MASTER, later)) == Follow(B, 6, 5)
    holder = replace(MASTER, address=B, number=5, required=(), replicas=())
    assert written(decide(sight(B, holder, chosen, renewed_s=0.0))).decided == 5


# --- masters that are started anew ---

RESTARTED = {"is_restarted": True}


def test_a_master_that_was_started_anew_asks_whether_replicas_have_more() -> None:
    """A bit of its log had changed while it was off, and recovery took it for the end: found by seed 400388."""
    master = replace(MASTER, log_number=3, replicas=())
    assert decide(sight(A, master, **RESTARTED)) == Ask((B,), only=True)
    replica = replace(REPLICA, log_number=3, end=121, flushed=121)
    given = written(decide(sight(A, master, **RESTARTED, census=Census(answers={B: replica}), wall_ms=5)))
    assert (given.holder, given.number, given.in_sync, given.confirmed, given.away) == (B, 4, (B,), 121, {A: 5})


def test_a_master_that_was_started_anew_with_less_than_was_confirmed_does_not_go_on() -> None:
    """Its disk is an older copy, and no replica answers: the record says that acknowledged messages are missing."""
    master = replace(MASTER, log_number=3, end=99, flushed=99, replicas=())
    nobody = Census(answers={})
    step = decide(sight(A, master, **RESTARTED, census=nobody))
    assert (
        isinstance(step, KeepWaiting) and "ends at 99, acknowledged is 100: its disk has lost the rest" in step.reason
    )
    # an operator chose it, it was alone, or all have lost the same: nobody has what is missing
    given = {**RESTARTED, "renewed_s": 0.0}
    assert written(decide(sight(A, master, replace(RECORD, forced=True), **given, census=nobody))).holder == A
    assert written(decide(sight(A, master, replace(RECORD, in_sync=(A,)), **given, census=nobody))).holder == A
    as_short = replace(REPLICA, log_number=3, end=99, flushed=99)
    assert written(decide(sight(A, master, **given, census=Census(answers={B: as_short})))).holder == A
    older = {B: replace(as_short, metadata=6)}
    kept = decide(sight(A, replace(master, metadata=6), **given, census=Census(answers=older)))
    assert written(kept).holder == A, "tables that all have lost are not waited for either"
    three = replace(RECORD, in_sync=(A, B, C))
    assert isinstance(decide(sight(A, master, three, **given, census=Census(answers={B: as_short}))), KeepWaiting)


def test_a_master_that_was_started_anew_with_older_tables_gives_the_lease_to_who_has_them() -> None:
    """The newest text of its topics was damaged, and the one before it was read."""
    master = replace(MASTER, log_number=3, metadata=6, replicas=())
    replica = replace(REPLICA, log_number=3, end=120, flushed=120)
    given = written(decide(sight(A, master, **RESTARTED, census=Census(answers={B: replica}))))
    assert (given.holder, given.number, given.in_sync) == (B, 4, (B,))
    for answers in ({}, {B: replace(replica, end=119)}, {B: replace(replica, metadata=6)}):
        kept = written(decide(sight(A, master, **RESTARTED, census=Census(answers=answers))))
        assert (kept.holder, kept.number) == (A, 3)


def test_a_master_that_was_started_anew_overlooks_nobody_for_one_that_cannot_be_master() -> None:
    master, replica = replace(MASTER, log_number=3, replicas=()), replace(REPLICA, log_number=3, end=121, flushed=121)
    three = replace(RECORD, in_sync=(A, B, C))
    longest = replace(replica, end=130, flushed=130, failing="the disk is full")
    answers = {B: longest, C: replace(replica, address=C)}
    assert written(decide(sight(A, master, three, **RESTARTED, census=Census(answers=answers)))).holder == C
    older, as_long = replace(master, metadata=6), replace(replica, end=120, flushed=120)
    answers = {B: replace(as_long, metadata=6), C: replace(as_long, address=C)}
    assert written(decide(sight(A, older, three, **RESTARTED, census=Census(answers=answers)))).holder == C


def test_a_master_that_was_started_anew_goes_on_if_nobody_has_more() -> None:
    master, replica = replace(MASTER, log_number=3), replace(REPLICA, log_number=3)
    ours, theirs = (Epoch(number=3, start=100, mark=mark) for mark in (7, 8))
    others: tuple[BrokerStatus | None, ...] = (
        None,
        replica,
        replace(replica, end=120),
        replace(replica, end=130, log_number=2),
        replace(replica, end=130, metadata=6),
        replace(replica, end=130, failing="the disk is full"),
    )
    for other in others:
        census = Census(answers={B: other} if other is not None else {})
        renewed = written(decide(sight(A, master, **RESTARTED, census=census, renewed_s=0.0)))
        assert (renewed.holder, renewed.number) == (A, 3), other
    another = Census(answers={B: replace(replica, end=130, epochs=(theirs,))})
    renewed = written(decide(sight(A, replace(master, epochs=(ours,)), **RESTARTED, census=another, renewed_s=0.0)))
    assert renewed.holder == A, "a log that is no copy of ours is for an operator"
    alone = replace(RECORD, in_sync=(A,))
    assert written(decide(sight(A, master, alone, **RESTARTED, renewed_s=0.0))).holder == A
