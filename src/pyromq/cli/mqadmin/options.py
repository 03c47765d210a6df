"""Options that many sub-commands of mqadmin share, under its letters and names."""

from __future__ import annotations

from typing import Annotated

import click

from pyromq.cli.declared import Option

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


def one_target(broker: str, cluster: str) -> None:
    """Check that either a broker or a cluster is given, as mqadmin does. Raises UsageError."""
    if bool(broker) == bool(cluster):
        raise click.UsageError("give either -b, the address of a broker, or -c, the name of a cluster")


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
