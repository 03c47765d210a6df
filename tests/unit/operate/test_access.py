"""Users and rights are changed at every master; a broker without one is named."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyromq.client.admin.access_requests import AccessRequests
from pyromq.client.admin.directory import BrokerDirectory
from pyromq.errors import BrokerError
from pyromq.model.route import BrokerData
from pyromq.operate.access import AccessFacet
from pyromq.wire.json.access import UserInfo
from pyromq.wire.json.route import ClusterInfo


class Cluster:
    """Stands for AdminRequests of a cluster with these brokers: notes whom a change is sent to."""

    def __init__(self, **brokers: dict[int, str]) -> None:
        self._table = {
            name: BrokerData(cluster="C", broker_name=name, broker_addrs=addresses)
            for name, addresses in brokers.items()
        }
        self.changed: list[tuple[str, ...]] = []
        self.access: Any = self
        self.directory = BrokerDirectory(cast(Any, None), cast(Any, self))
        self.facet = AccessFacet(cast(Any, self))

    async def cluster(self) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=self._table, cluster_addr_table={"C": list(self._table)})

    async def create_user(self, masters: list[str], user: UserInfo) -> None:
        self.changed.append(tuple(masters))


async def test_a_user_is_made_at_all_masters() -> None:
    cluster = Cluster(a={0: "a:1", 1: "a:2"}, b={0: "b:1"})
    await cluster.facet.create_user("alice", "her password")
    assert cluster.changed == [("a:1", "b:1")]


async def test_a_broker_that_has_no_master_at_the_moment_is_named_when_the_others_are_changed() -> None:
    cluster = Cluster(a={0: "a:1", 1: "a:2"}, b={1: "b:2"}, c={2: "c:3"})
    with pytest.raises(BrokerError, match="changed everywhere but at b, c: there is no master"):
        await cluster.facet.create_user("alice", "her password")
    assert cluster.changed == [("a:1",)]


async def test_without_any_master_nothing_is_changed() -> None:
    cluster = Cluster(a={1: "a:2"})
    with pytest.raises(BrokerError, match="no broker with a master"):
        await cluster.facet.create_user("alice", "her password")
    assert cluster.changed == []


class Servers:
    """Stand for the requests of brokers and name servers; those of ``having`` have the user already."""

    def __init__(self, *having: str, failing: str = "") -> None:
        self.having, self.failing = {*having}, failing
        self.requests = AccessRequests(cast(Any, self), cast(Any, self))

    async def ask(self, address: str, *_: object) -> None:
        if address == self.failing:
            raise BrokerError(code=1, remark="the disk is full")
        if address in self.having:
            raise BrokerError(code=1, remark="The user is existed: 'alice'")
        self.having.add(address)

    async def ask_those_that_know(self, *_: object) -> None:
        await self.ask("name server")


ALICE = UserInfo(username="alice", password="her password")


async def test_a_user_that_some_servers_lack_is_made_there() -> None:
    servers = Servers("name server", "a:1")
    await servers.requests.create_user(["a:1", "b:1"], ALICE)
    assert servers.having == {"name server", "a:1", "b:1"}
    with pytest.raises(BrokerError, match="existed"):
        await servers.requests.create_user(["a:1", "b:1"], ALICE)


async def test_a_server_that_fails_is_reported_before_one_that_has_the_user() -> None:
    servers = Servers("a:1", failing="b:1")
    with pytest.raises(BrokerError, match="disk is full"):
        await servers.requests.create_user(["a:1", "b:1", "c:1"], ALICE)
    assert servers.having == {"name server", "a:1", "c:1"}
    with pytest.raises(BrokerError, match="disk is full"):
        await Servers(failing="name server").requests.create_user(["a:1"], ALICE)
