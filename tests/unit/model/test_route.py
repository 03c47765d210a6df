from __future__ import annotations

import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.model.route import QUEUE_NUMS_MAX, BrokerData, InvalidRouteError, QueueData, TopicRoute, parse_order_conf


def broker(name: str, **addrs: str) -> BrokerData:
    return BrokerData(cluster="c", broker_name=name, broker_addrs={int(id_[1:]): addr for id_, addr in addrs.items()})


def queues(name: str, *, reads: int = 2, writes: int = 2, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=reads, write_queue_nums=writes, perm=perm)


def test_producers_get_the_writable_queues_of_every_broker_sorted() -> None:
    route = TopicRoute(
        broker_datas=(broker("b", _0="x:1"), broker("a", _0="y:1")),
        queue_datas=(queues("b", writes=1), queues("a", reads=9, writes=2)),
    )
    assert route.publishable_queues("t") == [QueueId("t", "a", 0), QueueId("t", "a", 1), QueueId("t", "b", 0)]


def test_queues_sort_by_number_and_not_by_its_text() -> None:
    route = TopicRoute(broker_datas=(broker("a", _0="x:1"),), queue_datas=(queues("a", writes=12),))
    assert [queue.number for queue in route.publishable_queues("t")] == list(range(12))


def test_a_broker_without_master_takes_no_messages_but_gives_them() -> None:
    route = TopicRoute(broker_datas=(broker("a", _1="x:1"),), queue_datas=(queues("a"),))
    assert route.publishable_queues("t") == []
    assert route.readable_queues("t") == [QueueId("t", "a", 0), QueueId("t", "a", 1)]


def test_queues_of_an_unknown_broker_take_no_messages() -> None:
    assert TopicRoute(queue_datas=(queues("a"),)).publishable_queues("t") == []


@pytest.mark.parametrize(
    "perm, writable, readable", [(0, False, False), (2, True, False), (4, False, True), (7, True, True)]
)
def test_permission_bits_decide_who_sees_a_queue(perm: int, writable: bool, readable: bool) -> None:
    route = TopicRoute(broker_datas=(broker("a", _0="x:1"),), queue_datas=(queues("a", perm=perm),))
    assert bool(route.publishable_queues("t")) is writable
    assert bool(route.readable_queues("t")) is readable


def test_the_configuration_of_an_ordered_topic_replaces_the_queues_for_producers_only() -> None:
    route = TopicRoute(
        broker_datas=(broker("a", _0="x:1"),), queue_datas=(queues("a", reads=1),), order_topic_conf="b:1;a:3;"
    )
    assert [(queue.broker, queue.number) for queue in route.publishable_queues("t")] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 0),
    ]
    assert len(route.readable_queues("t")) == 1


def test_an_empty_order_configuration_counts_as_none() -> None:
    route = TopicRoute(broker_datas=(broker("a", _0="x:1"),), queue_datas=(queues("a"),), order_topic_conf="")
    assert len(route.publishable_queues("t")) == 2


@pytest.mark.parametrize("text", ["a", "a:", ":4", "a:x", "a:-1", "a:٣", "a:4;b", "a:99999999999999"])
def test_an_unreadable_order_configuration_is_a_typed_error(text: str) -> None:
    with pytest.raises(InvalidRouteError):
        parse_order_conf(text)


@pytest.mark.parametrize("number", [-1, QUEUE_NUMS_MAX + 1, 2**62])
def test_an_absurd_number_of_queues_is_refused_instead_of_built(number: int) -> None:
    route = TopicRoute(broker_datas=(broker("a", _0="x:1"),), queue_datas=(queues("a", reads=number, writes=number),))
    with pytest.raises(RemoteProtocolError):
        route.publishable_queues("t")
    with pytest.raises(RemoteProtocolError):
        route.readable_queues("t")


def test_a_broker_is_read_from_its_master_or_else_its_first_replica() -> None:
    assert broker("a", _2="r2", _0="m", _1="r1").readable_addr() == "m"
    assert broker("a", _2="r2", _1="r1").readable_addr() == "r1"
    assert broker("a").readable_addr() is None
    assert broker("a", _1="r1").master_addr is None


def test_a_route_finds_its_brokers_by_name() -> None:
    route = TopicRoute(broker_datas=(broker("a", _0="x"), broker("b", _0="y")))
    found = route.broker("b")
    assert found is not None and found.master_addr == "y"
    assert route.broker("c") is None
