"""Requests about users and policies: asked of one broker, changed on every server that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from pyromq.client.admin.broker_requests import BrokerRequests
from pyromq.client.admin.nameserver_requests import NameServerRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import BrokerError
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.auth import AclSubjectHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.access import AclInfo, UserInfo, decode_acls, decode_users

_EXISTS: Final = "is existed"  # in the remark, RocketMQ's and ours


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
        """Create it where it is not there yet, so that what failed at some servers can be repeated.

        Raises BrokerError when all of them had it.
        """
        header, body = UserHeader(username=user.username or ""), java_json.dumps(user)
        try:
            await self._nameservers.ask_those_that_know(RequestCode.AUTH_CREATE_USER, header, body)
        except BrokerError as error:
            if not _is_there(error):
                raise
        requests = [self._brokers.ask(each, RequestCode.AUTH_CREATE_USER, header, body) for each in masters]
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, BaseException)]
        failed = [each for each in refused if not _is_there(each)]
        if failed or len(refused) == len(masters):
            raise (failed or refused)[0]

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


def _is_there(error: BaseException) -> bool:
    """Whether the server has a user of this name already."""
    return isinstance(error, BrokerError) and _EXISTS in error.remark
