"""The rules of registration and removal, one sentence each."""

from __future__ import annotations

import pytest

from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.model.topic import Perm
from pyromq.nameserver.errors import LimitError, RegistrationRefusedError
from pyromq.nameserver.members import BrokerEndpoint, Outranked, Registered
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerLimits
from pyromq.testing.manual_clock import ManualClock
from tests.unit.nameserver.builders import A, B, member, registration, topics, version


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> RouteTable:
    return RouteTable(clock)


def route_of(table: RouteTable, topic: str) -> TopicRoute:
    route = table.route(topic)
    assert route is not None, f"no route for {topic}"
    return route


def addresses(table: RouteTable, broker: str = "broker-a") -> dict[int, str]:
    return table.member_addresses(broker)


def queues(table: RouteTable, topic: str) -> QueueData:
    (data,) = route_of(table, topic).queue_datas
    return data


# --- rule 1 --------------------------------------------------------------------------------------------------------


def test_a_second_registration_merges_its_topics(table: RouteTable) -> None:
    table.register(registration(None, "T1", "T2"), "connection")
    table.register(registration(None, "T3", data_version=version(2)), "connection")
    assert table.list_topics().topic_list == ["T1", "T2", "T3"]


def test_two_brokers_share_a_topic(table: RouteTable) -> None:
    table.register(registration(member("broker-b", address=B)), "b")
    table.register(registration(member("broker-a")), "a")
    route = route_of(table, "T1")
    assert [broker.broker_name for broker in route.broker_datas] == ["broker-a", "broker-b"]
    assert [data.broker_name for data in route.queue_datas] == ["broker-a", "broker-b"]


# --- rule 2 --------------------------------------------------------------------------------------------------------


def test_a_first_registration_with_exactly_one_topic_is_refused(table: RouteTable) -> None:
    with pytest.raises(RegistrationRefusedError, match="it must send all its topics first"):
        table.register(registration(None, "T1"), "connection")
    assert addresses(table) == {} and table.route("T1") is None and table.revision == 0


def test_a_new_replica_with_exactly_one_topic_is_refused_too(table: RouteTable) -> None:
    table.register(registration(), "master")
    with pytest.raises(RegistrationRefusedError):
        table.register(registration(member(broker_id=1, address=B), "T1"), "replica")
    assert addresses(table) == {0: A}


def test_a_first_registration_without_topics_is_accepted(table: RouteTable) -> None:
    table.register(registration(table={}), "connection")
    assert addresses(table) == {0: A}


# --- rule 3 --------------------------------------------------------------------------------------------------------


def test_an_address_under_another_id_leaves_the_old_id(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1)), "connection")
    table.register(registration(member(broker_id=0)), "connection")
    assert addresses(table) == {0: A}


def test_a_master_that_becomes_a_replica_keeps_the_topics(table: RouteTable) -> None:
    table.register(registration(member(broker_id=0)), "connection")
    table.register(registration(member(broker_id=1)), "connection")
    assert addresses(table) == {1: A} and table.route("T1") is not None


def test_a_lower_state_version_does_not_take_an_id_from_its_holder(table: RouteTable) -> None:
    table.register(registration(data_version=version(state=5)), "new master")
    outcome = table.register(registration(member(address=B), data_version=version(9, state=4)), "old master")
    assert outcome == Outranked(holder=A, rank=5)
    assert addresses(table) == {0: A}
    assert not table.refresh(BrokerEndpoint("c1", B))


@pytest.mark.parametrize("huge", [1 << 40, (1 << 63) - 1])
def test_nobody_takes_a_name_with_a_version_that_cannot_be_outbid(table: RouteTable, huge: int) -> None:
    table.register(registration(), "the broker")
    for _ in range(3):
        table.register(registration(member(address=B), data_version=version(state=huge)), "another")
        assert addresses(table) == {0: B}
        outranked = table.register(registration(), "the broker")
        assert isinstance(outranked, Outranked)
        known = table.compare_version(BrokerEndpoint("c1", B), version()).known
        assert known is not None and known.state_version == outranked.rank < huge
        table.register(registration(data_version=version(state=outranked.rank + 1)), "the broker")
        assert addresses(table) == {0: A}


