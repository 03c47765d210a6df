"""Grants end at a moment, numbers never go back, and a log knows where it parts from another."""

from __future__ import annotations

import pytest

from pyromq.broker.base.authority import Leased
from pyromq.broker.base.lease import EPOCHS_MAX, FILE_NAME, Lease, LeaseState
from pyromq.broker.base.refusals import RefusedError
from pyromq.errors import CorruptFileError
from pyromq.testing import FaultyDisk
from pyromq.wire.json.membership import Epoch
from tests.unit.broker.builders import ROOT

CONFIG = ROOT / "config"


class Watch:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def lease_of(disk: FaultyDisk, watch: Watch | None = None, address: str = "") -> Lease:
    lease = Lease(watch or Watch(), new_mark=lambda: 77)
    lease.load(disk, CONFIG, address)
    return lease


def test_a_grant_ends_at_its_moment_whatever_happens_meanwhile() -> None:
    watch = Watch()
    lease = lease_of(FaultyDisk(), watch)
    authority = Leased(lease)
    lease.promoted(3, 500)
    assert not lease.is_open and not authority.may_acknowledge(600)
    assert lease.grant(3, 107.0, ("b:1",)) and lease.is_open and lease.left_s == 7.0
    assert authority.wait_left_ms() == 7_001
    assert authority.may_acknowledge(600) and lease.acknowledged == 600
    watch.now_s = 107.0
    assert (
        not lease.is_open and not authority.may_acknowledge(700) and lease.acknowledged == 600 and lease.left_s == 0.0
    )
    assert authority.wait_left_ms() == 0
    with pytest.raises(RefusedError):
        authority.check_accept()


def test_a_grant_of_another_lease_is_none() -> None:
    lease = lease_of(FaultyDisk())
    assert not lease.grant(0, 1e9, ()) and not lease.grant(1, 1e9, ())
    lease.promoted(3, 0)
    assert not lease.grant(2, 1e9, ()) and not lease.grant(4, 1e9, ()) and not lease.is_open
    assert lease.grant(3, 1e9, ())
    lease.follows("b:1", 4)
    assert not lease.is_open and not lease.grant(4, 1e9, ())


def test_what_it_was_told_survives_a_restart() -> None:
    disk = FaultyDisk()
    lease_of(disk).promoted(3, 500)
    again = lease_of(disk)
    assert again.state == LeaseState(
        number=3, log_number=3, role="master", epochs=(Epoch(number=3, start=500, mark=77),)
    )
    again.follows("b:1", 4)
    state = lease_of(disk).state
    assert (state.number, state.log_number, state.role, state.master) == (4, 3, "replica", "b:1")
    again.agreed((Epoch(number=3, start=500), Epoch(number=4, start=700)))
    assert lease_of(disk).state.log_number == 4


def test_a_damaged_file_is_not_taken_for_a_new_broker() -> None:
    disk = FaultyDisk()
    lease_of(disk).promoted(3, 500)
    for name in (FILE_NAME, f"{FILE_NAME}.bak"):
        disk.write(CONFIG / name, b'{"number":')
    with pytest.raises(CorruptFileError):
        lease_of(disk)


@pytest.mark.parametrize(
    ("log_number", "cut"),
    [(0, None), (1, 100), (2, 300), (3, 300), (4, None), (9, None)],
)
def test_logs_part_where_the_first_lease_after_the_own_one_began(log_number: int, cut: int | None) -> None:
    epochs = (Epoch(number=1, start=0), Epoch(number=2, start=100), Epoch(number=4, start=300))
    assert LeaseState(number=9, log_number=log_number).cut_position(epochs) == cut


def test_a_promotion_that_is_ordered_twice_is_one() -> None:
    lease = lease_of(FaultyDisk())
    lease.promoted(3, 500)
    lease.promoted(3, 600)
    assert lease.state.epochs == (Epoch(number=3, start=600, mark=77),)


