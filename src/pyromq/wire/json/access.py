"""Users and policies as tools and brokers exchange them (3001 to 3010).

    {"password":"12345678","userStatus":"enable","userType":"Super","username":"rocketmq"}
    {"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:order*",
                              "sourceIps":["192.168.0.0/16"]}],"policyType":"Custom"}],"subject":"User:alice"}

What is absent stays as it is, or gets a default. A password travels towards a server, never back; with one exception,
the tables of users that a master gives to its replicas (31030, ``security/handover``).
"""

from __future__ import annotations

import msgspec

from pyromq.wire.json import java_json


class UserInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """User as it travels (RocketMQ: UserInfo)."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        """Show the user without the password."""
        return f"UserInfo(username={self.username!r}, user_type={self.user_type!r}, user_status={self.user_status!r})"


class PolicyEntryInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is allowed or denied on one pattern of resources."""

    resource: str | None = None
    actions: tuple[str, ...] | None = None
    source_ips: tuple[str, ...] | None = None
    decision: str | None = None


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    policy_type: str | None = None
    entries: tuple[PolicyEntryInfo, ...] | None = None


class AclInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All policies of one subject, such as ``User:alice`` (RocketMQ: AclInfo)."""

    subject: str | None = None
    policies: tuple[PolicyInfo, ...] | None = None


class AccessTables(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica gets: the version, and if it is new to the replica the tables, as files have them."""

    version: str
    users: str | None = None
    owners: str | None = None
    proof: str = ""

    def __repr__(self) -> str:
        """Show the versions without the tables."""
        return f"AccessTables(version={self.version!r})"


def decode_users(body: bytes) -> list[UserInfo]:
    """Decode a list of users. Raises RemoteProtocolError."""
    return java_json.decode(body, list[UserInfo]) if body else []


def decode_acls(body: bytes) -> list[AclInfo]:
    """Decode a list of policies. Raises RemoteProtocolError."""
    return java_json.decode(body, list[AclInfo]) if body else []
