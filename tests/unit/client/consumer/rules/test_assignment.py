"""Rebalancing: what to give up, what to take, when to try again."""

from __future__ import annotations

from pyromq.client.consumer.rules.assign import assign_evenly
from pyromq.client.consumer.rules.assignment import (
    Assignment,
    Moves,
    is_pull_expired,
    next_version,
    wanted_queues,
)
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import MessageModel

ORDERS = [QueueId("orders", "broker-a", number) for number in range(4)]
RETRIES = [QueueId("%RETRY%g", "broker-a", 0)]


def test_a_rebalance_revokes_what_is_no_longer_ours_and_grants_what_is_new() -> None:
    current = Assignment(3, frozenset(ORDERS[:2] + RETRIES))
    moves = current.moves_to("orders", ORDERS[1:3])
    assert moves == Moves(revoked=(ORDERS[0],), granted=(ORDERS[2],))
    after = current.after(moves.revoked, moves.granted)
    assert after == Assignment(4, frozenset(ORDERS[1:3] + RETRIES))
    assert after.is_balanced("orders", ORDERS[1:3])


def test_nothing_to_do_is_no_change_and_no_new_generation() -> None:
    current = Assignment(3, frozenset(ORDERS))
    moves = current.moves_to("orders", ORDERS)
    assert not moves
    assert current.after(moves.revoked, moves.granted) is current


def test_other_topics_are_left_alone() -> None:
    assert Assignment(1, frozenset(RETRIES)).moves_to("orders", ORDERS[:1]) == Moves(granted=(ORDERS[0],))


def test_a_queue_that_was_not_pulled_for_two_minutes_is_dropped_and_taken_again() -> None:
    assert not is_pull_expired(last_pull_ms=0, now_ms=120_000)
    assert is_pull_expired(last_pull_ms=0, now_ms=120_001)
    moves = Assignment(1, frozenset(ORDERS[:2])).moves_to("orders", ORDERS[:2], stale=[ORDERS[1], ORDERS[3]])
    assert moves == Moves(revoked=(ORDERS[1],), granted=(ORDERS[1],))


def test_a_stale_queue_that_is_not_wanted_either_is_only_revoked() -> None:
    assert Assignment(1, frozenset(ORDERS[:1])).moves_to("orders", [], stale=ORDERS) == Moves(revoked=(ORDERS[0],))


def test_what_could_not_be_released_or_locked_is_tried_again_in_the_next_round() -> None:
    current = Assignment(1, frozenset(ORDERS[:1]))
    after = current.after(released=[], taken=[ORDERS[1]])  # a busy listener kept 0, the lock of 2 was refused
    assert after.moves_to("orders", ORDERS[1:3]) == Moves(revoked=(ORDERS[0],), granted=(ORDERS[2],))
    assert not after.is_balanced("orders", ORDERS[1:3])


def test_queues_of_topics_that_are_not_subscribed_any_more_are_revoked() -> None:
    current = Assignment(1, frozenset(ORDERS[:1] + RETRIES))
    assert current.moves_without({"%RETRY%g"}) == Moves(revoked=(ORDERS[0],))


def test_a_clustering_member_wants_its_share_and_a_broadcasting_member_everything() -> None:
    members = ["a", "b"]
    assert wanted_queues(ORDERS, members, "b", assign_evenly) == frozenset(ORDERS[2:])
    every = wanted_queues(ORDERS, None, "b", assign_evenly, model=MessageModel.BROADCASTING)
    assert every == frozenset(ORDERS)


def test_without_route_or_members_nothing_can_be_told_and_everything_stays() -> None:
    assert wanted_queues(None, ["a"], "a", assign_evenly) is None
    assert wanted_queues(ORDERS, None, "a", assign_evenly) is None
    assert wanted_queues(ORDERS, [], "a", assign_evenly) is None
    assert wanted_queues(None, None, "a", assign_evenly, model=MessageModel.BROADCASTING) is None


def test_a_member_the_others_do_not_see_gives_everything_up() -> None:
    assert wanted_queues(ORDERS, ["x"], "me", assign_evenly) == frozenset()


def test_a_version_is_the_time_but_never_goes_back() -> None:
    assert next_version(5, 1_000) == 1_000
    assert next_version(2_000, 1_000) == 2_001
