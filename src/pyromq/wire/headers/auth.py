"""Users and access rules: 3001 to 3010 of 5.x brokers, 50 to 54 of 4.x brokers."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header


class UserHeader(Header, frozen=True, kw_only=True):
    """3001 to 3004: create, update, delete, get."""

    username: str


class ListUsersHeader(Header, frozen=True, kw_only=True):
    """Fields of request 3005 AUTH_LIST_USER."""

    user_filter: str | None = msgspec.field(name="filter", default=None)


class AccessTablesHeader(Header, frozen=True, kw_only=True):
    """31030 GET_ACCESS_TABLES, which a replica asks its master."""

    purpose: str
    nonce: str
    known: str = ""


class AclSubjectHeader(Header, frozen=True, kw_only=True):
    """3006, 3007 and 3009: create, update, get."""

    subject: str


class DeleteAclHeader(Header, frozen=True, kw_only=True):
    """Fields of request 3008 AUTH_DELETE_ACL."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


class ListAclsHeader(Header, frozen=True, kw_only=True):
    """Fields of request 3010 AUTH_LIST_ACL."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class PlainAccessHeader(Header, frozen=True, kw_only=True):
    """Fields of request 50 UPDATE_AND_CREATE_ACL_CONFIG."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class AccessKeyHeader(Header, frozen=True, kw_only=True):
    """Fields of request 51 DELETE_ACL_CONFIG."""

    access_key: str


class GlobalWhiteAddressesHeader(Header, frozen=True, kw_only=True):
    """Fields of request 53 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG."""

    global_white_addrs: str
