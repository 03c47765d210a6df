"""What becomes of a batch in concurrent consuming."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.consumer.rules.outcome import (
    BatchResult,
    ConsumeStatus,
    Letters,
    ListenerResult,
    Outcome,
    attempts_max,
    decide,
    give_up,
    letters_of,
    rung,
)
from pyromq.errors import DeadLetterError
from pyromq.typed import UndecodableError
from pyromq.wire.json.heartbeat import MessageModel
from tests.unit.client.messages import FakeMessage, messages, offsets_of

BATCH = messages(0, 1, 2)
SUCCESS, RETRY = ConsumeStatus.SUCCESS, ConsumeStatus.RETRY


@pytest.mark.parametrize(
    ("result", "finished", "sent_back"),
    [
        (SUCCESS, [0, 1, 2], []),
        (RETRY, [], [(0, 0), (1, 0), (2, 0)]),
        (None, [], [(0, 0), (1, 0), (2, 0)]),
        (BatchResult(), [0, 1, 2], []),
        (BatchResult(ack_index=1), [0, 1], [(2, 0)]),
        (BatchResult(ack_index=99), [0, 1, 2], []),
        (BatchResult(ack_index=-1), [], [(0, 0), (1, 0), (2, 0)]),
        (BatchResult(ack_index=-7), [], [(0, 0), (1, 0), (2, 0)]),
        (BatchResult(ack_index=0, delay_level=5), [0], [(1, 5), (2, 5)]),
        (BatchResult(RETRY, ack_index=1, delay_level=2), [], [(0, 2), (1, 2), (2, 2)]),
        (BatchResult(RETRY, delay_level=4, delay_levels={1: -1, 2: 0}), [], [(0, 4), (1, -1), (2, 0)]),
    ],
)
def test_messages_behind_the_last_success_are_sent_back(
    result: ListenerResult, finished: list[int], sent_back: list[tuple[int, int]]
) -> None:
    outcome = decide(BATCH, result)
    assert offsets_of(outcome.finished) == finished
    assert [(item.message.offset, item.delay_level) for item in outcome.send_back] == sent_back
    assert not outcome.dropped


def test_broadcasting_drops_what_failed() -> None:
    outcome = decide(BATCH, BatchResult(ack_index=0), model=MessageModel.BROADCASTING)
    assert outcome == Outcome(finished=BATCH[:1], dropped=BATCH[1:])


@given(
    st.builds(
        BatchResult,
        st.sampled_from(ConsumeStatus),
        st.none() | st.integers(-5, 40),
        st.integers(-1, 18),
        st.dictionaries(st.integers(0, 32), st.integers(-1, 18)),
    )
    | st.sampled_from([None, SUCCESS, RETRY]),
    st.integers(1, 32),
    st.sampled_from(MessageModel),
)
@settings(max_examples=200)
def test_every_message_has_exactly_one_fate(result: ListenerResult, count: int, model: MessageModel) -> None:
    outcome = decide(messages(*range(count)), result, model=model)
    fates = [*outcome.finished, *outcome.dropped, *(item.message for item in outcome.send_back)]
    assert sorted(offsets_of(fates)) == list(range(count))


def test_a_consumer_that_sets_no_limit_of_attempts_has_none_of_its_own() -> None:
    assert attempts_max(-1) is None
    assert attempts_max(0) == 0


@pytest.mark.parametrize(("failures", "level"), [(1, 1), (2, 1), (3, 1), (4, 7), (5, 7), (6, 0), (7, -1), (1_000, -1)])
def test_a_rung_of_the_ladder_holds_until_the_next(failures: int, level: int) -> None:
    assert rung({7: -1, 1: 1, 4: 7, 6: 0}, failures) == level


def test_below_the_first_rung_and_without_a_ladder_the_broker_chooses() -> None:
    assert rung({3: 5}, 2) == rung({}, 9) == 0


def test_the_ladder_counts_for_messages_whose_level_the_listener_left_open() -> None:
    batch = [FakeMessage(offset, delivery_attempt=offset) for offset in range(4)]
    outcome = decide(batch, BatchResult(RETRY, delay_levels={1: 9, 2: -1}), ladder={1: 2, 4: 6})
    assert [item.delay_level for item in outcome.send_back] == [2, 9, -1, 6]


# --- dead letters at once ---


def test_a_listener_speaks_of_all_its_messages_or_of_those_that_do_not_decode() -> None:
    assert letters_of(DeadLetterError("why"), 2) == Letters({0: "why", 1: "why"}, "listener")
    assert letters_of(DeadLetterError(""), 1).reasons == {0: "no reason given"}
    assert letters_of(UndecodableError({1: "bad"}), 3) == Letters({1: "bad"}, "decode")


def test_places_that_are_not_in_the_batch_make_no_message_disappear() -> None:
    assert letters_of(UndecodableError({7: "bad"}), 2).reasons == {0: "bad", 1: "bad"}


def test_letters_are_sent_back_with_their_reasons_and_dropped_in_broadcasting() -> None:
    batch = messages(4, 5, 6)
    letters = Letters({0: "a", 2: "b"}, "decode")
    outcome = give_up(batch, letters)
    assert [(item.message.offset, item.delay_level, item.reason, item.stage) for item in outcome.send_back] == [
        (4, -1, "a", "decode"),
        (6, -1, "b", "decode"),
    ]
    assert not outcome.finished
    dropped = give_up(batch, letters, model=MessageModel.BROADCASTING)
    assert [message.offset for message in dropped.dropped] == [4, 6]
