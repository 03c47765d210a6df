"""``pyromq cluster``: brokers, where they are and what they do."""

from __future__ import annotations

import sys
from typing import Annotated

import click

from pyromq.cli.connection import (
    CLUSTER,
    ClusterFlags,
    LeaseStoreCaOption,
    LeaseStoreOption,
)
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.nouns.leases import (
    LEASE_COLUMNS,
    PLAN_COLUMNS,
    checked_store,
    forget_member,
    lease_rows,
    recover_master,
    switch_master,
)
from pyromq.cli.nouns.listing import show_rate
from pyromq.cli.output.tables import Column, write_rows
from pyromq.cli.output.watching import watched

app = Commands(help="Clusters: list brokers, replicas and leases, switch masters.")

_COLUMNS = (
    Column("cluster", "cluster"),
    Column("broker", "broker", whole=True),
    Column("number", "id", right=True),
    Column("address", "address", whole=True),
    Column("version", "version", whole=True),
    Column("put_rate", "in/s", right=True, show=show_rate),
    Column("get_rate", "out/s", right=True, show=show_rate),
    Column("messages_today", "today", right=True),
    Column("disk_percent", "disk", right=True, show=lambda percent: f"{percent:.0f} %"),
    Column("problem", "problem", optional=True),
)

_COPIES = (
    Column("broker", "broker", whole=True),
    Column("number", "id", right=True),
    Column("address", "address", whole=True),
    Column("role", "role", whole=True),
    Column("state", "state", styles={"following": "green", "refused": "bold red", "waiting": "yellow"}),
    Column("end", "end", right=True),
    Column("behind_bytes", "behind", right=True),
    Column("in_sync", "in sync", right=True),
    Column("has_metadata", "metadata", show=lambda has: "as the master's" if has else "differs"),
    Column("lease", "lease", right=True, optional=True),
    Column("findings", "finding", show="; ".join, optional=True),
    Column("problem", "problem", optional=True),
)

_FORGET_COLUMNS = (
    Column("broker", "broker", whole=True),
    Column("forgotten", "forgotten", whole=True),
    Column("members", "members", whole=True),
)

_SWITCH_COLUMNS = (
    Column("broker", "broker", whole=True),
    Column("was", "was", whole=True),
    Column("master", "master", whole=True),
    Column("lease", "lease", right=True),
)


@app.command("ls")
@watched
def list_brokers(cluster: ClusterFlags = CLUSTER) -> None:
    """List the brokers of all clusters with addresses, rates and disk use. Exit code 5 if one does not answer."""
    rows = cluster.ask(lambda admin: admin.brokers.list())
    cluster.write_structs(_COLUMNS, rows)
    if any(row.problem for row in rows):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command("replication")
@watched
def show_replication(cluster: ClusterFlags = CLUSTER) -> None:
    """Show masters and their replicas: roles, how far behind, what is wrong. Exit code 5 if something is.

    "behind" is what the log of the master has beyond that of the replica, in bytes. "in sync" counts the replicas that
    a master believes to be nearly up to date. "metadata" says whether a replica has its master's topics and groups.
    """
    rows = cluster.ask(lambda admin: admin.replication.list())
    cluster.write_structs(_COPIES, rows)
    if any(row.problem or row.findings for row in rows):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command("leases")
@watched
def list_leases(
    brokers: Annotated[list[str] | None, Argument(metavar="BROKER", help="Names of brokers; all without.")] = None,
    store: LeaseStoreOption = "",
    store_ca: LeaseStoreCaOption = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show who is master by its lease, for how long, and how far the others are. Exit code 5 if something is wrong."""
    rows = cluster.ask(lambda admin: lease_rows(admin, checked_store(store), store_ca, brokers or []))
    cluster.write_rows(LEASE_COLUMNS, rows)
    if any(row["problem"] for row in rows):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command("switch")
def switch(
    broker: Annotated[str, Argument(metavar="BROKER", help="Its name.")],
    to: Annotated[str, Option("--to", metavar="HOST:PORT", help="The new master; without it, the only replica.")] = "",
    store: LeaseStoreOption = "",
    store_ca: LeaseStoreCaOption = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Make a replica the master, without a lost or refused message. Failover agents carry it out."""
    done = cluster.ask(lambda admin: switch_master(admin, checked_store(store), store_ca, broker, to))
    form = cluster.form
    write_rows(sys.stdout, form, _SWITCH_COLUMNS, [done])


@app.command("recover")
def recover(
    broker: Annotated[str, Argument(metavar="BROKER", help="Its name.")],
    chosen: Annotated[str, Option("--from", metavar="HOST:PORT", help="The member whose log counts from now on.")],
    yes: Annotated[bool, Option("--yes", help="Do it; without it the plan is shown.")] = False,
    store: LeaseStoreOption = "",
    store_ca: LeaseStoreCaOption = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Make a member the master where agents may not: the lease store was lost or set back, or members are gone.

    Shows what each member has that the chosen one lacks: it is cut from its log when it follows, and kept in cut/ of
    its data folder. Exit code 5 if something is cut, or a member does not answer.
    """
    rows = cluster.ask(lambda admin: recover_master(admin, checked_store(store), store_ca, broker, chosen, is_sure=yes))
    cluster.write_rows(PLAN_COLUMNS, rows)
    if any(row["lost_bytes"] != 0 for row in rows):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command("forget")
def forget(
    broker: Annotated[str, Argument(metavar="BROKER", help="Its name.")],
    member: Annotated[str, Argument(metavar="HOST:PORT", help="The member that does not come back.")],
    store: LeaseStoreOption = "",
    store_ca: LeaseStoreCaOption = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Remove a member that is gone for good: it is neither asked nor missed any more."""
    done = cluster.ask(lambda admin: forget_member(admin, checked_store(store), store_ca, broker, member))
    cluster.write_rows(_FORGET_COLUMNS, [done])
