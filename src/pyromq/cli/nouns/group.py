"""``pyromq group``: consumer groups, their members, progress and lag, and what holds them up."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.connection import (
    CLUSTER,
    DEFAULT_NAMESERVER,
    ClusterFlags,
    GroupArgument,
    NameServerOption,
    cluster_name,
    with_admin,
)
from pyromq.cli.declared import Commands, Option
from pyromq.cli.nouns.group_moves import park, reset
from pyromq.cli.nouns.group_view import HEAD_COLUMNS, LAG_COLUMNS, describe_group, lag_row, show_group
from pyromq.cli.nouns.listing import (
    ListOptions,
    report_page,
    show_broadcasting,
    show_count,
    show_paused,
    show_rate,
)
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, Form, write_json, write_rows
from pyromq.cli.output.watching import watched
from pyromq.model.subscription_policy import ATTRIBUTE, SubscriptionPolicy
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.model.topic import GroupConfig
    from pyromq.wire.json.bodies import QueueProgress

app = Commands(help="Consumer groups: list, create, lag, describe, reset, park, delete.")


_COLUMNS = (
    Column("group", "group"),
    Column("is_paused", "state", styles={"paused": "bold red"}, optional=True, show=show_paused),
    Column("is_broadcasting", "model", optional=True, show=show_broadcasting),
    Column("topics", "topics", right=True, show=show_count),
    Column("members", "members", right=True, styles={"0": "yellow"}),
    Column("get_rate", "out/s", right=True, show=show_rate),
    Column("lag", "lag", right=True),
    Column("retrying", "retrying", right=True, optional=True),
    Column("dead_letters", "dead", right=True),
)


@app.command("ls")
@watched
def list_groups(*, listing: ListOptions, cluster: ClusterFlags = CLUSTER) -> None:
    """List consumer groups with topics, connected members, rate of the last minute, lag and dead letters.

    The lag of a group that broadcasts is left out: members are asked for it by ``group lag`` and ``group describe``.
    """
    page = cluster.ask(lambda admin: admin.groups.list(listing.question()))
    cluster.write_structs(_COLUMNS, page.rows)
    report_page("group", listing.question(), len(page.rows), page.found, page.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Settings of a group; those that are not given stay as they are."""

    retries: Annotated[
        int | None, Option(min=0, help="Retries before a dead letter; a consumer's own attempts_max wins.")
    ] = None
    delays: Annotated[str | None, Option(help="Delay before each retry; the last one repeats: '1s 10s 1m'.")] = None
    retry_queues: Annotated[int | None, Option(min=0, help="Queues of the retry topic; 0: no retries.")] = None
    broadcast: Annotated[bool | None, Option(help="Whether members may each consume all messages.")] = None
    enabled: Annotated[bool | None, Option(help="Whether the group may consume at all.")] = None
    subscriptions: Annotated[
        SubscriptionPolicy | None,
        Option(help="Members that subscribe to something else than the others: log them, or keep them out."),
    ] = None

    def changed(self, known: GroupConfig) -> GroupConfig:
        """Apply the given options to a group's configuration. Raises click.BadParameter."""
        import msgspec

        said = {
            "retry_max_times": self.retries,
            "retry_queue_nums": self.retry_queues,
            "consume_broadcast_enable": self.broadcast,
            "consume_enable": self.enabled,
        }
        changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        if self.delays is not None:
            changes["group_retry_policy"] = {"type": "CUSTOMIZED", **_ladder(self.delays)}
        if self.subscriptions is not None:
            changes["attributes"] = {**known.attributes, ATTRIBUTE: self.subscriptions.value}
        return msgspec.structs.replace(known, **changes)


def _ladder(delays: str) -> dict[str, Any]:
    from pyromq.errors import ConfigError
    from pyromq.model.delay_levels import parse_ladder

    try:
        return {"customizedRetryPolicy": {"next": list(parse_ladder(delays))}} if delays else {}
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


