"""The cluster: brokers and where they are."""

from __future__ import annotations

import msgspec

from pyromq.console.web.api import Api, Call

functions = Api("cluster")


class BrokerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A broker and the addresses that name servers give to clients; 0 is its master."""

    name: str
    cluster: str
    addresses: dict[str, str]


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    nameservers: str
    brokers: list[BrokerPlace]


@functions.get("/cluster", summary="Brokers and their addresses")
async def cluster(call: Call) -> ClusterView:
    """What name servers know now."""
    info = await call.desk.cluster()
    brokers = [
        BrokerPlace(
            name=name,
            cluster=broker.cluster,
            addresses={str(number): address for number, address in sorted(broker.broker_addrs.items())},
        )
        for name, broker in sorted(info.broker_addr_table.items())
    ]
    return ClusterView(nameservers=call.desk.settings.nameservers, brokers=brokers)
