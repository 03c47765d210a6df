"""QueueBuffer: progress never passes an unfinished message."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.queue_buffer import QueueBuffer
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


def test_a_result_that_comes_after_a_timeout_changes_nothing() -> None:
    buffer = filled(1, 2)
    first, _ = buffer.take(2)
    assert buffer.finish([first]) == 2
    assert buffer.finish([first]) == 2
    assert (len(buffer), buffer.size_bytes) == (1, 100)


def test_a_verdict_counts_only_for_messages_that_are_still_out() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(2)
    buffer.finish(batch[:1])
    assert buffer.still_out(batch) == batch[1:]


def test_a_dropped_queue_commits_nothing() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(1)
    buffer.dropped = True
    assert buffer.still_out(batch) == []
    assert buffer.finish(batch) is None
    assert buffer.commit_offset() is None
    buffer.take(1)
    assert buffer.commit_taken() is None


# --- adding and taking ---------------------------------------------------------------------------------------------


def test_messages_and_bytes_are_counted_until_they_are_finished() -> None:
    buffer = filled(1, 2, 3)
    batch = buffer.take(2)
    assert (len(buffer), buffer.size_bytes, buffer.waiting_count, buffer.has_taken) == (3, 300, 1, True)
    buffer.finish(batch)
    assert (len(buffer), buffer.size_bytes, buffer.waiting_count, buffer.has_taken) == (1, 100, 1, False)


def test_an_answer_that_comes_twice_is_counted_once() -> None:
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
    (message,) = buffer.take(1)
    buffer.put_back([message])
    assert buffer.take(1) == [message]
    assert buffer.delivery_attempt(message) == 1
    buffer.put_back([message], failed=False)
    assert buffer.delivery_attempt(message) == 1
    buffer.finish([message])
    assert buffer.delivery_attempt(message) == 0


def test_only_taken_messages_can_be_put_back() -> None:
    buffer = filled(1, 2)
    batch = buffer.take(1)
    buffer.finish(batch)
    buffer.put_back(messages(1, 2))
    assert offsets_of(buffer.take(9)) == [2]


# --- in order ------------------------------------------------------------------------------------------------------


def test_only_one_turn_at_a_time_consumes_in_order() -> None:
    buffer = filled()
    assert not buffer.begin_turn(), "nothing waits"
    buffer.add(messages(1))
    assert buffer.begin_turn()
    assert not buffer.begin_turn()
    buffer.end_turn()
    assert buffer.begin_turn()


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
    (first,) = buffer.take(1)
    buffer.take(1)
    buffer.roll_back_taken()
    assert offsets_of(buffer.take(3)) == [1, 2, 3]
    assert buffer.delivery_attempt(first) == 0


# --- time and state ------------------------------------------------------------------------------------------------


def test_messages_that_hold_up_progress_for_too_long_are_found() -> None:
    clock = ManualClock()
    buffer = filled(1, 2, 3, 4, clock=clock)
    early = buffer.take(2)
    clock.advance_ms(500)
    buffer.take(1)
    clock.advance_ms(501)
    assert buffer.timed_out(1_000) == early
    buffer.finish(early)
    assert buffer.timed_out(1_000) == []
    clock.advance_ms(500)
    assert offsets_of(buffer.timed_out(1_000)) == [3], "the fourth waits and is not late"


def test_at_most_sixteen_late_messages_are_reported_at_once() -> None:
    clock = ManualClock()
    buffer = filled(*range(40), clock=clock)
    batch = buffer.take(40)
    buffer.finish(batch[1:20])
    clock.advance_ms(2)
    assert offsets_of(buffer.timed_out(1)) == [0, *range(20, 35)]


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


def test_a_lock_is_trusted_for_thirty_seconds() -> None:
    clock = ManualClock()
    lock = filled(clock=clock).lock
    assert not lock.held
    lock.granted()
    clock.advance_ms(30_000)
    assert lock.held
    clock.advance_ms(1)
    assert lock.locked and lock.expired and not lock.held
    lock.granted()
    assert lock.held
    lock.lost()
    assert not lock.held


# --- any order of events -------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["add", "gap", "again", "take", "finish", "back", "rollback"]), max_size=60), st.randoms()
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_whatever_happens_progress_never_passes_an_unfinished_message(steps: list[str], rng: random.Random) -> None:
    buffer = filled()
    unfinished: dict[int, FakeMessage] = {}
    out: list[FakeMessage] = []
    next_offset = 0
    for step in steps:
        if step in ("add", "gap"):
            next_offset += 5 * (step == "gap")
            fresh = messages(*range(next_offset, next_offset + 3))
            next_offset += 3
            buffer.add(fresh)
            unfinished.update((message.offset, message) for message in fresh)
        elif step == "again":
            buffer.add(list(unfinished.values()))
        elif step == "take":
            batch = buffer.take(rng.randint(1, 4))
            assert offsets_of(batch) == sorted(unfinished.keys() - {message.offset for message in out})[: len(batch)]
            out += batch
        elif step == "finish" and out:
            done = rng.sample(out, rng.randint(1, len(out)))
            out = [message for message in out if message not in done]
            for message in done:
                del unfinished[message.offset]
            assert buffer.finish(done) == min(unfinished, default=next_offset)
        elif step == "back" and out:
            returned = rng.sample(out, rng.randint(1, len(out)))
            out = [message for message in out if message not in returned]
            buffer.put_back(returned)
        elif step == "rollback":
            buffer.roll_back_taken()
            out = []
        assert (len(buffer), buffer.size_bytes) == (len(unfinished), 100 * len(unfinished))
        assert buffer.waiting_count == len(unfinished) - len(out)
        assert buffer.span == max(unfinished, default=0) - min(unfinished, default=0)
