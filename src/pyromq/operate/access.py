"""Users and their policies, on every server that keeps some: those of PyroMQ, and brokers of Apache RocketMQ 5.x."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import BrokerError, ConfigError, NotFoundError
from pyromq.security.plain_acl import parse_plain_acl
from pyromq.security.policies import (
    USER_PREFIX,
    Policies,
    PolicyEntry,
    PolicyType,
    UserType,
    acl_info,
    decide,
    parse_policies,
)
from pyromq.security.resources import Need, ResourcePattern, parse_action, parse_resource
from pyromq.security.templates import Template, template_entries
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.auth import DeleteAclHeader
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo


class AccessVerdict(msgspec.Struct, frozen=True):
    """Whether a user may do something, and why: the entry that decides, if one does."""

    allowed: bool
    reason: str
    policy: str = ""
    entry: str = ""


class ImportedAccounts(NamedTuple):
    """What became of a ``plain_acl.yml``; ``left_out`` are white lists, which no request can carry."""

    created: tuple[str, ...]
    existing: tuple[str, ...]
    left_out: tuple[str, ...]


class AccessFacet:
    """``admin.access``: users and policies, asked of one broker and changed on all servers that keep them."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.access
        self._directory = requests.directory

    async def users(self, containing: str = "") -> list[UserInfo]:
        """All users, or those whose names contain a text; never with passwords."""
        found = await self._requests.users((await self._directory.masters())[0], containing)
        return sorted((_without_password(each) for each in found), key=lambda each: each.username or "")

    async def user(self, name: str) -> UserInfo:
        """Facts about one user. Raises NotFoundError."""
        found = await self._requests.user((await self._directory.masters())[0], name)
        if found is None:
            raise NotFoundError(code=ResponseCode.USER_NOT_EXIST, remark=f"there is no user {name}")
        return _without_password(found)

    async def create_user(self, name: str, password: str, *, is_super: bool = False) -> None:
        """A user that may do nothing yet, or with ``is_super`` everything."""
        type_ = "Super" if is_super else "Normal"
        user = UserInfo(username=name, password=password, user_type=type_, user_status="enable")
        async with self._all_masters() as masters:
            await self._requests.create_user(masters, user)

    async def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None
    ) -> None:
        """Change a user; what is None stays."""
        user = UserInfo(
            username=name,
            password=password,
            user_type=None if is_super is None else "Super" if is_super else "Normal",
            user_status=None if enabled is None else "enable" if enabled else "disable",
        )
        async with self._all_masters() as masters:
            await self._requests.update_user(masters, user)

    async def delete_user(self, name: str) -> None:
        """With its policies. Raises NotFoundError."""
        await self.user(name)
        async with self._all_masters() as masters:
            await self._requests.delete_user(masters, name)

    async def policies(self, *, user: str = "", resource: str = "") -> list[AclInfo]:
        """The policies of all users, of one, or those about resources whose text contains ``resource``."""
        subject = USER_PREFIX + user if user else None
        found = await self._requests.policies((await self._directory.masters())[0], subject, resource or None)
        return [each for each in found if not user or each.subject == subject]

    async def set_policy(self, user: str, entries: Iterable[PolicyEntryInfo], *, default: bool = False) -> None:
        """Add entries, or replace those with the same resource; ``default``: in the policy that is asked last.

        Raises ConfigError for entries that cannot work.
        """
        kind = PolicyType.DEFAULT if default else PolicyType.CUSTOM
        info = AclInfo(
            subject=USER_PREFIX + user, policies=(PolicyInfo(policy_type=kind.value, entries=tuple(entries)),)
        )
        await self._create_policy(user, parse_policies(info))

    async def apply_template(
        self,
        user: str,
        template: str,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        cluster: str = "DefaultCluster",
    ) -> list[PolicyEntryInfo]:
        """Give a user the rights of a role: producer, consumer, pipeline, operator, read-only. Raises ConfigError."""
        names = [each.value for each in Template]
        if template not in names:
            raise ConfigError(f"{template!r} is not a template: there are {', '.join(names)}")
        entries = template_entries(Template(template), topics, groups, cluster)
        await self.set_policy(user, entries)
        return entries

    async def delete_policy(self, user: str, resource: str = "", *, default: bool = False) -> None:
        """The entry for one resource pattern, or without one all policies of the user. Raises ConfigError."""
        kind = PolicyType.DEFAULT if default else PolicyType.CUSTOM
        header = DeleteAclHeader(
            subject=USER_PREFIX + user,
            policy_type=kind.value if resource else None,
            resource=str(ResourcePattern.parse(resource)) if resource else None,
        )
        async with self._all_masters() as masters:
            await self._requests.delete_policy(masters, header)

    async def explain(self, user: str, action: str, resource: str, *, ip: str = "127.0.0.1") -> AccessVerdict:
        """Return whether a user may do that from that address, and why. Raises NotFoundError, ConfigError."""
        need = Need(parse_resource(resource), (parse_action(action),))
        found = await self.user(user)
        if (found.user_status or "enable").lower() == "disable":
            return AccessVerdict(False, f"user {user} is disabled")
        if (found.user_type or "").lower() == UserType.SUPER.value.lower():
            return AccessVerdict(True, f"{user} is a super user, and may do everything")
        acls = await self.policies(user=user)
        policies: Policies = parse_policies(acls[0]) if acls and acls[0].policies else {}
        verdict = decide(policies, need, ip)
        if verdict.entry is None or verdict.policy is None:
            text = f"no entry of {user} allows {need} from {ip}"
            return AccessVerdict(False, f"{text}, and what is not allowed is denied")
        word = "allows" if verdict.allowed else "denies"
        reason = f"the most exact entry of the {verdict.policy.value} policy that applies {word} it"
        return AccessVerdict(verdict.allowed, reason, verdict.policy.value, str(verdict.entry))

    async def import_accounts(self, plain_acl: bytes | str) -> ImportedAccounts:
        """Users and policies of a ``plain_acl.yml`` of RocketMQ 4.x; users that exist stay as they are.

        White lists are not part of ACL 2.0: they are named in the outcome. Raises ConfigError, and then nothing has
        changed.
        """
        accounts, white_list = parse_plain_acl(plain_acl)
        known = {each.username for each in await self.users()}
        created, left_out = [], [f"globalWhiteRemoteAddresses {text}" for text in white_list.texts]
        for account in accounts:
            user = account.user
            left_out += [f"whiteRemoteAddress {text} of {user.name}" for text in user.white_list.texts]
            if user.name in known:
                continue
            await self.create_user(user.name, user.password.reveal(), is_super=user.is_super)
            if account.policies:
                await self._create_policy(user.name, account.policies)
            created.append(user.name)
        existing = tuple(account.user.name for account in accounts if account.user.name in known)
        return ImportedAccounts(tuple(created), existing, tuple(left_out))

    async def _create_policy(self, user: str, policies: Policies) -> None:
        async with self._all_masters() as masters:
            await self._requests.create_policy(masters, USER_PREFIX + user, acl_info(user, policies))

    @asynccontextmanager
    async def _all_masters(self) -> AsyncIterator[list[str]]:
        """Masters, to be changed in the block. Raises BrokerError at its end when a broker has none at the moment."""
        masters, without = await self._directory.all_masters()
        yield masters
        if without:
            names = ", ".join(without)
            text = f"changed everywhere but at {names}: there is no master at the moment, repeat it when there is one"
            raise BrokerError(code=ResponseCode.BROKER_NOT_EXIST, remark=text)


def _without_password(user: UserInfo) -> UserInfo:
    """Apache's brokers report them."""
    return UserInfo(username=user.username, user_type=user.user_type, user_status=user.user_status)


def policy_entry(
    resource: str, actions: Sequence[str], *, allow: bool = True, sources: Sequence[str] = ()
) -> PolicyEntryInfo:
    """What is allowed or denied on ``Topic:orders``, ``Group:bill*``, ``Cluster:*`` or ``*``. Raises ConfigError."""
    info = PolicyEntryInfo(
        resource=resource,
        actions=tuple(actions),
        source_ips=tuple(sources) or None,
        decision="Allow" if allow else "Deny",
    )
    return PolicyEntry.of(info).info()
