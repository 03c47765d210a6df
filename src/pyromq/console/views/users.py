"""Users of the cluster and their policies, one row for each entry; and who did what, from audit logs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.errors import BrokerError, ConfigError, NoPermissionError
from pyromq.operate.access import policy_entry
from pyromq.security.audit import AuditEntry, AuditOutcome, AuditSearch
from pyromq.security.resources import Action
from pyromq.security.templates import Template
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, UserInfo

ACTIONS: Final = tuple(each.value for each in Action)
TEMPLATES: Final = tuple(each.value for each in Template)
_PASSWORD_BYTES: Final = 18
_LIMITS: Final = (100, 250, 1_000)
_DAYS_MS: Final = {"1 h": 3_600_000, "1 d": 86_400_000, "7 d": 7 * 86_400_000}


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_super: bool
    is_enabled: bool


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a policy; the default policy is asked last."""

    user: str
    resource: str
    actions: tuple[str, ...]
    allows: bool
    sources: tuple[str, ...] = ()
    is_default: bool = False


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """``closed`` says why there are none to show; ``is_refused``: because this console has no right to see them."""

    users: tuple[UserView, ...] = ()
    policies: tuple[PolicyRow, ...] = ()
    closed: str = ""
    is_refused: bool = False


async def read_users(desk: Desk) -> Users:
    try:
        users, policies = await desk.admin.access.users(), await desk.admin.access.policies()
    except BrokerError as error:
        return Users(closed=str(error), is_refused=isinstance(error, NoPermissionError))
    return Users(users=tuple(map(user_of, users)), policies=tuple(policy_rows(policies)))


def user_of(info: UserInfo) -> UserView:
    return UserView(
        name=info.username or "",
        is_super=(info.user_type or "").lower() == "super",
        is_enabled=(info.user_status or "enable").lower() != "disable",
    )


def policy_rows(found: list[AclInfo]) -> list[PolicyRow]:
    return [
        row_of((acl.subject or "").removeprefix("User:"), entry, is_default=(policy.policy_type or "") == "Default")
        for acl in found
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]


def row_of(user: str, entry: PolicyEntryInfo, *, is_default: bool = False) -> PolicyRow:
    return PolicyRow(
        user=user,
        resource=entry.resource or "",
        actions=tuple(entry.actions or ()),
        allows=(entry.decision or "").lower() == "allow",
        sources=tuple(entry.source_ips or ()),
        is_default=is_default,
    )


def new_secret() -> str:
    """For a user that the console creates: shown once, and kept nowhere here."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def words_of(text: str) -> list[str]:
    """Names between commas or spaces."""
    return text.replace(",", " ").split()


def entry_of(form: Mapping[str, str], actions: list[str]) -> PolicyEntryInfo:
    """From a form. Raises ConfigError."""
    if not actions:
        raise ConfigError("choose at least one action")
    sources = words_of(form.get("sources", ""))
    return policy_entry(
        form.get("resource", "").strip(), actions, allow=form.get("decision") != "deny", sources=sources
    )


# --- audit ---


def question_of(query: Mapping[str, str], now_ms: int) -> AuditSearch:
    """What a query string asks for; what cannot be read means everything."""
    limit = query.get("limit", "")
    since_ms = _DAYS_MS.get(query.get("since", ""), 0)
    outcome = query.get("outcome", "")
    return AuditSearch(
        since_ms=now_ms - since_ms if since_ms else 0,
        user=query.get("user", "").strip()[:200],
        resource=query.get("resource", "").strip()[:255],
        outcome=outcome if outcome in list(AuditOutcome) else "",
        limit=int(limit) if limit in map(str, _LIMITS) else _LIMITS[0],
    )


class ChangedField(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is different: empty where it was, or is, not there."""

    what: str
    before: str
    after: str


def changes_of(entry: AuditEntry) -> list[ChangedField]:
    """What is different, field by field where both sides have fields."""
    found = []
    for name, (before, after) in entry.changes.items():
        if isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            found += [
                ChangedField(what=f"{name} {key}", before=_text(before.get(key)), after=_text(after.get(key)))
                for key in keys
            ]
        else:
            found.append(ChangedField(what=name, before=_text(before), after=_text(after)))
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
