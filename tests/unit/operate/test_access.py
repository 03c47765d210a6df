"""Users and rights are changed at every master; a broker without one is named."""

from __future__ import annotations

from typing import Any, cast

import pytest

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
