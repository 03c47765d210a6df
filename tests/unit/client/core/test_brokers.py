"""Links to brokers, and which of a broker's addresses is used."""

from __future__ import annotations

from pyromq.client.core.brokers import Brokers
from pyromq.model.route import BrokerData, TopicRoute
from tests.unit.client.core.doubles import FakeLink, route


def test_brokers_that_no_route_names_any_more_are_dropped_but_not_links_of_others() -> None:
    brokers = Brokers(FakeLink)  # type: ignore[arg-type]
    brokers.learn(route(a="1:1", b="2:2"))
    links = {address: brokers.link(address) for address in ("1:1", "2:2", "9:9")}
    assert brokers.link("1:1") is links["1:1"]
    assert brokers.addresses(masters_only=True) == ["1:1", "2:2"]
    assert brokers.forget_unrouted([route(b="2:2")]) == [links["1:1"]]
    assert (brokers.names(), brokers.address("a"), brokers.address("b")) == (["b"], None, "2:2")
    assert brokers.link("9:9") is links["9:9"]


def test_a_replica_is_readable_when_the_master_is_gone() -> None:
    brokers = Brokers(FakeLink)  # type: ignore[arg-type]
    data = BrokerData(cluster="C", broker_name="a", broker_addrs={2: "2:2", 1: "1:1"})
    brokers.learn(TopicRoute(broker_datas=(data,)))
    assert (brokers.address("a"), brokers.readable_address("a")) == (None, "1:1")
    assert brokers.addresses(masters_only=True) == []
    assert brokers.addresses(masters_only=False) == ["1:1", "2:2"]
