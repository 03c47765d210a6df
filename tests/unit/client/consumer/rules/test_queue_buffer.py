"""QueueBuffer: progress never passes an unfinished message."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.consumer.rules.buffer_state import Head, Stage
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.testing.manual_clock import ManualClock
from tests.unit.client.messages import FakeMessage, messages, offsets_of


def filled(*offsets: int, clock: ManualClock | None = None) -> QueueBuffer[FakeMessage]:
    buffer: QueueBuffer[FakeMessage] = QueueBuffer(clock or ManualClock())
    buffer.add(messages(*offsets))
    return buffer


# --- committing ----------------------------------------------------------------------------------------------------


def test_an_empty_buffer_has_nothing_to_commit() -> None:
    buffer = filled()
    assert buffer.commit_offset() is None
    assert buffer.finish(messages(1)) is None


def test_progress_stops_at_the_first_unfinished_message() -> None:
    buffer = filled(10, 11, 12, 13)
    first, second, third, _ = buffer.take(4)
    assert buffer.finish([second, third]) == 10
    assert buffer.finish([first]) == 13


def test_when_all_are_finished_progress_is_behind_the_largest_offset() -> None:
    buffer = filled(10, 15)
    assert buffer.finish(buffer.take(2)) == 16
    assert buffer.finish(messages(15)) is None, "nothing was left to finish"
    assert buffer.commit_offset() == 16


def test_when_all_are_finished_progress_passes_what_was_filtered_out_behind_them() -> None:
    buffer = filled(10, 11)
    buffer.reach(20)
    first, second = buffer.take(2)
    assert buffer.finish([first]) == 11
    assert buffer.finish([second]) == 20
    buffer.clear()
    buffer.add(messages(3))
    assert buffer.finish(buffer.take(1)) == 4, "after a seek, where it was before counts for nothing"


def test_what_a_listener_is_done_with_is_gone() -> None:
    buffer = filled(1, 2)
    first, second = buffer.take(2)
    assert buffer.consumed([second]) == 0
    assert (buffer.commit_offset(), len(buffer), buffer.size_bytes) == (1, 1, 100)
    assert buffer.consumed([first]) == 0
    assert buffer.commit_offset() == 3


def test_a_message_on_its_way_back_holds_up_progress_until_a_broker_has_it() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(2)
    assert buffer.begin_leaving(batch[:1]) == batch[:1]
    assert buffer.consumed(batch[1:]) == 0
    assert (buffer.commit_offset(), len(buffer), buffer.waiting_count) == (1, 1, 0)
    assert buffer.take(9) == [], "no listener gets it meanwhile"
    assert buffer.finish(batch[:1]) == 3


def test_a_verdict_that_comes_while_the_message_leaves_or_later_counts_for_nothing() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(2)
    buffer.begin_leaving(batch)
    assert buffer.consumed(batch[:1]) == 1
    assert buffer.begin_leaving(batch) == []
    assert buffer.commit_offset() == 1
    buffer.finish(batch)
    assert buffer.consumed(batch) == 2
    assert (buffer.commit_offset(), len(buffer), buffer.size_bytes) == (3, 0, 0)


def test_a_late_verdict_says_nothing_about_the_next_delivery_of_the_message() -> None:
    buffer = filled(1)
    (first,) = buffer.take(1)
    buffer.begin_leaving([first])
    buffer.put_back([first])
    (again,) = buffer.take(1)
    assert buffer.consumed([first]) == 1
    assert buffer.begin_leaving([first]) == []
    assert len(buffer) == 1
    assert buffer.consumed([again]) == 0


def test_a_message_that_leaves_and_is_pulled_again_is_not_handed_out() -> None:
    buffer = filled(1, 2)
    buffer.begin_leaving(buffer.take(1))
    buffer.add(messages(1, 2, 3))
    assert offsets_of(buffer.take(9)) == [2, 3]


def test_a_closed_buffer_commits_nothing() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(1)
    buffer.close()
    assert buffer.begin_leaving(batch) == []
    assert buffer.finish(batch) is None
    assert buffer.commit_offset() is None
    buffer.take(1)
    assert buffer.commit_taken() is None


# --- adding and taking ---------------------------------------------------------------------------------------------


def test_messages_and_bytes_are_counted_until_they_are_finished() -> None:
    buffer = filled(1, 2, 3)
    batch = buffer.take(2)
    assert (len(buffer), buffer.size_bytes, buffer.waiting_count) == (3, 300, 1)
    buffer.finish(batch)
    assert (len(buffer), buffer.size_bytes, buffer.waiting_count) == (1, 100, 1)


def test_a_response_that_comes_twice_is_counted_once() -> None:
    buffer = filled(1, 2)
    taken = buffer.take(1)
    assert buffer.add(messages(1, 2, 3)) == 1
    assert (len(buffer), buffer.size_bytes) == (3, 300)
    assert offsets_of(buffer.take(9)) == [2, 3]
    assert buffer.finish(taken) == 2


def test_messages_out_of_order_are_handed_out_in_order() -> None:
    buffer = filled(5, 6)
    buffer.add(messages(9, 7))
    assert offsets_of(buffer.take(9)) == [5, 6, 7, 9]
    assert buffer.finish(messages(5, 6, 7)) == 9
    assert buffer.finish(messages(9)) == 10


def test_nothing_added_is_nothing_new() -> None:
    assert filled(1).add([]) == 0


@pytest.mark.parametrize("count", [0, 1025])
def test_batches_have_bounds(count: int) -> None:
    with pytest.raises(AssertionError):
        filled(1).take(count)


def test_the_span_grows_while_one_message_is_stuck() -> None:
    buffer = filled(*range(100, 200))
    batch = buffer.take(100)
    buffer.finish(batch[1:50])
    assert buffer.span == 99
    buffer.finish(batch[99:])
    assert buffer.span == 98
    buffer.finish(batch)
    assert buffer.span == 0


# --- putting back --------------------------------------------------------------------------------------------------


def test_messages_put_back_wait_before_those_that_follow_them() -> None:
    buffer = filled(1, 2, 3, 4)
    batch = buffer.take(2)
    buffer.put_back(reversed(batch))
    assert offsets_of(buffer.take(4)) == [1, 2, 3, 4]


def test_messages_put_back_keep_their_place_also_behind_others_put_back() -> None:
    buffer = filled(1, 2, 3)
    first, second, third = buffer.take(3)
    buffer.put_back([third])
    buffer.put_back([first])
    buffer.put_back([second])
    assert offsets_of(buffer.take(3)) == [1, 2, 3]


def test_a_message_that_failed_here_has_one_attempt_more() -> None:
    buffer = filled(1)
    buffer.put_back(buffer.take(1))
    again = buffer.take(1)
    assert again == [FakeMessage(1, delivery_attempt=1)], "the listener sees it"
    buffer.begin_leaving(again)
    buffer.put_back(again)
    again = buffer.take(1)
    assert [message.delivery_attempt for message in again] == [2]
    buffer.put_back(again, failed=False)
    assert buffer.take(1) == again


def test_only_taken_messages_can_be_put_back() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(1)
    buffer.finish(batch)
    buffer.put_back(messages(1, 2))
    assert offsets_of(buffer.take(9)) == [2]


# --- in order ------------------------------------------------------------------------------------------------------


def test_a_buffer_tells_whether_messages_wait() -> None:
    buffer = filled()
    assert not buffer.has_waiting
    buffer.add(messages(1))
    assert buffer.has_waiting
    buffer.take(1)
    assert not buffer.has_waiting


def test_a_commit_covers_all_that_was_taken() -> None:
    buffer = filled(1, 2, 5, 9)
    assert buffer.commit_taken() is None
    buffer.take(2)
    buffer.take(1)
    assert buffer.commit_taken() == 6
    assert len(buffer) == 1
    assert buffer.commit_taken() is None


def test_a_rollback_puts_all_that_was_taken_back_without_counting_an_attempt() -> None:
    buffer = filled(1, 2, 3)
    buffer.take(1)
    buffer.take(1)
    buffer.roll_back_taken()
    assert buffer.take(3) == messages(1, 2, 3)


# --- time and state ------------------------------------------------------------------------------------------------


def test_messages_that_a_listener_has_had_for_too_long_are_found_wherever_they_are() -> None:
    clock = ManualClock()
    buffer = filled(1, 2, 3, 4, 5, clock=clock)
    early = buffer.take(2)
    clock.advance_ms(500)
    buffer.take(2)
    buffer.put_back(early[:1])
    clock.advance_ms(499)
    assert buffer.timed_out(1_000) == []
    clock.advance_ms(1)
    assert buffer.timed_out(1_000) == early[1:], "at the moment when its time is over"
    buffer.begin_leaving(early)
    assert buffer.timed_out(1_000) == [], "each is told of once"
    clock.advance_ms(500)
    assert offsets_of(buffer.timed_out(1_000)) == [3, 4], "the fifth waits and is not late"


def test_the_oldest_listener_is_known() -> None:
    clock = ManualClock()
    buffer = filled(1, 2, clock=clock)
    assert buffer.oldest_taken_ms is None
    clock.advance_ms(7)
    first = buffer.take(1)
    clock.advance_ms(7)
    buffer.take(1)
    assert buffer.oldest_taken_ms == 7
    buffer.consumed(first)
    assert buffer.oldest_taken_ms == 14


def test_the_head_is_the_message_that_holds_up_progress() -> None:
    clock = ManualClock()
    buffer = filled(1, 2, clock=clock)
    assert buffer.head() == Head(FakeMessage(1), Stage.WAITING, 0)
    clock.advance_ms(9)
    first, second = buffer.take(2)
    assert buffer.head() == Head(first, Stage.CONSUMING, 9)
    buffer.begin_leaving([first])
    assert buffer.head() == Head(first, Stage.LEAVING, 0)
    buffer.finish([first])
    assert buffer.head() == Head(second, Stage.CONSUMING, 9)
    buffer.consumed([second])
    assert buffer.head() is None


def test_a_message_put_back_and_taken_again_has_its_time_anew() -> None:
    clock = ManualClock()
    buffer = filled(1, clock=clock)
    buffer.put_back(buffer.take(1))
    clock.advance_ms(900)
    buffer.take(1)
    clock.advance_ms(900)
    assert buffer.timed_out(1_000) == []


def test_the_state_tells_what_is_held_and_what_is_out() -> None:
    buffer = filled(7, 8, 9)
    buffer.take(2)
    assert buffer.state() == (3, 300, 7, 9, 2, 7, 8)
    buffer.clear()
    assert buffer.state() == (0, 0, 0, 0, 0, 0, 0)
    assert buffer.commit_offset() is None


# --- any order of events -------------------------------------------------------------------------------------------


STEPS = ["add", "gap", "again", "take", "consume", "back", "rollback", "leave", "sent", "kept", "late"]


@given(st.lists(st.sampled_from(STEPS), max_size=80), st.randoms())
@settings(max_examples=300)
def test_whatever_happens_progress_never_passes_an_unfinished_message(steps: list[str], rng: random.Random) -> None:
    buffer = filled()
    unfinished: set[int] = set()
    out: list[FakeMessage] = []
    leaving: list[FakeMessage] = []
    stale: list[FakeMessage] = []  # with listeners whose word does not count any more
    next_offset = 0

    def some_of(messages: list[FakeMessage]) -> list[FakeMessage]:
        chosen = rng.sample(messages, rng.randint(1, len(messages))) if messages else []
        for message in chosen:
            messages.remove(message)
        return chosen

    for step in steps:
        if step in ("add", "gap"):
            next_offset += 5 * (step == "gap")
            buffer.add(messages(*range(next_offset, next_offset + 3)))
            unfinished.update(range(next_offset, next_offset + 3))
            next_offset += 3
        elif step == "again":
            buffer.add(messages(*sorted(unfinished)))
        elif step == "take":
            batch = buffer.take(rng.randint(1, 4))
            waiting = sorted(unfinished - set(offsets_of(out)) - set(offsets_of(leaving)))
            assert offsets_of(batch) == waiting[: len(batch)]
            out += batch
        elif step == "consume":
            done = some_of(out)
            unfinished -= set(offsets_of(done))
            assert buffer.consumed(done) == 0
        elif step == "back":
            buffer.put_back(some_of(out))
        elif step == "rollback":
            buffer.roll_back_taken()
            out.clear()
        elif step == "leave":
            given_up = some_of(out)
            assert buffer.begin_leaving(given_up) == given_up
            leaving += given_up
        elif step == "sent":
            sent = some_of(leaving)
            unfinished -= set(offsets_of(sent))
            buffer.finish(sent)
            stale += sent
        elif step == "kept":
            kept = some_of(leaving)
            buffer.put_back(kept)
            stale += kept
        elif step == "late":
            assert buffer.consumed(stale + leaving) == len(stale) + len(leaving)
        assert buffer.commit_offset() == min(unfinished, default=next_offset or None)
        assert (len(buffer), buffer.size_bytes) == (len(unfinished), 100 * len(unfinished))
        assert buffer.waiting_count == len(unfinished) - len(out) - len(leaving)
        assert buffer.span == max(unfinished, default=0) - min(unfinished, default=0)