@app.command()
def create(*, group: GroupArgument, options: GroupOptions, cluster: ClusterFlags = CLUSTER) -> None:
    """Create a group on every master, or change the settings that are given; the others stay as they are."""
    from msgspec.structs import replace

    from pyromq.model.topic import GroupConfig

    options.changed(GroupConfig(group_name=group))  # mistakes are reported before anybody is asked

    async def put(admin: Admin) -> GroupConfig:
        known = (
            await admin.groups.config(group) if group in await admin.groups.names() else GroupConfig(group_name=group)
        )
        config = options.changed(replace(known, group_name=group))
        await admin.groups.create(config)
        return config

    config = cluster.ask(put)
    row = {
        "group": group,
        "retries": config.retry_max_times,
        "delays": _shown_ladder(config.group_retry_policy),
        "retry_queues": config.retry_queue_nums,
        "broadcast": config.consume_broadcast_enable,
        "enabled": config.consume_enable,
        "subscriptions": config.attributes.get(ATTRIBUTE, "the broker's"),
    }
    columns = tuple(Column(name, name.replace("_", " ")) for name in row)
    cluster.write_rows(columns, [row])


def _shown_ladder(policy: dict[str, Any]) -> str:
    steps = (policy.get("customizedRetryPolicy") or {}).get("next") or []
    return ", ".join(shown_span(step) for step in steps) or "the broker's"


@app.command()
@watched
def lag(
    group: GroupArgument,
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Only this topic.")] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show how far a group is behind, queue by queue."""

    async def look(admin: Admin) -> dict[QueueId, QueueProgress]:
        found = await admin.groups.lag(group, topic)
        if not found:  # nothing to say, or nothing to say it about
            await admin.groups.require(group)
            if topic:
                await admin.topics.route(topic)
        return found

    progress = cluster.ask(look)
    rows = [lag_row(queue, held) for queue, held in sorted(progress.items())]
    cluster.write_rows(LAG_COLUMNS, rows)
    if not rows:
        click.echo(f"group {group} has no offset{f' in topic {topic}' if topic else ''} yet", err=True)


@app.command()
@watched
def describe(
    group: GroupArgument,
    topic: Annotated[str, Option("--topic", "-t", complete="topics", help="Only queues of this topic.")] = "",
    stacks: Annotated[bool, Option("--stacks", help="Show the stacks of listeners that hold a queue up.")] = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show the members of a group, its queues, and the message at the head of each queue."""
    form = cluster.form
    description = cluster.ask(lambda admin: describe_group(admin, group, topic))
    if form is Form.TABLE:
        show_group(sys.stdout, description, stacks=stacks)
    elif form is Form.CSV:
        write_rows(sys.stdout, form, HEAD_COLUMNS, description["queues"])
    else:
        write_json(sys.stdout, description, indent=2 if form is Form.JSON else 0)


app.command()(reset)
app.command()(park)


@app.command()
def delete(
    group: GroupArgument,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete a group and its progress; first it shows what that is."""

    async def look(admin: Admin) -> str:
        from pyromq.errors import GroupOfflineError

        await admin.groups.require(group)
        left = sum(
            max(0, held.broker_offset - held.consumer_offset) for held in (await admin.groups.lag(group)).values()
        )
        letters = (await admin.dead_letters.count(group)).waiting
        try:
            members = len((await admin.members.connections(group)).connection_set)
        except GroupOfflineError:
            members = 0
        connected = "no member is connected" if not members else f"{counted(members, 'member')} connected"
        return f"{connected}, {counted(left, 'message')} not consumed, {counted(letters, 'dead letter')}"

    click.echo(f"group {group} in {cluster_name(nameserver)}: {with_admin(nameserver, look)}", err=True)
    confirm(f"Delete group {group} and its progress?", yes)
    with_admin(nameserver, lambda admin: admin.groups.delete(group))
    click.echo(f"group {group} was deleted", err=True)
