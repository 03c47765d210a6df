"""mqadmin's sub-commands about users and policies.

Changes go to all servers that keep users, whichever of them ``-b`` or ``-c`` names: users that only some brokers know
are a fault that is hard to find. Passwords are never printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import BrokerAddrOption, ClusterNameOption, one_target
from pyromq.cli.mqadmin.printing import line
from pyromq.cli.mqadmin.topics import masters_of

if TYPE_CHECKING:
    from pyromq.aio import Admin
    from pyromq.wire.json.access import AclInfo, UserInfo

_USER = "%-16s  %-22s  %-22s  %-22s"
_ACL = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"
UsernameOption = Annotated[str, Option("-u", "--username", help="The username of user.")]
TypeOption = Annotated[str, Option("-t", "--userType", help="The userType of user: Normal or Super.")]
SubjectOption = Annotated[str, Option("-s", "--subject", help="The subject of acl: User:name.")]
ResourcesOption = Annotated[str, Option("-r", "--resources", help="The resources of acl, separated by commas.")]
ActionsOption = Annotated[str, Option("-a", "--actions", help="The actions of acl, separated by commas.")]
DecisionOption = Annotated[str, Option("-d", "--decision", help="The decision of acl: Allow or Deny.")]
SourceOption = Annotated[str, Option("-i", "--sourceIp", help="The sourceIps of acl, separated by commas.")]


async def _targets(admin: Admin, broker: str, cluster: str) -> list[str]:
    """Addresses of the servers that are meant. Raises UsageError, BadParameter."""
    one_target(broker, cluster)
    return [address for _, address in masters_of(await admin.brokers.cluster(), broker, cluster)]


def _say(text: str, addresses: list[str]) -> None:
    for address in addresses:
        line(text, address)


def _is_super(text: str) -> bool | None:
    if text.lower() not in ("", "super", "normal"):
        raise click.BadParameter(f"{text!r} is not a type of user: Normal or Super")
    return text.lower() == "super" if text else None


async def create_user(
    admin: Admin,
    user: UsernameOption,
    password: Annotated[str, Option("-p", "--password", help="The password of user to create.")],
    kind: TypeOption = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """Create user to cluster."""
    is_super = bool(_is_super(kind))
    targets = await _targets(admin, broker, cluster)
    await admin.access.create_user(user, password, is_super=is_super)
    _say("create user to %s success.", targets)


async def update_user(
    admin: Admin,
    user: UsernameOption,
    password: Annotated[str, Option("-p", "--password", help="The password of user to update.")] = "",
    status: Annotated[str, Option("-s", "--userStatus", help="The userStatus of user: enable or disable.")] = "",
    kind: TypeOption = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """Update user to cluster."""
    is_super = _is_super(kind)
    if status.lower() not in ("", "enable", "disable"):
        raise click.BadParameter(f"{status!r} is not a status of a user: enable or disable")
    if not (password or status or kind):
        raise click.UsageError("say what to change: -p, -s or -t")
    enabled = status.lower() == "enable" if status else None
    targets = await _targets(admin, broker, cluster)
    await admin.access.update_user(user, password=password or None, is_super=is_super, enabled=enabled)
    _say("update user to %s success.", targets)


async def delete_user(
    admin: Admin, user: UsernameOption, broker: BrokerAddrOption = "", cluster: ClusterNameOption = ""
) -> None:
    """Delete user from cluster."""
    targets = await _targets(admin, broker, cluster)
    await admin.access.delete_user(user)
    _say("delete user from %s success.", targets)


async def get_user(
    admin: Admin, user: UsernameOption, broker: BrokerAddrOption = "", cluster: ClusterNameOption = ""
) -> None:
    """Get user from cluster."""
    one_target(broker, cluster)
    _write_users([(await admin.access.user(user))])


async def list_user(
    admin: Admin,
    containing: Annotated[str, Option("-f", "--filter", help="The filter to list users.")] = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """List user from cluster."""
    one_target(broker, cluster)
    _write_users(await admin.access.users(containing))


def _write_users(users: list[UserInfo]) -> None:
    line(_USER, "#UserName", "#Password", "#UserType", "#UserStatus")
    for each in users:
        line(_USER, each.username or "", "***", each.user_type or "", each.user_status or "")


def _user_in(subject: str) -> str:
    if not subject.startswith("User:"):
        raise click.BadParameter(f"{subject!r}: a subject is written User:name")
    return subject.removeprefix("User:")


async def create_acl(
    admin: Admin,
    subject: SubjectOption,
    resources: ResourcesOption,
    actions: ActionsOption,
    decision: DecisionOption,
    sources: SourceOption = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """Create acl to cluster."""
    given = _Entries(subject, resources, actions, decision, sources)
    targets = await _targets(admin, broker, cluster)
    await admin.access.set_policy(given.user, given.entries)
    _say("create acl to %s success.", targets)


async def update_acl(
    admin: Admin,
    subject: SubjectOption,
    resources: ResourcesOption,
    actions: ActionsOption,
    decision: DecisionOption,
    sources: SourceOption = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """Update acl to cluster; entries with the same resource are replaced."""
    given = _Entries(subject, resources, actions, decision, sources)
    targets = await _targets(admin, broker, cluster)
    await admin.access.set_policy(given.user, given.entries)
    _say("update acl to %s success.", targets)


class _Entries:
    """What options say about the entries of a policy. Raises BadParameter, ConfigError."""

    def __init__(self, subject: str, resources: str, actions: str, decision: str, sources: str) -> None:
        from pyromq.operate.access import policy_entry

        if decision.lower() not in ("allow", "deny"):
            raise click.BadParameter(f"{decision!r} is not a decision: Allow or Deny")
        self.user = _user_in(subject)
        places = [each.strip() for each in sources.split(",") if each.strip()]
        words = [each.strip() for each in actions.split(",") if each.strip()]
        self.entries = [
            policy_entry(each.strip(), words, allow=decision.lower() == "allow", sources=places)
            for each in resources.split(",")
            if each.strip()
        ]


async def delete_acl(
    admin: Admin,
    subject: SubjectOption,
    resources: Annotated[str, Option("-r", "--resources", help="The resources of acl to delete; none: all.")] = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """Delete acl from cluster."""
    user, targets = _user_in(subject), await _targets(admin, broker, cluster)
    for each in [part.strip() for part in resources.split(",") if part.strip()] or [""]:
        await admin.access.delete_policy(user, each)
    _say("delete acl from %s success.", targets)


async def get_acl(
    admin: Admin, subject: SubjectOption, broker: BrokerAddrOption = "", cluster: ClusterNameOption = ""
) -> None:
    """Get acl from cluster."""
    one_target(broker, cluster)
    user = _user_in(subject)
    _write_acls(await admin.access.policies(user=user))


async def list_acl(
    admin: Admin,
    subject: Annotated[str, Option("-s", "--subject", help="The subject of acl to filter.")] = "",
    resource: Annotated[str, Option("-r", "--resource", help="The resource of acl to filter.")] = "",
    broker: BrokerAddrOption = "",
    cluster: ClusterNameOption = "",
) -> None:
    """List acl from cluster."""
    one_target(broker, cluster)
    found = await admin.access.policies(resource=resource)
    _write_acls([each for each in found if subject in (each.subject or "")])


def _write_acls(acls: list[AclInfo]) -> None:
    line(_ACL, "#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    for acl in acls:
        for policy in acl.policies or ():
            for entry in policy.entries or ():
                words = (entry.resource or "", _listed(entry.actions), _listed(entry.source_ips), entry.decision or "")
                line(_ACL, acl.subject or "", policy.policy_type or "", *words)


def _listed(words: tuple[str, ...] | None) -> str:
    return f"[{', '.join(words)}]" if words else ""
