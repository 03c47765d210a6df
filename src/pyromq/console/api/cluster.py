"""The cluster: brokers, rates, disks; its health with reasons."""

from __future__ import annotations

from pyromq.console.views.cluster import ClusterView, cluster_view
from pyromq.console.views.health import Health, health
from pyromq.console.views.replication import ReplicationView, replication_view
from pyromq.console.web.api import Api, Call

functions = Api("cluster")


@functions.get("/cluster", summary="Brokers with rates, disks and addresses")
async def cluster(call: Call) -> ClusterView:
    """Brokers as they were a moment ago. A broker that does not answer says why in ``problem``."""
    return await cluster_view(call.desk)


@functions.get("/health", summary="What pyromq doctor says")
async def examine(call: Call) -> Health:
    """The worst first. ``examining`` is true while the first look is not over: ask again."""
    return await health(call.desk)


@functions.get("/replication", summary="Masters and their replicas: roles, how far behind, what is wrong")
async def replication(call: Call) -> ReplicationView:
    """Replication as it was a moment ago; what a broker did not report is null."""
    return await replication_view(call.desk)
