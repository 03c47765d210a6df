"""``pyromq acl``: users, what they may do, and why."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.connection import CLUSTER, DEFAULT_NAMESERVER, ClusterFlags, NameServerOption, with_admin
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, Form, write_structs
from pyromq.cli.output.watching import watched
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.wire.json.access import AclInfo

app = Commands(help="Access control: users, policies, and why something is refused.")
users = Commands(help="Users: list, create, update, delete.")
policies = Commands(help="Policies: list, set, delete.")
app.add_command(users, "user")
app.add_command(policies, "policy")

UserArgument = Annotated[str, Argument(metavar="USER")]
PasswordFileOption = Annotated[
    Path | None,
    Option(
        "--password-file",
        metavar="FILE",
        help="The password is the first line of this file; - reads it from standard input.",
    ),
]
_PASSWORD_VARIABLE = "PYROMQ_NEW_PASSWORD"
_USER_COLUMNS = (Column("user", "user"), Column("type", "type"), Column("status", "status"))
_POLICY_COLUMNS = (
    Column("user", "user"),
    Column("policy", "policy"),
    Column("resource", "resource", whole=True),
    Column("actions", "actions", show=",".join),
    Column("decision", "decision"),
    Column("sources", "from", show=",".join, optional=True),
)


# --- users ---------------------------------------------------------------------------------------------------------


@users.command("ls")
@watched
def list_users(cluster: ClusterFlags = CLUSTER) -> None:
    """List users; passwords are never shown."""
    found = cluster.ask(lambda admin: admin.access.users())
    rows = [{"user": each.username, "type": each.user_type, "status": each.user_status} for each in found]
    cluster.write_rows(_USER_COLUMNS, rows)


@users.command("create")
def create_user(
    user: UserArgument,
    password_file: PasswordFileOption = None,
    is_super: Annotated[bool, Option("--super", help="May do everything.")] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Create a user. Its password comes from --password-file, PYROMQ_NEW_PASSWORD or a prompt."""
    password = _new_password(password_file)
    with_admin(nameserver, lambda admin: admin.access.create_user(user, password, is_super=is_super))
    click.echo(f"user {user} was created{'' if is_super else '; it may do nothing yet: pyromq acl template'}", err=True)


