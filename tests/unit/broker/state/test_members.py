from __future__ import annotations

import pytest

from pyromq.broker.state.members import DISAGREEMENT_INTERVAL_MS, ConnectedMember, ConsumerGroup, Members
from pyromq.testing import ManualClock
from pyromq.wire.json.heartbeat import Heartbeat
from tests.unit.broker.builders import heartbeat, producer_heartbeat


class Rig:
    """Members whose connections are plain text."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.members: Members[str] = Members(self.clock, expiry_ms=120_000)

    def hear(self, connection: str, beat: Heartbeat) -> set[str]:
        return self.members.heard_from(connection, beat, "JAVA", 479)

    @property
    def group(self) -> ConsumerGroup[str]:
        group = self.members.consumer_group("readers")
        assert group is not None
        return group


def test_a_member_that_joins_makes_the_group_rebalance_once() -> None:
    rig = Rig()
    assert rig.hear("a", heartbeat("c1", "orders")) == {"readers"}
    assert rig.hear("a", heartbeat("c1", "orders")) == set()
    assert rig.hear("b", heartbeat("c2", "orders")) == {"readers"}
    assert rig.group.client_ids == ["c1", "c2"]


def test_a_member_leaves_by_saying_so_and_the_last_one_takes_the_group_along() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("b", heartbeat("c2", "orders"))
    assert rig.members.unregister("c2", "a", None, "readers") == set(), "not its own connection"
    assert rig.members.unregister("c2", "b", None, "readers") == {"readers"}
    assert rig.members.unregister("c1", "a", None, "readers") == set(), "no member is left to be told"
    assert rig.members.consumer_group("readers") is None


def test_a_lost_connection_takes_everything_along_that_was_said_on_it() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("a", heartbeat("c1", "orders", group="others"))
    rig.hear("a", producer_heartbeat("c1", "senders"))
    rig.hear("b", heartbeat("c2", "orders"))
    assert rig.members.disconnected("a") == {"readers"}
    assert rig.group.client_ids == ["c2"]
    assert rig.members.producers("senders") == [] and rig.members.producer_groups() == {}


def test_silent_connections_are_found_and_those_that_speak_are_not() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("b", producer_heartbeat("c2", "senders"))
    rig.clock.advance_ms(120_000)
    assert rig.members.drop_silent() == ([], set())
    rig.hear("b", producer_heartbeat("c2", "senders"))
    rig.clock.advance_ms(1)
    assert rig.members.drop_silent() == (["a"], set())


def test_a_group_that_a_speaking_client_does_not_mention_any_more_loses_only_that_member() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("a", producer_heartbeat("c1", "old", "new"))
    rig.hear("b", heartbeat("c2", "orders"))
    rig.clock.advance_ms(120_001)
    rig.hear("a", producer_heartbeat("c1", "new"))
    rig.hear("b", heartbeat("c2", "orders"))
    assert rig.members.drop_silent() == ([], {"readers"})
    assert rig.group.client_ids == ["c2"] and list(rig.members.producer_groups()) == ["new"]


def test_new_and_dropped_topics_make_the_group_rebalance_and_a_new_expression_does_not() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    assert rig.hear("a", heartbeat("c1", "orders", "payments", version=2)) == {"readers"}
    assert rig.hear("a", heartbeat("c1", "orders:TagA", "payments", version=3)) == set()
    subscription = rig.members.subscription("readers", "orders")
    assert subscription is not None and subscription.sub_string == "TagA"
    assert rig.hear("a", heartbeat("c1", "payments", version=3)) == {"readers"}
    assert rig.members.subscription("readers", "orders") is None


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders:TagB", version=5))
    rig.hear("b", heartbeat("c2", "orders:TagA", version=4))
    subscription = rig.members.subscription("readers", "orders")
    assert subscription is not None and subscription.sub_string == "TagB"


def test_members_that_subscribe_to_something_else_than_most_are_named() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("b", heartbeat("c2", "orders:TagA"))
    assert rig.group.disagreeing == ["c2"], "of two the older one is right"
    rig.hear("c", heartbeat("c3", "orders:TagA"))
    assert rig.group.disagreeing == ["c1"]
    rig.hear("a", heartbeat("c1", "orders:TagA"))
    assert rig.group.disagreeing == []


def test_a_heartbeat_without_subscriptions_keeps_those_that_are_known() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders", heartbeat_fingerprint=7))
    short = heartbeat("c1", heartbeat_fingerprint=7, without_sub=True)
    assert rig.members.knows("a", short)
    assert rig.hear("a", short) == set()
    assert rig.members.subscription("readers", "orders") is not None
    assert not rig.members.knows("a", heartbeat("c1", heartbeat_fingerprint=8, without_sub=True))
    assert not rig.members.knows("a", heartbeat("c1", "orders", heartbeat_fingerprint=8))


def test_a_full_heartbeat_is_news_when_the_connection_has_said_something_else_before() -> None:
    rig = Rig()
    assert rig.members.knows("a", heartbeat("c1", "orders", heartbeat_fingerprint=7)), "nothing was said before"
    rig.hear("a", heartbeat("c1", "orders", heartbeat_fingerprint=7))
    assert rig.members.knows("a", heartbeat("c1", "orders", heartbeat_fingerprint=7))
    assert rig.members.knows("b", heartbeat("c2", "orders", heartbeat_fingerprint=8)), "another member"
    assert not rig.members.knows("a", heartbeat("c1", "orders", heartbeat_fingerprint=8))


def test_a_heartbeat_without_fingerprint_always_counts_as_news() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    assert not rig.members.knows("a", heartbeat("c1", "orders"))


def test_a_member_whose_subscriptions_are_not_known_yet_is_one_and_disagrees_with_nobody() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    short = heartbeat("c2", heartbeat_fingerprint=7, without_sub=True)
    assert not rig.members.knows("b", short)
    assert rig.hear("b", short) == {"readers"}
    assert not rig.members.knows("b", short), "still not"
    assert rig.group.client_ids == ["c1", "c2"] and rig.group.disagreeing == []


def test_another_client_on_the_same_connection_takes_the_place_of_the_first() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders", heartbeat_fingerprint=7))
    assert rig.hear("a", heartbeat("c9", heartbeat_fingerprint=7, without_sub=True)) == {"readers"}
    assert rig.group.client_ids == ["c9"] and rig.group.members["a"].subscribed is None


def test_a_producer_is_found_by_its_client_id_in_any_group() -> None:
    rig = Rig()
    rig.hear("a", producer_heartbeat("c1", "one", "two"))
    found = rig.members.producer_by_client("c1")
    assert found is not None and found.connection == "a"
    rig.members.unregister("c1", "a", "one", None)
    assert rig.members.producer_by_client("c1") is not None
    rig.members.unregister("c1", "a", "two", None)
    assert rig.members.producer_by_client("c1") is None


class CountedWish(frozenset[tuple[str, str]]):
    """Notes how often two wishes are compared element by element."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedWish.compared += 1
        return super().__eq__(other)

    __hash__ = frozenset.__hash__


