"""Options that many sub-commands of mqadmin share, under its letters and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option

if TYPE_CHECKING:
    from pyromq.aio import Admin
    from pyromq.wire.json.route import ClusterInfo

NamesrvOption = Annotated[
    str,
    Option(
        "-n",
        "--namesrvAddr",
        envvar=["PYROMQ_NAMESERVER", "NAMESRV_ADDR"],
        metavar="HOST:PORT[;…]",
        help="Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'.",
    ),
]
TopicOption = Annotated[str, Option("-t", "--topic", complete="topics", help="Topic name.")]
BrokerAddrOption = Annotated[str, Option("-b", "--brokerAddr", metavar="ADDR", help="Which broker.")]
ClusterNameOption = Annotated[str, Option("-c", "--clusterName", help="Which cluster.")]
RouteOption = Annotated[
    str, Option("-c", "--cluster", hidden=True, help="Cluster name or lmq parent topic; topics are found without it.")
]
GroupNameOption = Annotated[str, Option("-g", "--groupName", complete="groups", help="Consumer group name.")]
ConsumerGroupOption = Annotated[str, Option("-g", "--consumerGroup", complete="groups", help="Consumer group name.")]
BeginOption = Annotated[
    str, Option("-b", "--beginTimestamp", help="Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS].")
]
EndOption = Annotated[
    str, Option("-e", "--endTimestamp", help="End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS].")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersOptions:
    """The brokers that a sub-command is for, as mqadmin has it: one broker, or a cluster. Raises UsageError."""

    broker: BrokerAddrOption = ""
    cluster: ClusterNameOption = ""

    def __post_init__(self) -> None:
        if bool(self.broker) == bool(self.cluster):
            raise click.UsageError("give either -b, the address of a broker, or -c, the name of a cluster")

    async def masters(self, admin: Admin) -> list[tuple[str, str]]:
        """Return the names and addresses of their masters. Raises BadParameter."""
        return self.masters_in(await admin.brokers.cluster())

    def masters_in(self, info: ClusterInfo) -> list[tuple[str, str]]:
        table = info.broker_addr_table
        if self.broker:
            found = [name for name, data in table.items() if self.broker in (name, *data.broker_addrs.values())]
            name = found[0] if found else ""
            return [(name, (table[name].master_addr or self.broker) if self.broker in table else self.broker)]
        names = sorted(info.cluster_addr_table.get(self.cluster, ()))
        known = [(name, address) for name in names if name in table and (address := table[name].master_addr)]
        if not known:
            raise click.BadParameter(
                f"name servers know no cluster {self.cluster} with a master: see mqadmin clusterList"
            )
        return known


def switch(text: str, default: bool = False) -> bool:
    """``-o true``: mqadmin's switches have a value. Raises BadParameter."""
    lowered = text.strip().lower()
    if lowered not in ("", "true", "false"):
        raise click.BadParameter(f"{text!r}: write true or false")
    return lowered == "true" if lowered else default


def attributes_in(text: str) -> dict[str, str]:
    """``+a=b,+c=d``. Raises BadParameter, also for ``-e``: removing one is not possible here."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part[1:].partition("=")
        if not (part.startswith("+") and name and equals):
            raise click.BadParameter(f"{part!r}: write +name=value; attributes cannot be removed")
        found[name] = value
    return found