def test_elections_count_as_they_are(table: RouteTable) -> None:
    """Also on a name server that has just started and sees them in any order."""
    table.register(registration(data_version=version(state=4_999)), "old master")
    table.register(registration(member(address=B), data_version=version(state=5_000)), "new master")
    assert table.register(registration(data_version=version(state=4_999)), "old") == Outranked(holder=B, rank=5_000)


def test_an_own_high_version_is_no_change_of_topics(table: RouteTable) -> None:
    high = version(state=1 << 40)
    table.register(registration(data_version=high), "c")
    assert not table.compare_version(BrokerEndpoint("c1", A), high).changed


def test_an_outranked_address_loses_the_id_that_it_had_before(table: RouteTable) -> None:
    table.register(registration(data_version=version(state=5)), "master")
    table.register(registration(member(broker_id=1, address=B)), "replica")
    table.register(registration(member(broker_id=0, address=B)), "replica")
    assert addresses(table) == {0: A}


def test_an_equal_state_version_takes_the_id(table: RouteTable) -> None:
    table.register(registration(), "old")
    outcome = table.register(registration(member(address=B), "T3"), "new")
    assert outcome == Registered(is_new=False, displaced=A) and addresses(table) == {0: B}
    assert table.list_topics().topic_list == ["T1", "T2", "T3"]
    assert not table.drop_connection("old"), "the address that was replaced is not live any more"


# --- rule 4 --------------------------------------------------------------------------------------------------------


def test_topics_of_a_replica_do_not_count(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1)), "connection")
    assert table.list_topics().topic_list == [] and addresses(table) == {1: A}


def test_topics_of_the_first_replica_count_when_it_knows_acting_masters(table: RouteTable) -> None:
    table.register(registration(member(broker_id=2), acting_master=False), "connection")
    assert queues(table, "T1").perm == 6


def test_an_acting_master_takes_no_messages(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1), acting_master=True), "connection")
    assert queues(table, "T1").perm == Perm.READ


def test_a_second_replica_does_not_count_even_with_acting_masters(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1), acting_master=True), "1")
    table.register(registration(member(broker_id=2, address=B), "T3", "T4", acting_master=True), "2")
    assert table.list_topics().topic_list == ["T1", "T2"]


def test_a_returning_master_makes_topics_writable_again(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1, address=B), acting_master=True), "replica")
    table.register(registration(acting_master=True), "master")
    assert queues(table, "T1").perm == 6


# --- rule 5 --------------------------------------------------------------------------------------------------------


