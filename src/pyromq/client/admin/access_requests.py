"""Requests about users and policies: asked of one broker, changed on every server that keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.client.admin.broker_requests import BrokerRequests
from pyromq.client.admin.nameserver_requests import NameServerRequests
from pyromq.client.core.tasks import gather
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.auth import AclSubjectHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.access import AclInfo, UserInfo, decode_acls, decode_users


class AccessRequests:
    """What servers that keep users are asked; ``masters`` are addresses of brokers. Raises as ``BrokerRequests``."""

    def __init__(self, brokers: BrokerRequests, nameservers: NameServerRequests) -> None:
        self._brokers = brokers
        self._nameservers = nameservers

    async def users(self, address: str, containing: str = "") -> Sequence[UserInfo]:
        header = ListUsersHeader(user_filter=containing or None)
        return decode_users((await self._brokers.ask(address, RequestCode.AUTH_LIST_USER, header)).body)

    async def user(self, address: str, name: str) -> UserInfo | None:
        body = (await self._brokers.ask(address, RequestCode.AUTH_GET_USER, UserHeader(username=name))).body
        return java_json.decode(body, UserInfo) if body else None

    async def policies(self, address: str, subject: str | None, resource: str | None) -> Sequence[AclInfo]:
        header = ListAclsHeader(subject_filter=subject, resource_filter=resource)
        return decode_acls((await self._brokers.ask(address, RequestCode.AUTH_LIST_ACL, header)).body)

    async def create_user(self, masters: Sequence[str], user: UserInfo) -> None:
        header = UserHeader(username=user.username or "")
        await self._change(masters, RequestCode.AUTH_CREATE_USER, header, java_json.dumps(user))

    async def update_user(self, masters: Sequence[str], user: UserInfo) -> None:
        header = UserHeader(username=user.username or "")
        await self._change(masters, RequestCode.AUTH_UPDATE_USER, header, java_json.dumps(user))

    async def delete_user(self, masters: Sequence[str], name: str) -> None:
        await self._change(masters, RequestCode.AUTH_DELETE_USER, UserHeader(username=name))

    async def create_policy(self, masters: Sequence[str], subject: str, policy: AclInfo) -> None:
        header = AclSubjectHeader(subject=subject)
        await self._change(masters, RequestCode.AUTH_CREATE_ACL, header, java_json.dumps(policy))

    async def delete_policy(self, masters: Sequence[str], header: DeleteAclHeader) -> None:
        await self._change(masters, RequestCode.AUTH_DELETE_ACL, header)

    async def _change(self, masters: Sequence[str], code: RequestCode, header: Ext, body: bytes = b"") -> None:
        """First the name servers, then the brokers: a new user finds its way when the brokers know it."""
        await self._nameservers.ask_those_that_know(code, header, body)
        await gather([self._brokers.ask(address, code, header, body) for address in masters])
