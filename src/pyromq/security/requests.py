"""Requests 3001 to 3010: tools look at users and policies, and change them. No response carries a password.

Only a super user makes, changes or deletes a super user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from pyromq.errors import ConfigError, quoted
from pyromq.security.errors import AccessChangeError, AccessDeniedError
from pyromq.security.identity import Principal
from pyromq.security.policies import (
    USER_PREFIX,
    UserType,
    acl_info,
    parse_policies,
    parse_policy_type,
    parse_subject,
)
from pyromq.security.resources import ResourcePattern
from pyromq.security.secret import Secret
from pyromq.security.user_store import UserStore, types_of, user_of
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.headers.auth import AclSubjectHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.access import AclInfo, UserInfo
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

ACCESS_CODES: Final = tuple(range(Code.AUTH_CREATE_USER, Code.AUTH_LIST_ACL + 1))
LOOKING_CODES: Final = frozenset((Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL))
CHANGING_CODES: Final = frozenset(ACCESS_CODES) - LOOKING_CODES


class AccessRequests:
    """Answers for the book of one server."""

    def __init__(self, book: UserStore) -> None:
        self._book = book
        self._answers: dict[int, Callable[[Received[Any], Principal], bytes]] = {
            Code.AUTH_CREATE_USER: self._create_user,
            Code.AUTH_UPDATE_USER: self._update_user,
            Code.AUTH_DELETE_USER: self._delete_user,
            Code.AUTH_GET_USER: self._get_user,
            Code.AUTH_LIST_USER: self._list_users,
            Code.AUTH_CREATE_ACL: self._set_policies,
            Code.AUTH_UPDATE_ACL: self._set_policies,
            Code.AUTH_DELETE_ACL: self._delete_policies,
            Code.AUTH_GET_ACL: self._get_policies,
            Code.AUTH_LIST_ACL: self._list_policies,
        }

    def answer(self, request: Received[Any], principal: Principal) -> bytes:
        """The body of the response. Raises AccessDeniedError, AccessChangeError, ProtocolError."""
        try:
            return self._answers[request.code](request, principal)
        except ConfigError as error:
            raise AccessChangeError(str(error)) from error
        except OSError as error:
            raise AccessChangeError(f"the change could not be saved, and was not made: {error}") from error

    # --- users ---

    def _create_user(self, request: Received[UserHeader], principal: Principal) -> bytes:
        info = _user_info(request)
        user = user_of(info)
        self._require_super(principal, user.is_super, "The super user can only be create by super user")
        self._book.create_user(user)
        logger.info("user created: user=%s type=%s by=%s", quoted(user.name), user.type.value, quoted(principal.name))
        return b""

    def _update_user(self, request: Received[UserHeader], principal: Principal) -> bytes:
        info = _user_info(request)
        name = info.username or ""
        type_, status = types_of(info)
        old = self._book.rules.users.get(name)
        concerns_super = type_ is UserType.SUPER or (old is not None and old.is_super)
        self._require_super(principal, concerns_super, "The super user can only be update by super user")
        self._book.update_user(name, Secret(info.password) if info.password else None, type_, status)
        logger.info("user changed: user=%s by=%s", quoted(name), quoted(principal.name))
        return b""

    def _delete_user(self, request: Received[UserHeader], principal: Principal) -> bytes:
        name = request.header.username
        old = self._book.rules.users.get(name)
        if old is None:  # as in RocketMQ: it is gone, however often that is asked for
            return b""
        self._require_super(principal, old.is_super, "The super user can only be delete by super user")
        self._book.delete_user(name)
        logger.info("user deleted: user=%s by=%s", quoted(name), quoted(principal.name))
        return b""

    def _get_user(self, request: Received[UserHeader], _: Principal) -> bytes:
        user = self._book.rules.users.get(request.header.username)
        return b"" if user is None else java_json.dumps(user.info())

    def _list_users(self, request: Received[ListUsersHeader], _: Principal) -> bytes:
        wanted = request.header.user_filter or ""
        users = [user.info() for name, user in sorted(self._book.rules.users.items()) if wanted in name]
        return java_json.dumps(users)

    # --- policies ---

    def _set_policies(self, request: Received[AclSubjectHeader], principal: Principal) -> bytes:
        name = parse_subject(request.header.subject)
        self._book.set_policies(name, parse_policies(java_json.decode(request.body, AclInfo)))
        logger.info("policies changed: user=%s by=%s", quoted(name), quoted(principal.name))
        return b""

    def _delete_policies(self, request: Received[DeleteAclHeader], principal: Principal) -> bytes:
        header = request.header
        name = parse_subject(header.subject)
        pattern = ResourcePattern.parse(header.resource) if header.resource else None
        self._book.delete_policies(name, parse_policy_type(header.policy_type) if pattern else None, pattern)
        logger.info("policies deleted: user=%s by=%s", quoted(name), quoted(principal.name))
        return b""

    def _get_policies(self, request: Received[AclSubjectHeader], _: Principal) -> bytes:
        name = parse_subject(request.header.subject)
        if name not in self._book.rules.users:
            raise AccessChangeError(f"The subject is not exist: {quoted(name)}")
        policies = self._book.rules.policies.get(name)
        return b"" if not policies else java_json.dumps(acl_info(name, policies))

    def _list_policies(self, request: Received[ListAclsHeader], _: Principal) -> bytes:
        header = request.header
        found = []
        for name, policies in sorted(self._book.rules.policies.items()):
            if (header.subject_filter or "") not in USER_PREFIX + name:
                continue
            info = acl_info(name, policies)
            texts = [entry.resource or "" for policy in info.policies or () for entry in policy.entries or ()]
            if not header.resource_filter or any(header.resource_filter in text for text in texts):
                found.append(info)
        return java_json.dumps(found)

    def _require_super(self, principal: Principal, is_needed: bool, text: str) -> None:
        if is_needed and not self._book.rules.is_super(principal):
            raise AccessDeniedError(text)


def _user_info(request: Received[UserHeader]) -> UserInfo:
    """The name in the header counts."""
    info = java_json.decode(request.body or b"{}", UserInfo)
    return UserInfo(
        username=request.header.username,
        password=info.password,
        user_type=info.user_type,
        user_status=info.user_status,
    )