def test_epochs_are_bounded() -> None:
    lease = lease_of(FaultyDisk())
    for number in range(1, EPOCHS_MAX + 10):
        lease.promoted(number, number)
    assert len(lease.state.epochs) == EPOCHS_MAX and lease.state.epochs[-1].number == EPOCHS_MAX + 9


def test_a_grant_that_comes_late_does_not_take_back_a_later_one() -> None:
    watch = Watch()
    lease = lease_of(FaultyDisk(), watch)
    lease.promoted(3, 500)
    assert lease.grant(3, 107.0, ("b:1",))
    assert not lease.grant(3, 105.0, ()), "it was overtaken: who is waited for now is in the later one"
    assert lease.required == ("b:1",) and lease.left_s == 7.0
    assert lease.grant(3, watch.now_s, ("b:1",)) and not lease.is_open, "one that ends now ends it"


def epochs(*parts: tuple[int, int, int]) -> tuple[Epoch, ...]:
    return tuple(Epoch(number=number, start=start, mark=mark) for number, start, mark in parts)


@pytest.mark.parametrize(
    ("mine", "theirs", "cut"),
    [
        (epochs((1, 0, 5), (2, 100, 6)), epochs((1, 0, 5), (2, 100, 6)), None),
        (epochs((1, 0, 5), (2, 100, 6)), epochs((1, 0, 5), (2, 100, 6), (3, 150, 7)), 150),
        (epochs((1, 0, 5), (2, 100, 6)), epochs((1, 0, 5), (9, 400, 7)), 100),  # 2 was a lease of this broker alone
        (epochs((1, 0, 5), (2, 100, 6)), epochs((1, 0, 5), (2, 100, 8), (9, 400, 7)), 100),  # two leases of one number
        (epochs((1, 0, 0), (2, 100, 0)), epochs((1, 0, 5), (2, 100, 8), (3, 200, 7)), 200),  # before there were marks
        (epochs((2, 100, 6)), epochs((1, 0, 5), (2, 100, 6)), None),  # the oldest are forgotten
    ],
)
def test_logs_part_where_only_one_has_a_lease(
    mine: tuple[Epoch, ...], theirs: tuple[Epoch, ...], cut: int | None
) -> None:
    assert LeaseState(number=9, log_number=2, epochs=mine).cut_position(theirs) == cut


def test_members_are_on_disk_before_they_are_waited_for() -> None:
    disk = FaultyDisk()
    lease = lease_of(disk)
    lease.promoted(1, 0)
    assert lease.grant(1, 107.0, ("b:1",), renewals=3) and lease.renewals == 3
    assert lease_of(disk).state.members == ("b:1",)
    lease.note("", ("a:1", "b:1", "c:1"))
    assert lease.grant(1, 108.0, ("c:1",)) and lease_of(disk).state.members == ("a:1", "b:1", "c:1")
    lease.follows("b:1", 2)
    assert lease_of(disk).state.members == ("a:1", "b:1", "c:1")


def test_what_an_agent_waits_for_is_forgotten_when_it_says_nothing_more() -> None:
    watch = Watch()
    lease = lease_of(FaultyDisk(), watch)
    lease.note("for b:1", ())
    assert lease.waiting == "for b:1"
    watch.now_s += 31.0
    assert lease.waiting == ""


# --- what was acknowledged ---


def epochs_of(*numbers: int, mark: int = 77) -> tuple[Epoch, ...]:
    return tuple(Epoch(number=number, start=100 * number, mark=mark) for number in numbers)