def test_joining_compares_a_subscription_with_few_others_however_many_members_there_are() -> None:
    group: ConsumerGroup[str] = ConsumerGroup("readers")
    CountedWish.compared = 0
    for number in range(500):
        wish = CountedWish({("orders", "*")})
        group.put(ConnectedMember(f"c{number}", f"connection-{number}", "JAVA", 479, 0, subscribed=wish))
        assert group.agrees
    assert CountedWish.compared <= 4 * 500


def test_a_disagreement_is_logged_once_in_a_while_and_names_a_few(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(40):
        rig.hear(f"a{number}", heartbeat(f"c{number}", f"topic-{number}"))
    assert len(rig.group.disagreeing) == 39
    assert len(caplog.messages) == 1
    rig.clock.advance_ms(DISAGREEMENT_INTERVAL_MS)
    rig.hear("late", heartbeat("c-late", "others"))
    assert len(caplog.messages) == 2 and ",…: " in caplog.messages[1] and len(caplog.messages[1]) < 400
    assert caplog.messages[0].endswith("c1 subscribes to topic-1 (*), most others to topic-0 (*)")


def test_a_push_and_a_lite_pull_consumer_of_the_same_tags_agree(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.hear("push", heartbeat("c1", "orders:a || b", "%RETRY%readers"))
    rig.hear("pull", heartbeat("c2", "orders:b||a"))
    assert rig.group.agrees and not caplog.messages, "a push consumer reads the retry topic, too; tags have no order"


def test_a_member_hears_how_its_subscription_differs_from_the_others() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders:new", "refunds"))
    assert rig.members.odd_groups("a", ["readers"]) == {}
    rig.hear("b", heartbeat("c2", "orders:paid", "refunds"))
    assert rig.members.odd_groups("a", ["readers", "unknown"]) == {
        "readers": "this client subscribes to orders (new), others to orders (paid)"
    }
    assert rig.members.odd_groups("b", ["readers"]) == {
        "readers": "this client subscribes to orders (paid), others to orders (new)"
    }
    rig.hear("b", heartbeat("c2", "orders:new", "refunds", version=2))
    assert rig.members.odd_groups("a", ["readers"]) == {}


def test_a_new_expression_that_differs_is_logged_although_no_topic_changed(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("b", heartbeat("c2", "orders"))
    rig.hear("b", heartbeat("c2", "orders:TagA", version=2))
    assert [line for line in caplog.messages if "c2 subscribes to orders (TagA), most others to orders (*)" in line]


def test_members_are_sorted_once_for_all_that_ask() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c2", "orders"))
    first = rig.group.client_ids
    assert rig.group.client_ids is first
    rig.hear("b", heartbeat("c1", "orders"))
    assert rig.group.client_ids == ["c1", "c2"]
    rig.members.disconnected("a")
    assert rig.group.client_ids == ["c1"]


def test_a_client_id_leads_to_the_connection_that_has_it() -> None:
    rig = Rig()
    rig.hear("victim", producer_heartbeat("c1", "senders"))
    rig.hear("thief", producer_heartbeat("c1", "thieves"))
    rig.hear("member", heartbeat("c1", "orders"))
    rig.hear("claimer", heartbeat("c1", "orders"))
    found, member = rig.members.producer_by_client("c1"), rig.members.consumer_by_client("readers", "c1")
    assert found is not None and member is not None
    assert (found.connection, member.connection) == ("victim", "member")
    rig.members.not_answered(found)
    found = rig.members.producer_by_client("c1")
    assert found is not None and found.connection == "thief"
    for connection in ("thief", "victim", "member", "claimer"):
        rig.members.disconnected(connection)
    assert rig.members.producer_by_client("c1") is None and rig.members.consumer_by_client("readers", "c1") is None
    assert len(rig.members._ids) == 0 and not rig.members._spoken


def test_a_connection_that_changes_its_client_id_gives_the_old_one_up() -> None:
    rig = Rig()
    rig.hear("a", heartbeat("c1", "orders"))
    rig.hear("a", heartbeat("c2", "orders"))
    rig.hear("b", heartbeat("c1", "orders"))
    found = rig.members.consumer_by_client("readers", "c1")
    assert found is not None and found.connection == "b"
    rig.members.unregister("c2", "a", None, "readers")
    rig.members.unregister("c1", "b", None, "readers")
    assert len(rig.members._ids) == 0
