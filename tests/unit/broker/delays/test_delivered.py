"""After a life whose progress was not saved: what is in the log already is not delivered again, all else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.broker.delays import delivered
from pyromq.store.timers.files import remove_timer_files
from pyromq.wire.record import Draft
from tests.unit.broker.delays.delay_rig import ROOT, DelayRig

Send = Callable[[DelayRig, str], object]


def at_a_level(rig: DelayRig, name: str) -> object:
    return rig.send_at_level(name, 1)


def at_a_time(rig: DelayRig, name: str) -> object:
    return rig.send_in(name, 1_000)


def next_life(rig: DelayRig) -> DelayRig:
    """Of the same folder, with what was saved before."""
    rig.files.close()
    rig.store.close()
    return DelayRig(rig.disk, rig.wall)


both = pytest.mark.parametrize("send", [at_a_level, at_a_time])


@both
def test_what_was_delivered_comes_once_though_no_progress_was_saved(send: Send) -> None:
    rig = DelayRig()
    rig.save()
    for name in "abc":
        send(rig, name)
    rig.pass_time(1_000)
    assert sorted(rig.delivered()) == ["a", "b", "c"]
    for _ in range(3):
        rig = next_life(rig)
        rig.pass_time(3_000)
        assert sorted(rig.delivered()) == ["a", "b", "c"]


def test_timers_come_once_though_their_second_is_over_when_they_are_taken_again() -> None:
    rig = DelayRig()
    for name in "abc":
        at_a_time(rig, name)
    rig.pass_time(1_000)
    rig.wall.advance_ms(5_000)
    remove_timer_files(rig.disk, ROOT)  # as a replica does that becomes the master: all timers get a second anew
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert sorted(rig.delivered()) == ["a", "b", "c"]


@both
def test_what_was_not_delivered_comes_whatever_else_was(send: Send) -> None:
    rig = DelayRig()
    rig.save()
    send(rig, "a")
    rig.pass_time(500, 500)
    send(rig, "b")
    rig.pass_time(500, 500)
    assert rig.delivered() == ["a"]
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "b"]


@both
def test_one_copy_stands_for_one_message_and_attempts_are_told_apart(send: Send) -> None:
    rig = DelayRig()
    rig.save()
    send(rig, "a")
    rig.pass_time(1_000)
    assert rig.delivered() == ["a"]
    rig.attempt += 1
    send(rig, "a")  # it failed, and is tried again: the same key, birth and body
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"], "the second attempt is another message"
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"]


@both
def test_a_copy_of_an_earlier_attempt_does_not_stand_for_a_later_one(send: Send) -> None:
    rig = DelayRig()
    send(rig, "a")
    rig.pass_time(400, 400)
    rig.attempt += 1
    send(rig, "a")  # two consumers had it, and one has tried more often
    rig.pass_time(600, 600)
    rig.save()
    assert rig.delivered() == ["a"]
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"]


@both
def test_of_messages_that_cannot_be_told_apart_each_comes(send: Send) -> None:
    rig = DelayRig()
    send(rig, "a")
    rig.pass_time(400, 400)
    send(rig, "a")  # the same object, sent twice: the same key, and the same birth if that was quick
    rig.pass_time(600, 600)
    rig.save()
    assert rig.delivered() == ["a"]
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"], "the one copy was of the first"


def test_when_a_level_has_too_many_messages_before_to_know_each_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivered, "_OF_A_QUEUE_MAX", 4)
    monkeypatch.setattr(delivered, "_AT_ONCE", 3)
    rig = DelayRig()
    for number in range(30):
        rig.send_at_level(f"other-{number}", 1, queue_id=1)
    rig.pass_time(1_000)
    rig.save()
    rig.send_at_level("a", 1)
    rig.pass_time(1_000)
    assert rig.delivered() == ["a"]
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"], "at least once is the promise"


def test_what_was_sent_without_a_delay_is_no_copy() -> None:
    rig = DelayRig()
    rig.send_in("a", 300)
    rig.send("a")
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["a", "a"]


@both
def test_another_message_with_the_same_key_is_no_copy(send: Send) -> None:
    rig = DelayRig()
    send(rig, "a")
    rig.wall.advance_ms(1_000)
    other = Draft(topic="orders", queue_id=0, body=b"other", properties=b"UNIQ_KEY\x01a\x02", born_ms=7)
    rig.store.append([other])
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered() == ["other", "a"]


@both
def test_of_queues_with_too_many_messages_since_some_come_again(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivered, "_OF_A_QUEUE_MAX", 4)
    monkeypatch.setattr(delivered, "_AT_ONCE", 3)
    rig = DelayRig()
    rig.save()
    send(rig, "a")
    rig.pass_time(1_000)
    for number in range(30):
        rig.send(f"plain-{number}")
    rig = next_life(rig)
    rig.pass_time(3_000)
    assert rig.delivered().count("a") == 2, "at least once is the promise"
