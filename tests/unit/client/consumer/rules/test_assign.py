"""Shares of a group: the same as RocketMQ's clients compute."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.consumer.rules.assign import (
    STRATEGIES,
    Assign,
    assign_by_hash,
    assign_evenly,
    assign_in_circle,
    assigning_by_room,
    assigning_fixed,
    assigning_nearby,
)
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId


def queues(count: int, broker: str = "broker-a") -> list[QueueId]:
    return [QueueId("orders", broker, number) for number in range(count)]


def ids(count: int) -> list[str]:
    return [f"10.0.0.{number}@1#1" for number in range(count)]


def numbers(assign: Assign, queue_count: int, member_count: int) -> list[list[int]]:
    return [
        [queue.number for queue in assign(queues(queue_count), ids(member_count), member)]
        for member in ids(member_count)
    ]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "shares"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
        (4, 4, [[0], [1], [2], [3]]),
        (2, 4, [[0], [1], [], []]),
        (0, 2, [[], []]),
    ],
)
def test_even_shares_are_consecutive_and_the_first_ones_larger(
    queue_count: int, member_count: int, shares: list[list[int]]
) -> None:
    assert numbers(assign_evenly, queue_count, member_count) == shares


@pytest.mark.parametrize(
    ("queue_count", "member_count", "shares"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (2, 4, [[0], [1], [], []]),
    ],
)
def test_shares_in_a_circle_are_dealt_out_one_by_one(
    queue_count: int, member_count: int, shares: list[list[int]]
) -> None:
    assert numbers(assign_in_circle, queue_count, member_count) == shares


def test_a_queue_belongs_to_the_first_place_at_or_behind_its_hash_and_behind_the_last_comes_the_first() -> None:
    # By md5sum: b-0 34f25f6f, a-0 a165efd1; queues 0 to 7:
    # 96aa27ee f114d564 8c686e44 71eda001 ca150390 8fd54db3 4a444738 f0f46289
    one_place = partial(assign_by_hash, virtual_nodes=1)
    shares = [[queue.number for queue in one_place(queues(8), ["a", "b"], member)] for member in ("a", "b")]
    assert shares == [[0, 2, 3, 5, 6], [1, 4, 7]]


def test_members_stand_on_the_ring_in_ten_places() -> None:
    # places in order (md5sum, member's last digit): 01768fec 1, 033c1059 0, 1a83b4e7 1, 2d1924b9 0, 38ee86b7 1,
    # 434e30d8 1, 464e4c0b 1, 46b52924 0, 479c4cf4 0, 4b774641 0, 4d0f5b27 0, 67d50b55 0, 709b0eac 1, 723ba255 1,
    # 8fd00ce5 0, b13b1165 1, daaee15a 1, eb1e197b 1, fb91a7ec 0, feb9e962 0
    assert numbers(assign_by_hash, 8, 2) == [[1, 2, 6, 7], [0, 3, 4, 5]]


def test_a_ring_moves_only_the_queues_of_the_member_that_left() -> None:
    before = {queue: member for member in ids(4) for queue in assign_by_hash(queues(64), ids(4), member)}
    after = {queue: member for member in ids(3) for queue in assign_by_hash(queues(64), ids(3), member)}
    moved = {queue for queue in before if before[queue] != after[queue]}
    assert moved == {queue for queue in before if before[queue] == ids(4)[3]}


def test_a_ring_needs_places() -> None:
    with pytest.raises(ConfigError, match="at least one place"):
        assign_by_hash(queues(1), ids(1), ids(1)[0], virtual_nodes=0)


def test_fixed_shares_are_what_the_user_said() -> None:
    chosen = [QueueId("orders", "broker-a", 3), QueueId("orders", "broker-a", 1)]
    assert assigning_fixed(chosen)(queues(2), ["x"], "x") == sorted(chosen)


def test_rooms_are_shared_in_blocks_and_the_rest_dealt_out_behind_them() -> None:
    assign = assigning_by_room({"room1", "room2"})
    here = queues(4, "room1@a") + queues(4, "room2@b") + queues(4, "room3@c") + queues(4, "plain") + queues(4, "a@b@c")
    shares = [[(queue.broker, queue.number) for queue in assign(here, ids(3), member)] for member in ids(3)]
    assert shares == [
        [("room1@a", 0), ("room1@a", 1), ("room2@b", 2)],
        [("room1@a", 2), ("room1@a", 3), ("room2@b", 3)],
        [("room2@b", 0), ("room2@b", 1)],
    ]


def test_an_at_sign_at_the_end_of_a_broker_name_is_overlooked_as_java_does() -> None:
    assert assigning_by_room({"room1"})(queues(1, "room1@a@"), ["x"], "x") == queues(1, "room1@a@")
    assert assigning_by_room({"room1"})(queues(1, "room1@"), ["x"], "x") == []


def nearby(inner: Assign = assign_evenly) -> Assign:
    return assigning_nearby(lambda queue: queue.broker.split("-")[0], lambda member: member.split("-")[0], inner)


def test_members_share_their_own_room_and_all_share_deserted_rooms() -> None:
    everything = queues(4, "east-a") + queues(4, "west-b") + queues(4, "north-c")
    members = ["east-1", "east-2", "west-1"]
    shares = {me: [(q.broker, q.number) for q in nearby()(everything, members, me)] for me in members}
    assert shares == {
        "east-1": [("east-a", 0), ("east-a", 1), ("north-c", 0), ("north-c", 1)],
        "east-2": [("east-a", 2), ("east-a", 3), ("north-c", 2)],
        "west-1": [("north-c", 3), ("west-b", 0), ("west-b", 1), ("west-b", 2), ("west-b", 3)],
    }


def test_a_member_of_a_room_without_queues_has_its_part_of_deserted_rooms() -> None:
    assert nearby()(queues(2, "north-c"), ["east-1", "west-1"], "west-1") == [QueueId("orders", "north-c", 1)]


def test_an_unknown_room_is_refused_because_members_could_not_agree() -> None:
    with pytest.raises(ConfigError, match="machine room"):
        assigning_nearby(lambda _: "", lambda _: "east")(queues(1), ["x"], "x")


def test_members_are_ordered_by_utf16_units_as_java_does() -> None:
    members = ["\uffee", "\U0001f600"]  # as code points the first is smaller, as UTF-16 units the second
    assert [queue.number for queue in assign_evenly(queues(2), members, "\U0001f600")] == [0]


COMPLETE: dict[str, Assign] = {
    **STRATEGIES,
    "MACHINE_ROOM": assigning_by_room({"east", "west"}),
    "MACHINE_ROOM_NEARBY-AVG": assigning_nearby(
        lambda queue: queue.broker.split("@")[0], lambda member: "east" if len(member) % 2 else "south"
    ),
    "MACHINE_ROOM_NEARBY-HASH": assigning_nearby(
        lambda queue: queue.broker.split("@")[0], lambda member: "east" if len(member) % 2 else "south", assign_by_hash
    ),
}
QUEUES = st.builds(QueueId, st.just("orders"), st.sampled_from(["east@a", "east@b", "west@a"]), st.integers(0, 9))
MEMBERS = st.text(min_size=1, max_size=6)


@pytest.mark.parametrize("name", COMPLETE)
@given(shared=st.sets(QUEUES), members=st.sets(MEMBERS, min_size=1, max_size=8))
@settings(max_examples=60)
def test_every_queue_has_exactly_one_owner_whatever_the_order_of_the_lists(
    name: str, shared: set[QueueId], members: set[str]
) -> None:
    assign = COMPLETE[name]
    mixed_queues, mixed_members = sorted(shared, reverse=True), sorted(members, reverse=True)
    shares = [assign(mixed_queues, mixed_members, member) for member in members]
    assert sorted(queue for share in shares for queue in share) == sorted(shared)
    assert shares == [assign(sorted(shared), sorted(members), member) for member in members], "order matters"
    assert all(share == sorted(share) for share in shares)


@pytest.mark.parametrize("name", COMPLETE)
@given(shared=st.sets(QUEUES, min_size=1), members=st.sets(MEMBERS, max_size=5), me=MEMBERS)
@settings(max_examples=40)
def test_a_member_that_is_not_on_the_list_gets_nothing(
    name: str, shared: set[QueueId], members: set[str], me: str
) -> None:
    assert COMPLETE[name](shared, members - {me}, me) == []