def test_the_first_acknowledgement_under_a_lease_is_on_disk_before_it_leaves() -> None:
    disk = FaultyDisk()
    lease = lease_of(disk)
    lease.promoted(3, 500)
    assert lease.grant(3, 1e9, ())
    authority = Leased(lease)
    assert authority.may_acknowledge(0) and authority.may_acknowledge(500) and lease_of(disk).state.promised is None
    assert authority.may_acknowledge(501)
    kept = lease_of(disk)
    assert kept.state.promised == kept.state.epochs[-1] == Epoch(number=3, start=500, mark=77)
    written = disk.operations
    assert authority.may_acknowledge(900) and disk.operations == written, "once for a lease"


def test_nothing_is_acknowledged_if_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = lease_of(FaultyDisk())
    lease.promoted(3, 500)
    assert lease.grant(3, 1e9, ())

    def full(lease: Lease, state: LeaseState) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patches:
        patches.setattr(Lease, "save", full)
        assert not Leased(lease).may_acknowledge(600) and lease.acknowledged == 500
        assert "the disk is full" in lease.failing, "its agent sees that, and hands over"
    assert Leased(lease).may_acknowledge(600) and not lease.failing


def test_a_disk_that_takes_longer_than_the_lease_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    lease = lease_of(FaultyDisk(), watch)
    lease.promoted(3, 500)
    assert lease.grant(3, 107.0, ())
    monkeypatch.setattr(Lease, "promise", lambda lease: setattr(watch, "now_s", 108.0))
    assert not Leased(lease).may_acknowledge(600)


def test_a_master_that_waits_for_nobody_promises_nothing() -> None:
    lease = lease_of(FaultyDisk())
    lease.promoted(3, 500)
    assert lease.grant(3, 1e9, ())
    assert Leased(lease, promises=False).may_acknowledge(600) and lease.state.promised is None


def test_a_log_without_the_lease_that_was_acknowledged_under_breaks_a_promise() -> None:
    state = LeaseState(number=6, log_number=3, epochs=epochs_of(1, 3), promised=epochs_of(3)[0])
    assert state.broken_promise(epochs_of(1, 3, 6)) is None
    for others in (epochs_of(1, 6), epochs_of(6), (), (*epochs_of(1), *epochs_of(3, mark=78), *epochs_of(6))):
        assert state.broken_promise(others) == state.promised
    forgotten = tuple(Epoch(number=number, start=number) for number in range(10, 10 + EPOCHS_MAX))
    assert state.broken_promise(forgotten) is None
    assert LeaseState(number=6, log_number=3, epochs=epochs_of(1, 3)).broken_promise(epochs_of(6)) is None


def test_a_copy_that_was_promoted_before_it_was_whole_was_not_written_under_what_it_lacks() -> None:
    """The others would cut what they acknowledged under a lease whose name it has, and nothing else."""
    whole = LeaseState(number=6, log_number=3, epochs=epochs_of(1, 2, 3), promised=epochs_of(3)[0])
    disk = FaultyDisk()
    copy = lease_of(disk)
    copy.follows("b:1", 5)
    copy.agreed(epochs_of(1, 2, 3))
    copy.promise()
    copy.promoted(6, 300)
    assert copy.state.epochs == (*epochs_of(1, 2), Epoch(number=6, start=300, mark=77))
    assert whole.broken_promise(copy.state.epochs) == whole.promised
    assert lease_of(disk).state.promised == epochs_of(2)[0], "what it has of it is as good as acknowledged"
    copy.promoted(7, 100)
    assert copy.state.promised is None and copy.state.epochs == (Epoch(number=7, start=100, mark=77),)
    copy.promoted(8, 900)
    copy.promise()
    copy.promoted(9, 901)
    assert [each.number for each in copy.state.epochs] == [7, 8, 9] and copy.state.promised == copy.state.epochs[1]


def test_another_lease_of_the_number_that_an_operator_chose_was_acknowledged_under_later() -> None:
    chosen = Epoch(number=5, start=500, mark=1)
    state = LeaseState(number=6, log_number=5, epochs=epochs_of(5), promised=epochs_of(5)[0], decided=5)
    assert state.broken_promise((chosen, *epochs_of(6))) == state.promised


