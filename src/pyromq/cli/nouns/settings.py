"""``pyromq settings``: what a running broker is set to, and changing some of it."""

from __future__ import annotations

from typing import Annotated

import click

from pyromq.cli.connection import CLUSTER, DEFAULT_NAMESERVER, ClusterFlags, NameServerOption, with_admin
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column

app = Commands(help="Settings of running brokers: list, set.")

BrokerArgument = Annotated[str, Argument(metavar="BROKER", help="Its name, or its address.")]
_COLUMNS = (Column("setting", "setting", whole=True), Column("value", "value"))


@app.command("ls")
def list_settings(
    broker: BrokerArgument,
    containing: Annotated[str, Option("--containing", help="Only settings whose name contains this text.")] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """List the settings of a broker in RocketMQ's words."""
    found = cluster.ask(lambda admin: admin.brokers.config(broker))
    needle = containing.casefold()
    rows = [{"setting": key, "value": text} for key, text in sorted(found.items()) if needle in key.casefold()]
    cluster.write_rows(_COLUMNS, rows)


@app.command("set")
def set_settings(
    broker: BrokerArgument,
    changes: Annotated[list[str], Argument(metavar="NAME=VALUE", help="One or several.")],
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Change settings of a running broker, until it is restarted; its configuration file stays what it is."""
    wanted = dict(_change(text) for text in changes)
    now = with_admin(nameserver, lambda admin: admin.brokers.config(broker))
    for name, value in wanted.items():
        click.echo(f"{name}: {now.get(name, '(unknown)')} → {value}", err=True)
    confirm(f"Change {'this' if len(wanted) == 1 else f'these {len(wanted)}'} on {broker}?", yes)
    with_admin(nameserver, lambda admin: admin.brokers.update_config(broker, wanted))
    click.echo(f"changed on {broker}, until it is restarted", err=True)


def _change(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
