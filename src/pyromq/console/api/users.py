"""Users of the cluster, their policies, decisions, and the audit log."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.console.views.users import PolicyRow, Users, new_secret, question_of, read_users, row_of
from pyromq.console.web.api import Api, Call
from pyromq.operate.access import AccessVerdict, policy_entry

functions = Api("users")


class UserPath(msgspec.Struct, frozen=True, kw_only=True):
    user: str


class NewUser(msgspec.Struct, frozen=True, kw_only=True):
    """Without a password one is made."""

    name: str
    is_super: bool = False
    password: str = ""


class UserSecret(msgspec.Struct, frozen=True, kw_only=True):
    """``password`` is told this once."""

    name: str
    password: str


class UserChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a user; absent fields stay."""

    is_super: bool | None = None
    is_enabled: bool | None = None


class NewPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """``Topic:orders``, ``Group:bill*``, ``Cluster:*`` or ``*``."""

    resource: str
    actions: list[str]
    allows: bool = True
    sources: list[str] = []
    is_default: bool = False


class PolicyQuery(msgspec.Struct, frozen=True, kw_only=True):
    resource: str
    is_default: bool = False


class RoleTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """producer, consumer, pipeline, operator or read-only"""

    template: str
    topics: list[str] = []
    groups: list[str] = []


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[PolicyRow]


class AccessQuestion(msgspec.Struct, frozen=True, kw_only=True):
    action: str
    resource: str
    ip: str = "127.0.0.1"


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since``: 1 h, 1 d or 7 d. ``outcome``: done, asked or refused."""

    user: str = ""
    resource: str = ""
    outcome: str = ""
    since: str = ""
    limit: str = ""


class AuditEntries(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[dict[str, Any]]


@functions.get("/users", summary="Users of the cluster and their policies")
async def users(call: Call) -> Users:
    return await read_users(call.desk)


@functions.post("/users", summary="Create a user", status=201)
async def create(call: Call, body: NewUser) -> UserSecret:
    password = body.password or new_secret()
    await call.desk.admin.access.create_user(body.name, password, is_super=body.is_super)
    return UserSecret(name=body.name, password=password)


@functions.patch("/users/{user}", summary="Change the type or status of a user")
async def change(call: Call, path: UserPath, body: UserChange) -> None:
    await call.desk.admin.access.update_user(path.user, is_super=body.is_super, enabled=body.is_enabled)


@functions.delete("/users/{user}", summary="Delete a user and its policies")
async def delete(call: Call, path: UserPath) -> None:
    await call.desk.admin.access.delete_user(path.user)


@functions.post("/users/{user}/password", summary="A new password for a user")
async def renew(call: Call, path: UserPath) -> UserSecret:
    password = new_secret()
    await call.desk.admin.access.update_user(path.user, password=password)
    return UserSecret(name=path.user, password=password)


@functions.put("/users/{user}/policies", summary="Allow or deny something; the entry of the same resource is replaced")
async def allow(call: Call, path: UserPath, body: NewPolicy) -> Entries:
    entry = policy_entry(body.resource, body.actions, allow=body.allows, sources=body.sources)
    await call.desk.admin.access.set_policy(path.user, [entry], default=body.is_default)
    return Entries(entries=[row_of(path.user, entry, is_default=body.is_default)])


@functions.delete("/users/{user}/policies", summary="Delete the entry of a resource")
async def forget(call: Call, path: UserPath, query: PolicyQuery) -> None:
    await call.desk.admin.access.delete_policy(path.user, query.resource, default=query.is_default)


@functions.post("/users/{user}/role", summary="Give a user the rights of a role")
async def give(call: Call, path: UserPath, body: RoleTemplate) -> Entries:
    entries = await call.desk.admin.access.apply_template(
        path.user, body.template, topics=body.topics, groups=body.groups
    )
    return Entries(entries=[row_of(path.user, each) for each in entries])


@functions.get("/users/{user}/access", summary="Whether a user may do something, and which entry decides")
async def explain(call: Call, path: UserPath, query: AccessQuestion) -> AccessVerdict:
    return await call.desk.admin.access.explain(path.user, query.action, query.resource, ip=query.ip)


@functions.get("/audit", summary="Who changed what, and what was refused; the newest first")
async def audit(call: Call, query: AuditQuery) -> AuditEntries:
    question = question_of(msgspec.to_builtins(query), call.desk.clock.now_ms())
    return AuditEntries(entries=msgspec.to_builtins(await call.desk.admin.audit.list(question)))