def test_an_operator_who_chose_a_later_lease_has_said_so() -> None:
    disk = FaultyDisk()
    lease = lease_of(disk)
    lease.promoted(3, 500)
    lease.promise()
    lease.follows("b:1", 4)
    assert lease.state.broken_promise(epochs_of(4)) is not None
    lease.follows("b:1", 5, 5)
    assert lease_of(disk).state.broken_promise(epochs_of(5)) is None
    lease.follows("b:1", 7)
    assert lease.state.decided == 5, "it is not taken back"
    lease.agreed(epochs_of(5, 7))
    assert lease.state.promised is None, "what it had alone is cut"


def test_a_disk_is_new_until_somebody_who_is_sure_says_which_lease_is_the_newest() -> None:
    disk = FaultyDisk()
    lease = lease_of(disk)
    assert lease.state.is_new
    lease.follows("b:1", 2)
    lease.note("", ("b:1",), 0)
    lease.note("", ("b:1",), 3)
    assert lease_of(disk).state.is_new, "the store that it heard of lease 2 from may have been set back"
    lease.note("", (), 2)
    assert not lease_of(disk).state.is_new
    other = lease_of(FaultyDisk())
    other.promoted(1, 0)
    assert not other.state.is_new


def test_a_copy_of_a_masters_disk_is_no_master_and_no_witness() -> None:
    disk = FaultyDisk()
    master = lease_of(disk, address="a:1")
    master.promoted(3, 500)
    master.grant(3, 1e9, ("b:1", "c:1"))
    master.promise()
    own = lease_of(disk, address="a:1").state
    assert (own.role, own.is_new, own.owner) == ("master", False, "a:1")
    copy = lease_of(disk, address="b:1")
    assert (copy.state.role, copy.state.master, copy.state.is_new) == ("replica", "", True)
    assert copy.state.members == ("a:1", "c:1"), "the owner is another one now, and this broker is none"
    assert (copy.state.number, copy.state.log_number, copy.state.epochs) == (3, 3, own.epochs), "true of the log"
    assert copy.state.promised == own.promised, "and not cut without a word"
    copy.follows("a:1", 3)
    assert (copy.state.role, copy.state.master) == ("replica", "a:1")
    copy.agreed(own.epochs)
    assert lease_of(disk, address="b:1").state == copy.state, "from now on it is its own"
    assert lease_of(disk, address="a:1").state.role == "replica", "and the old owner would have a copy"


def test_a_master_that_was_started_with_a_wrong_address_is_master_again_with_its_own() -> None:
    """It was alone, so nobody else would take over, and nothing has happened to its disk."""
    disk = FaultyDisk()
    lease_of(disk, address="a:1").promoted(3, 500)
    own = lease_of(disk, address="a:1").state
    wrong = lease_of(disk, address="a:2")
    wrong.follows("a:1", 3)  # whom the record names: there is nobody
    assert (wrong.state.role, wrong.state.master) == ("replica", "a:1")
    assert lease_of(disk, address="a:1").state == own
    wrong.follows("b:1", 4)
    assert lease_of(disk, address="a:1").state.number == 4, "a newer lease is on the disk before it is obeyed"


def test_a_file_from_before_owners_is_the_brokers_own() -> None:
    disk = FaultyDisk()
    lease_of(disk).promoted(3, 500)
    state = lease_of(disk, address="a:1").state
    assert (state.role, state.is_new, state.owner) == ("master", False, "a:1")
    assert lease_of(disk, address="b:1").state.role == "replica", "from its first start on a copy is noticed"


def test_a_broker_that_has_another_address_with_every_start_owns_what_it_finds() -> None:
    disk = FaultyDisk()
    lease_of(disk, address="a:1").promoted(3, 500)
    lease = lease_of(disk, address="")
    assert (lease.state.role, lease.state.is_new, lease.is_copy) == ("master", False, False)
