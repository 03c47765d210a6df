"""mqadmin's sub-commands about users and policies.

Changes go to all servers that keep users, whichever of them ``-b`` or ``-c`` names: users that only some brokers know
are a fault that is hard to find. Passwords are never printed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import BrokersOptions
from pyromq.cli.mqadmin.printing import line

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


async def _change(admin: Admin, brokers: BrokersOptions, text: str, change: Callable[[], Awaitable[object]]) -> None:
    """Make a change, and say so for each server that is meant. Raises BadParameter."""
    masters = await brokers.masters(admin)
    await change()
    for _, address in masters:
        line(text, address)


def _is_super(text: str) -> bool | None:
    if text.lower() not in ("", "super", "normal"):
        raise click.BadParameter(f"{text!r} is not a type of user: Normal or Super")
    return text.lower() == "super" if text else None


async def create_user(
    admin: Admin,
    *,
    user: UsernameOption,
    password: Annotated[str, Option("-p", "--password", help="The password of user to create.")],
    kind: TypeOption = "",
    brokers: BrokersOptions,
) -> None:
    """Create user to cluster."""
    is_super = bool(_is_super(kind))
    create = partial(admin.access.create_user, user, password, is_super=is_super)
    await _change(admin, brokers, "create user to %s success.", create)


async def update_user(
    admin: Admin,
    *,
    user: UsernameOption,
    password: Annotated[str, Option("-p", "--password", help="The password of user to update.")] = "",
    status: Annotated[str, Option("-s", "--userStatus", help="The userStatus of user: enable or disable.")] = "",
    kind: TypeOption = "",
    brokers: BrokersOptions,
) -> None:
    """Update user to cluster."""
    is_super = _is_super(kind)
    if status.lower() not in ("", "enable", "disable"):
        raise click.BadParameter(f"{status!r} is not a status of a user: enable or disable")
    if not (password or status or kind):
        raise click.UsageError("say what to change: -p, -s or -t")
    enabled = status.lower() == "enable" if status else None
    new = password or None
    update = partial(admin.access.update_user, user, password=new, is_super=is_super, enabled=enabled)
    await _change(admin, brokers, "update user to %s success.", update)


async def delete_user(admin: Admin, user: UsernameOption, brokers: BrokersOptions) -> None:
    """Delete user from cluster."""
    await _change(admin, brokers, "delete user from %s success.", partial(admin.access.delete_user, user))


async def get_user(admin: Admin, user: UsernameOption, brokers: BrokersOptions) -> None:
    """Get user from cluster."""
    _write_users([(await admin.access.user(user))])


async def list_user(
    admin: Admin,
    *,
    containing: Annotated[str, Option("-f", "--filter", help="The filter to list users.")] = "",
    brokers: BrokersOptions,
) -> None:
    """List user from cluster."""
    _write_users(await admin.access.users(containing))


def _write_users(users: list[UserInfo]) -> None:
    line(_USER, "#UserName", "#Password", "#UserType", "#UserStatus")
    for each in users:
        line(_USER, each.username or "", "***", each.user_type or "", each.user_status or "")


def _user_in(subject: str) -> str:
    if not subject.startswith("User:"):
        raise click.BadParameter(f"{subject!r}: a subject is written User:name")
    return subject.removeprefix("User:")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOptions:
    """Entries of a policy as options give them."""

    subject: SubjectOption
    resources: ResourcesOption
    actions: ActionsOption
    decision: DecisionOption
    sources: SourceOption = ""

    async def set(self, admin: Admin) -> None:
        """Set these entries. Raises BadParameter, ConfigError."""
        from pyromq.operate.access import policy_entry

        if self.decision.lower() not in ("allow", "deny"):
            raise click.BadParameter(f"{self.decision!r} is not a decision: Allow or Deny")
        user, allows, sources = _user_in(self.subject), self.decision.lower() == "allow", _words(self.sources)
        actions = _words(self.actions)
        entries = [policy_entry(each, actions, allow=allows, sources=sources) for each in _words(self.resources)]
        await admin.access.set_policy(user, entries)


async def create_acl(admin: Admin, entries: EntryOptions, brokers: BrokersOptions) -> None:
    """Create acl to cluster."""
    await _change(admin, brokers, "create acl to %s success.", partial(entries.set, admin))


async def update_acl(admin: Admin, entries: EntryOptions, brokers: BrokersOptions) -> None:
    """Update acl to cluster; entries with the same resource are replaced."""
    await _change(admin, brokers, "update acl to %s success.", partial(entries.set, admin))


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


async def delete_acl(
    admin: Admin,
    *,
    subject: SubjectOption,
    resources: Annotated[str, Option("-r", "--resources", help="The resources of acl to delete; none: all.")] = "",
    brokers: BrokersOptions,
) -> None:
    """Delete acl from cluster."""
    user = _user_in(subject)

    async def delete() -> None:
        for each in _words(resources) or [""]:
            await admin.access.delete_policy(user, each)

    await _change(admin, brokers, "delete acl from %s success.", delete)


async def get_acl(admin: Admin, subject: SubjectOption, brokers: BrokersOptions) -> None:
    """Get acl from cluster."""
    user = _user_in(subject)
    _write_acls(await admin.access.policies(user=user))


async def list_acl(
    admin: Admin,
    *,
    subject: Annotated[str, Option("-s", "--subject", help="The subject of acl to filter.")] = "",
    resource: Annotated[str, Option("-r", "--resource", help="The resource of acl to filter.")] = "",
    brokers: BrokersOptions,
) -> None:
    """List acl from cluster."""
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