def test_queue_data_of_the_same_data_version_stay(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.wipe_write_perm("broker-a")
    revision = table.revision
    table.register(registration(), "connection")
    assert queues(table, "T1").perm == Perm.READ and table.revision == revision


def test_queue_data_of_another_data_version_are_taken(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.register(registration(table=topics("T1", read_queue_nums=8), data_version=version(2)), "connection")
    assert queues(table, "T1").read_queue_nums == 8 and queues(table, "T2").read_queue_nums == 4


def test_a_topic_that_lacks_the_broker_comes_back_with_the_same_data_version(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.delete_topic("T1")
    table.register(registration(), "connection")
    assert table.list_topics().topic_list == ["T1", "T2"]


def test_queue_data_are_taken_when_another_address_takes_the_id(table: RouteTable) -> None:
    table.register(registration(), "old")
    table.register(registration(member(address=B), table=topics("T1", read_queue_nums=1)), "new")
    assert queues(table, "T1").read_queue_nums == 1


# --- rule 6 --------------------------------------------------------------------------------------------------------


def test_unregistering_one_of_two_addresses_keeps_the_topics(table: RouteTable) -> None:
    table.register(registration(), "master")
    table.register(registration(member(broker_id=1, address=B)), "replica")
    assert table.unregister("broker-a", A)
    assert addresses(table) == {1: B} and queues(table, "T1").perm == 6


def test_the_last_address_takes_broker_cluster_and_topics_with_it(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.unregister("broker-a", A)
    info = table.cluster_info()
    assert info.broker_addr_table == {} and info.cluster_addr_table == {}
    assert table.list_topics().topic_list == [] and table.route("T1") is None


def test_a_topic_survives_with_the_brokers_that_are_left(table: RouteTable) -> None:
    table.register(registration(), "a")
    table.register(registration(member("broker-b", address=B)), "b")
    table.unregister("broker-b", B)
    assert queues(table, "T1").broker_name == "broker-a"


def test_topics_become_read_only_when_only_an_acting_master_is_left(table: RouteTable) -> None:
    table.register(registration(acting_master=True), "master")
    table.register(registration(member(broker_id=1, address=B), acting_master=True), "replica")
    table.unregister("broker-a", A)
    assert queues(table, "T1").perm == Perm.READ


def test_unregistering_a_stranger_changes_nothing(table: RouteTable) -> None:
    table.register(registration(), "connection")
    assert not table.unregister("broker-a", B) and not table.unregister("broker-z", A)
    assert addresses(table) == {0: A}


def test_a_broker_is_dropped_after_120_seconds_of_silence(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(), "connection")
    clock.advance_ms(120_000)
    assert table.drop_silent() == []
    clock.advance_ms(1)
    assert [entry.connection for entry in table.drop_silent()] == ["connection"]
    assert table.route("T1") is None


def test_a_broker_may_ask_to_be_dropped_sooner(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(silence_ms_max=10_000), "connection")
    clock.advance_ms(10_001)
    assert len(table.drop_silent()) == 1


def test_a_broker_cannot_ask_to_stay_for_ever(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(silence_ms_max=2**62), "connection")
    clock.advance_ms(NameServerLimits().silence_ms_max + 1)
    assert len(table.drop_silent()) == 1


@pytest.mark.parametrize("wish", [None, 0, -5])
def test_a_senseless_wish_means_the_default(table: RouteTable, clock: ManualClock, wish: int | None) -> None:
    table.register(registration(silence_ms_max=wish), "connection")
    clock.advance_ms(120_000)
    assert table.drop_silent() == []


def test_a_heartbeat_counts_as_a_sign_of_life(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(), "connection")
    clock.advance_ms(100_000)
    assert table.refresh(BrokerEndpoint("c1", A))
    clock.advance_ms(100_000)
    assert table.drop_silent() == []


def test_a_wall_clock_that_jumps_drops_no_broker(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(), "connection")
    clock.set_ms(clock.now_ms() + 10**9)
    assert table.drop_silent() == []


def test_a_closed_connection_takes_its_broker_along(table: RouteTable) -> None:
    table.register(registration(), "a")
    table.register(registration(member("broker-b", address=B)), "b")
    assert table.drop_connection("a") == [member()]
    assert [broker.broker_name for broker in route_of(table, "T1").broker_datas] == ["broker-b"]


def test_closing_an_older_connection_does_not_drop_a_broker_that_came_back(table: RouteTable) -> None:
    table.register(registration(), "old")
    table.register(registration(), "new")
    assert table.drop_connection("old") == [] and addresses(table) == {0: A}


# --- rule 7 --------------------------------------------------------------------------------------------------------


def test_a_topic_that_no_broker_registered_has_no_route(table: RouteTable) -> None:
    table.register(registration(), "connection")
    assert table.route("T9") is None


def test_a_broker_without_topics_makes_no_route(table: RouteTable) -> None:
    table.register(registration(table={}), "connection")
    assert table.route("T1") is None and table.list_topics().topic_list == []


# --- roles of one process ------------------------------------------------------------------------------------------


def test_an_address_under_another_broker_name_leaves_the_old_one(table: RouteTable) -> None:
    table.register(registration(member("before")), "connection")
    table.register(registration(member("after")), "connection")
    assert addresses(table, "before") == {} and addresses(table, "after") == {0: A}
    assert queues(table, "T1").broker_name == "after"


def test_a_broker_name_in_use_in_another_cluster_is_refused(table: RouteTable) -> None:
    table.register(registration(), "a")
    with pytest.raises(RegistrationRefusedError, match="in use in cluster 'c1'"):
        table.register(registration(member(address=B, cluster="c2")), "b")
    assert table.cluster_info().cluster_addr_table == {"c1": ["broker-a"]}


def test_a_broker_that_is_alone_may_move_to_another_cluster(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.register(registration(member(cluster="c2")), "connection")
    assert table.cluster_info().cluster_addr_table == {"c2": ["broker-a"]}
    assert table.drop_connection("connection") == [member(cluster="c2")]


def test_a_replica_learns_where_its_master_is(table: RouteTable) -> None:
    replica = registration(member(broker_id=1, address=B))
    assert table.register(replica, "replica") == Registered(is_new=True)
    assert table.register(registration(ha_address="10.0.0.1:10912"), "master") == Registered(is_new=True)
    outcome = table.register(replica, "replica")
    assert outcome == Registered(is_new=False, master_address=A, master_ha_address="10.0.0.1:10912")


# --- versions ------------------------------------------------------------------------------------------------------


def test_a_version_is_compared_with_the_one_registered(table: RouteTable, clock: ManualClock) -> None:
    table.register(registration(data_version=version(3)), "connection")
    clock.advance_ms(100_000)
    same = table.compare_version(BrokerEndpoint("c1", A), version(3))
    assert (same.changed, same.known) == (False, version(3))
    assert table.compare_version(BrokerEndpoint("c1", A), version(4)).changed
    unknown = table.compare_version(BrokerEndpoint("c1", B), version(3))
    assert (unknown.changed, unknown.known) == (True, None)
    clock.advance_ms(100_000)
    assert table.drop_silent() == [], "asking counts as a sign of life"


def test_a_sign_of_life_does_not_move_the_revision(table: RouteTable) -> None:
    table.register(registration(), "connection")
    revision = table.revision
    table.refresh(BrokerEndpoint("c1", A))
    table.register(registration(), "another connection")
    assert table.revision == revision


# --- answers -------------------------------------------------------------------------------------------------------


def test_an_acting_master_is_shown_as_master_when_asked_for(table: RouteTable) -> None:
    table.register(registration(member(broker_id=1), acting_master=True), "1")
    table.register(registration(member(broker_id=2, address=B), acting_master=True), "2")
    route = table.route("T1", acting_masters=True)
    assert route is not None and route.broker_datas[0].broker_addrs == {0: A, 2: B}
    assert route_of(table, "T1").broker_datas[0].broker_addrs == {1: A, 2: B}


def test_a_broker_with_a_master_is_shown_as_it_is(table: RouteTable) -> None:
    table.register(registration(acting_master=True), "connection")
    route = table.route("T1", acting_masters=True)
    assert route is not None and route.broker_datas[0].broker_addrs == {0: A}


def test_cluster_info_lists_every_broker(table: RouteTable) -> None:
    table.register(registration(member("b", address=B, cluster="c2"), zone="z"), "b")
    table.register(registration(member("a")), "a")
    info = table.cluster_info()
    assert info.cluster_addr_table == {"c1": ["a"], "c2": ["b"]}
    assert info.broker_addr_table["b"] == BrokerData(
        cluster="c2", broker_name="b", broker_addrs={0: B}, zone_name="z", enable_acting_master=False
    )


def test_topics_are_listed_by_cluster(table: RouteTable) -> None:
    table.register(registration(member("a"), "T1", "T2"), "a")
    table.register(registration(member("b", address=B, cluster="c2"), "T2", "T3"), "b")
    assert table.list_topics_of_cluster("c1").topic_list == ["T1", "T2"]
    assert table.list_topics_of_cluster("c2").topic_list == ["T2", "T3"]
    assert table.list_topics_of_cluster("c3").topic_list == []


def test_system_topics_are_clusters_and_brokers_with_one_address(table: RouteTable) -> None:
    assert table.list_system_topics().broker_addr is None
    table.register(registration(), "connection")
    listed = table.list_system_topics()
    assert listed.topic_list == ["broker-a", "c1"] and listed.broker_addr == A


def test_unit_topics_are_told_by_their_flag(table: RouteTable) -> None:
    flags = {name: topics(name, topic_sys_flag=flag)[name] for flag, name in enumerate(("none", "unit", "sub", "both"))}
    table.register(registration(table=flags), "connection")
    assert table.list_unit_topics().topic_list == ["both", "unit"]
    assert table.list_unit_subscribed_topics().topic_list == ["both", "sub"]
    assert table.list_unit_subscribed_only_topics().topic_list == ["sub"]


def test_filter_servers_are_part_of_the_route(table: RouteTable) -> None:
    table.register(registration(filter_servers=("10.0.0.9:1",)), "connection")
    assert route_of(table, "T1").filter_server_table == {A: ["10.0.0.9:1"]}
    revision = table.revision
    table.register(registration(), "connection")
    assert route_of(table, "T1").filter_server_table == {} and table.revision > revision


# --- administration ------------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_and_added_on_every_topic_of_a_broker(table: RouteTable) -> None:
    table.register(registration(table=topics("T1", "T2", perm=7)), "a")
    table.register(registration(member("broker-b", address=B)), "b")
    assert table.wipe_write_perm("broker-a") == 2
    assert [data.perm for data in route_of(table, "T1").queue_datas] == [5, 6]
    assert table.add_write_perm("broker-a") == 2
    assert [data.perm for data in route_of(table, "T1").queue_datas] == [6, 6]
    assert table.wipe_write_perm("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(table: RouteTable) -> None:
    table.register(registration(member("a")), "a")
    table.register(registration(member("b", address=B, cluster="c2")), "b")
    table.delete_topic("T1", "c2")
    assert queues(table, "T1").broker_name == "a"
    table.delete_topic("T1", "no such cluster")
    table.delete_topic("T2")
    table.delete_topic("T9")
    assert table.list_topics().topic_list == ["T1"]


def test_a_topic_is_registered_on_known_brokers_only(table: RouteTable) -> None:
    table.register(registration(), "connection")
    known, unknown = (
        QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in ("broker-a", "broker-z")
    )
    table.register_topic("T3", [unknown, known])
    table.register_topic("T4", [unknown])
    assert queues(table, "T3") == known and table.route("T4") is None


# --- limits --------------------------------------------------------------------------------------------------------


def test_too_many_brokers_are_refused(clock: ManualClock) -> None:
    table = RouteTable(clock, limits=NameServerLimits(brokers_max=1))
    table.register(registration(), "a")
    with pytest.raises(RegistrationRefusedError, match="1 brokers are registered"):
        table.register(registration(member("broker-b", address=B)), "b")
    table.register(registration(data_version=version(2)), "a")


def left_out(outcome: Registered | Outranked) -> dict[str, str]:
    assert isinstance(outcome, Registered)
    return dict(outcome.left_out)


def test_topics_beyond_the_limit_of_a_broker_are_left_out_at_once_and_over_time(clock: ManualClock) -> None:
    table = RouteTable(clock, limits=NameServerLimits(topics_per_broker_max=2))
    beyond = "broker 'broker-a' would have more than 2 topics"
    assert left_out(table.register(registration(None, "T1", "T2", "T3"), "connection")) == {"T3": beyond}
    assert left_out(table.register(registration(), "connection")) == {}
    assert left_out(table.register(registration(None, "T3", "T2"), "connection")) == {"T3": beyond}
    more = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    with pytest.raises(LimitError):
        table.register_topic("T3", [more])
    assert table.list_topics().topic_list == ["T1", "T2"]


def test_the_table_has_room_for_so_many_topics(clock: ManualClock) -> None:
    table = RouteTable(clock, limits=NameServerLimits(topics_max=2))
    table.register(registration(), "a")
    other = registration(member("broker-b", address=B), "T2", "T3")
    assert left_out(table.register(other, "b")) == {"T3": "the name server would have more than 2 topics"}
    assert table.list_topics().topic_list == ["T1", "T2"]
    with pytest.raises(LimitError, match="as many topics as are allowed: 2"):
        table.register_topic("T3", [QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)])
    table.unregister("broker-a", A)
    assert left_out(table.register(other, "b")) == {}


def test_a_registration_with_more_topics_than_one_turn_can_take_is_refused(clock: ManualClock) -> None:
    table = RouteTable(clock, limits=NameServerLimits(topics_per_registration_max=2))
    with pytest.raises(RegistrationRefusedError, match=r"3 topics in one registration.*enableSplitRegistration"):
        table.register(registration(None, "T1", "T2", "T3"), "connection")
    table.register(registration(), "connection")
    table.register(registration(None, "T3", data_version=version(2)), "connection")
    assert table.list_topics().topic_list == ["T1", "T2", "T3"]


@pytest.mark.parametrize(
    "who",
    [
        member(broker=""),
        member(broker=" "),
        member(broker="a\nb"),
        member(broker="x" * 256),
        member(cluster=""),
        member(broker_id=-1),
        member(address="10.0.0.1"),
        member(address="10.0.0.1:0"),
        member(address="10.0.0.1:65536"),
        member(address="10.0.0.1:1,10.0.0.2:1"),
        member(address='a"b:1'),
        member(address=":1"),
        member(address="x" * 250 + ":10911"),
    ],
)
def test_a_member_that_clients_could_not_use_is_refused(table: RouteTable, who: object) -> None:
    with pytest.raises(RegistrationRefusedError):
        table.register(registration(who), "connection")  # type: ignore[arg-type]
    assert table.revision == 0


@pytest.mark.parametrize("address", ["[fe80::1]:10911", "fe80::1:10911", "broker.example.org:1"])
def test_host_names_and_ipv6_addresses_are_accepted(table: RouteTable, address: str) -> None:
    table.register(registration(member(address=address)), "connection")
    assert addresses(table) == {0: address}


@pytest.mark.parametrize(
    "fields", [{"read_queue_nums": -1}, {"write_queue_nums": 65_537}, {"perm": -1}, {"topic_sys_flag": 2**31}]
)
def test_an_absurd_topic_is_left_out_and_the_others_count(table: RouteTable, fields: dict[str, int]) -> None:
    outcome = table.register(registration(table={**topics("T1"), **topics("T2", **fields)}), "connection")
    assert list(left_out(outcome)) == ["T2"] and "'T2'" in left_out(outcome)["T2"]
    assert table.list_topics().topic_list == ["T1"]


def test_a_topic_that_became_absurd_keeps_its_route(table: RouteTable) -> None:
    table.register(registration(), "connection")
    table.register(
        registration(table={**topics("T1"), **topics("T2", read_queue_nums=10**6)}, data_version=version(2)), "c"
    )
    assert queues(table, "T2").read_queue_nums == 4


def test_topic_names_are_bounded(table: RouteTable) -> None:
    unfit = left_out(table.register(registration(None, "T1", "x" * 256, "a\nb"), "connection"))
    assert ["longer than 255" in unfit["x" * 256], "cannot be printed" in unfit["a\nb"]] == [True, True]
    assert table.list_topics().topic_list == ["T1"]


def test_filter_servers_are_bounded(table: RouteTable) -> None:
    with pytest.raises(RegistrationRefusedError, match="65 filter servers"):
        table.register(registration(filter_servers=("s:1",) * 65), "connection")