@users.command("update")
def update_user(
    user: UserArgument,
    password_file: PasswordFileOption = None,
    new_password: Annotated[bool, Option("--new-password", help="Ask for a new password.")] = False,
    is_super: Annotated[bool | None, Option("--super/--normal", help="The type of the user.")] = None,
    enabled: Annotated[bool | None, Option("--enable/--disable", help="Whether it is let in.")] = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Change the password, type or status of a user."""
    password = _new_password(password_file) if password_file or new_password else None
    if password is None and is_super is None and enabled is None:
        raise click.BadParameter("say what to change: --new-password, --super, --normal, --enable or --disable")

    with_admin(
        nameserver, lambda admin: admin.access.update_user(user, password=password, is_super=is_super, enabled=enabled)
    )
    click.echo(f"user {user} was changed", err=True)


@users.command("delete")
def delete_user(user: UserArgument, yes: YesOption = False, nameserver: NameServerOption = DEFAULT_NAMESERVER) -> None:
    """Delete a user and its policies."""
    confirm(f"Delete user {user} and its policies?", yes)
    with_admin(nameserver, lambda admin: admin.access.delete_user(user))
    click.echo(f"user {user} was deleted", err=True)


def _new_password(file: Path | None) -> str:
    if file is not None:
        try:
            text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"the password cannot be read from {file}: {error}") from error
        password = text.strip()
    elif _PASSWORD_VARIABLE in os.environ:
        password = os.environ[_PASSWORD_VARIABLE]
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        raise ConfigError(f"no password: give --password-file, or set {_PASSWORD_VARIABLE}")
    if not password:
        raise ConfigError("the password is empty")
    return password


# --- policies ------------------------------------------------------------------------------------------------------


@policies.command("ls")
@watched
def list_policies(
    user: Annotated[str, Option("--user", help="Of this user only.")] = "",
    resource: Annotated[str, Option("--resource", help="About resources that contain this text.")] = "",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """List what users may do, one line for each entry of their policies."""
    found = cluster.ask(lambda admin: admin.access.policies(user=user, resource=resource))
    cluster.write_rows(_POLICY_COLUMNS, _policy_rows(found))


def _policy_rows(found: list[AclInfo]) -> list[dict[str, Any]]:
    return [
        {
            "user": (acl.subject or "").removeprefix("User:"),
            "policy": policy.policy_type,
            "resource": entry.resource,
            "actions": list(entry.actions or ()),
            "decision": entry.decision,
            "sources": list(entry.source_ips or ()),
        }
        for acl in found
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]


@policies.command("set")
def set_policy(
    user: UserArgument,
    resource: Annotated[str, Argument(metavar="RESOURCE", help="Topic:orders, Group:bill*, Cluster:* or *.")],
    actions: Annotated[str, Argument(metavar="ACTIONS", help="Such as Pub,Sub; All is each of them.")],
    deny: Annotated[bool, Option("--deny", help="Forbid them instead.")] = False,
    source: Annotated[
        list[str] | None, Option("--from", metavar="IP", help="Address or network; may be repeated.")
    ] = None,
    default: Annotated[bool, Option("--default", help="In the policy that is asked last.")] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Allow a user something, or forbid it; an entry with the same resource is replaced."""
    from pyromq.operate.access import policy_entry

    entry = policy_entry(resource, actions.split(","), allow=not deny, sources=source or ())
    with_admin(nameserver, lambda admin: admin.access.set_policy(user, [entry], default=default))
    click.echo(f"user {user}: {entry.decision} {','.join(entry.actions or ())} on {entry.resource}", err=True)


@policies.command("delete")
def delete_policy(
    user: UserArgument,
    resource: Annotated[str, Argument(metavar="[RESOURCE]", help="As it was set; without it all of them.")] = "",
    default: Annotated[bool, Option("--default", help="From the policy that is asked last.")] = False,
    yes: YesOption = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Delete the entry for a resource, or all policies of a user."""
    if not resource:
        confirm(f"Delete all policies of {user}?", yes)
    with_admin(nameserver, lambda admin: admin.access.delete_policy(user, resource, default=default))
    click.echo(f"user {user}: {resource or 'all policies'} deleted", err=True)


# --- both ----------------------------------------------------------------------------------------------------------


@app.command("template")
def apply_template(
    user: UserArgument,
    template: Annotated[str, Argument(metavar="TEMPLATE", help="producer, consumer, pipeline, operator or read-only.")],
    topic: Annotated[list[str] | None, Option("--topic", help="Name or prefix*; may be repeated.")] = None,
    group: Annotated[list[str] | None, Option("--group", help="Name or prefix*; may be repeated.")] = None,
    cluster: Annotated[str, Option("--cluster", help="Whose reply topic consumers may use.")] = "DefaultCluster",
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Give a user the rights of a role."""

    entries = with_admin(
        nameserver,
        lambda admin: admin.access.apply_template(
            user, template, topics=topic or (), groups=group or (), cluster=cluster
        ),
    )
    for entry in entries:
        click.echo(f"user {user}: {entry.decision} {','.join(entry.actions or ())} on {entry.resource}", err=True)


@app.command("import")
def import_accounts(
    file: Annotated[Path, Argument(metavar="FILE", help="plain_acl.yml of RocketMQ 4.x.")],
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Import accounts of RocketMQ 4.x; users that exist stay as they are. Exit code 5 if something was left out."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    outcome = with_admin(nameserver, lambda admin: admin.access.import_accounts(text))
    click.echo(f"{len(outcome.created)} users created, {len(outcome.existing)} were there already", err=True)
    for each in outcome.left_out:
        click.echo(f"left out, requests cannot carry it (access.plain_acl_file of a server can): {each}", err=True)
    if outcome.left_out:
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command("test")
def test_access(
    user: UserArgument,
    action: Annotated[str, Argument(metavar="ACTION", help="Pub, Sub, Create, Update, Delete, Get or List.")],
    resource: Annotated[str, Argument(metavar="RESOURCE", help="Topic:orders, Group:billing, Cluster:name.")],
    ip: Annotated[str, Option("--from", metavar="IP", help="Where the request comes from.")] = "127.0.0.1",
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Say whether a user may do something, and which entry decides. Exit code 3 if it may not."""
    verdict = cluster.ask(lambda admin: admin.access.explain(user, action, resource, ip=ip))
    columns = (
        Column("allowed", "allowed", show=lambda value: "yes" if value else "no"),
        Column("entry", "entry", optional=True),
        Column("reason", "reason"),
    )
    form = cluster.form
    write_structs(sys.stdout, form if form is not Form.JSON else Form.JSONL, columns, [verdict])
    if not verdict.allowed:
        raise click.exceptions.Exit(ExitCode.REFUSED)
