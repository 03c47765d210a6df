"""Users and their policies, on every server that keeps some: those of PyroMQ, and brokers of Apache RocketMQ 5.x."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyromq.client.admin.base import AdminBase, gather
from pyromq.client.core.errors import error_of
from pyromq.errors import ConfigError, NotFoundError
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
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.auth import AclSubjectHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.access import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_acls,
    decode_users,
)


class AccessVerdict(NamedTuple):
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


class AccessAdmin(AdminBase):
    """Of ``Admin``: users and policies. They are asked of one broker, and changed on all servers that keep them."""

    async def users(self, containing: str = "") -> list[UserInfo]:
        """All users, or those whose names contain a text; never with passwords."""
        response = await self._ask_one(RequestCode.AUTH_LIST_USER, ListUsersHeader(user_filter=containing or None))
        found = decode_users(response)
        return sorted((_without_password(each) for each in found), key=lambda each: each.username or "")

    async def user(self, name: str) -> UserInfo:
        """Raises NotFoundError."""
        response = await self._ask_one(RequestCode.AUTH_GET_USER, UserHeader(username=name))
        if not response:
            raise NotFoundError(code=ResponseCode.USER_NOT_EXIST, remark=f"there is no user {name}")
        return _without_password(java_json.decode(response, UserInfo))

    async def create_user(self, name: str, password: str, *, is_super: bool = False) -> None:
        """A user that may do nothing yet, or with ``is_super`` everything."""
        type_ = "Super" if is_super else "Normal"
        body = UserInfo(username=name, password=password, user_type=type_, user_status="enable")
        await self._tell_all(RequestCode.AUTH_CREATE_USER, UserHeader(username=name), java_json.dumps(body))

    async def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None
    ) -> None:
        """What is None stays."""
        body = UserInfo(
            username=name,
            password=password,
            user_type=None if is_super is None else "Super" if is_super else "Normal",
            user_status=None if enabled is None else "enable" if enabled else "disable",
        )
        await self._tell_all(RequestCode.AUTH_UPDATE_USER, UserHeader(username=name), java_json.dumps(body))

    async def delete_user(self, name: str) -> None:
        """With its policies. Raises NotFoundError."""
        await self.user(name)
        await self._tell_all(RequestCode.AUTH_DELETE_USER, UserHeader(username=name))

    async def policies(self, *, user: str = "", resource: str = "") -> list[AclInfo]:
        """The policies of all users, of one, or those about resources whose text contains ``resource``."""
        subject = USER_PREFIX + user if user else None
        header = ListAclsHeader(subject_filter=subject, resource_filter=resource or None)
        found = decode_acls(await self._ask_one(RequestCode.AUTH_LIST_ACL, header))
        return [each for each in found if not user or each.subject == subject]

    async def set_policy(self, user: str, entries: Iterable[PolicyEntryInfo], *, default: bool = False) -> None:
        """Add entries, or replace those with the same resource; ``default``: in the policy that is asked last.

        Raises ConfigError for entries that cannot work.
        """
        kind = PolicyType.DEFAULT if default else PolicyType.CUSTOM
        info = AclInfo(
            subject=USER_PREFIX + user, policies=(PolicyInfo(policy_type=kind.value, entries=tuple(entries)),)
        )
        body = java_json.dumps(acl_info(user, parse_policies(info)))
        await self._tell_all(RequestCode.AUTH_CREATE_ACL, AclSubjectHeader(subject=USER_PREFIX + user), body)

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
        await self._tell_all(RequestCode.AUTH_DELETE_ACL, header)

    async def explain_access(self, user: str, action: str, resource: str, *, ip: str = "127.0.0.1") -> AccessVerdict:
        """Whether a user may do that from that address, and which entry says so. Raises NotFoundError, ConfigError."""
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
                body = java_json.dumps(acl_info(user.name, account.policies))
                header = AclSubjectHeader(subject=USER_PREFIX + user.name)
                await self._tell_all(RequestCode.AUTH_CREATE_ACL, header, body)
            created.append(user.name)
        existing = tuple(account.user.name for account in accounts if account.user.name in known)
        return ImportedAccounts(tuple(created), existing, tuple(left_out))

    async def _ask_one(self, code: RequestCode, header: Ext) -> bytes:
        masters = await self._masters()
        return (await self._ask(masters[0], code, header)).body

    async def _tell_all(self, code: RequestCode, header: Ext, body: bytes = b"") -> None:
        """First the name servers, then the brokers: a new user finds its way when the brokers know it."""
        masters = await self._masters()
        await gather([self._tell_nameserver(number, code, header, body) for number in range(self._nameserver_count)])
        await self._ask_all(masters, code, header, body)

    @property
    def _nameserver_count(self) -> int:
        return len(self.client.nameservers.links)

    async def _tell_nameserver(self, number: int, code: RequestCode, header: Ext, body: bytes) -> None:
        """Name servers without users, such as Apache's, say that they do not know the request."""
        client = self.client
        ext = client.signer.signed(header, body)
        link = client.nameservers.links[number]
        response = await link.request(code, ext, body, timeout_ms=client.settings.request_timeout_ms)
        if response.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            raise error_of(response)


def _without_password(user: UserInfo) -> UserInfo:
    """Apache's brokers tell them."""
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
