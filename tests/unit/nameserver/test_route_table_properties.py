"""Whatever brokers do, the tables fit together."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model.route import MASTER_ID
from pyromq.nameserver.errors import RegistrationRefusedError
from pyromq.nameserver.members import BrokerEndpoint, Registration
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerLimits
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.json.route import encode_route
from tests.unit.nameserver.builders import member, topics, version

Step = Callable[[RouteTable, ManualClock], object]

BROKERS, CLUSTERS, TOPICS = ("a", "b", "c"), ("c1", "c2"), ("T1", "T2", "T3", "T4")
ADDRESSES = tuple(f"10.0.0.{number}:10911" for number in range(1, 5))
CONNECTIONS = st.integers(0, 3)

MEMBERS = st.builds(
    member,
    st.sampled_from(BROKERS),
    st.integers(0, 2),
    st.sampled_from(ADDRESSES),
    st.sampled_from(("c1", "c1", "c1", "c2")),
)
REGISTRATIONS = st.builds(
    Registration,
    member=MEMBERS,
    topics=st.sets(st.sampled_from(TOPICS)).map(lambda names: topics(*names)),
    data_version=st.builds(version, st.integers(1, 3), st.integers(0, 2)),
    acting_master=st.sampled_from((None, False, True)),
    silence_ms_max=st.sampled_from((None, 10_000)),
)


def registering(registration: Registration, connection: int) -> Step:
    def step(table: RouteTable, _: ManualClock) -> None:
        before = snapshot(table)
        try:
            table.register(registration, connection)
        except RegistrationRefusedError:
            assert snapshot(table) == before, "a refusal changed something"

    return step


STEPS = st.one_of(
    st.builds(registering, REGISTRATIONS, CONNECTIONS),
    st.builds(registering, REGISTRATIONS, CONNECTIONS),
    MEMBERS.map(lambda who: lambda table, _: table.unregister(who.broker, who.address)),
    CONNECTIONS.map(lambda connection: lambda table, _: table.drop_connection(connection)),
    st.sampled_from(TOPICS).map(lambda topic: lambda table, _: table.delete_topic(topic)),
    st.sampled_from(BROKERS).map(lambda broker: lambda table, _: table.wipe_write_perm(broker)),
    st.sampled_from((5_000, 60_000)).map(lambda ms: lambda _, clock: clock.advance_ms(ms)),
    st.just(lambda table, _: table.drop_silent()),
)


def snapshot(table: RouteTable) -> tuple[object, ...]:
    routes = [table.route(topic) for topic in TOPICS]
    return table.cluster_info(), routes, table.list_topics(), table.revision, dict(table._live)


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=150)
def test_any_sequence_of_events_leaves_the_tables_consistent(steps: list[Step]) -> None:
    clock = ManualClock()
    table = RouteTable(clock, limits=NameServerLimits(brokers_max=3, topics_per_broker_max=3))
    for step in steps:
        revision, before = table.revision, snapshot(table)[:3]
        step(table, clock)
        assert_consistent(table)
        assert snapshot(table)[:3] == before or table.revision > revision, "a change that caches would miss"


def assert_consistent(table: RouteTable) -> None:
    info, live = table.cluster_info(), table._live
    listed = {
        (BrokerEndpoint(broker.cluster, address), broker_id, name)
        for name, broker in info.broker_addr_table.items()
        for broker_id, address in broker.broker_addrs.items()
    }
    assert listed == {(key, entry.member.broker_id, entry.member.broker) for key, entry in live.items()}
    assert len(live) <= 3
    assert {name for names in info.cluster_addr_table.values() for name in names} == info.broker_addr_table.keys()
    for name, broker in info.broker_addr_table.items():
        assert broker.broker_addrs and name in info.cluster_addr_table[broker.cluster]
    for topic in table.list_topics().topic_list:
        assert_route_is_whole(table, topic)


def assert_route_is_whole(table: RouteTable, topic: str) -> None:
    for acting_masters in (False, True):
        route = table.route(topic, acting_masters=acting_masters)
        assert route is not None and route.queue_datas
        assert [data.broker_name for data in route.queue_datas] == [each.broker_name for each in route.broker_datas]
        assert all(broker.broker_addrs for broker in route.broker_datas)
        assert b" " not in encode_route(route) and b"{}" not in encode_route(route).split(b'"filterServerTable"')[0]
        for broker in route.broker_datas:
            assert MASTER_ID in broker.broker_addrs or broker.readable_addr() is not None
