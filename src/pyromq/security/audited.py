"""Which requests are audited: all that may change something by the table of rights, except what clients do all day."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pyromq.security.policies import USER_PREFIX, acl_info
from pyromq.security.resources import Action
from pyromq.security.rights import BROKER_RIGHTS, NAMESERVER_RIGHTS, Rights
from pyromq.security.user_store import Rules
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received

_CHANGES: Final = frozenset((Action.CREATE, Action.UPDATE, Action.DELETE))
ROUTINE: Final = frozenset(
    (
        Code.UPDATE_CONSUMER_OFFSET,  # every consumer, every few seconds
        Code.REGISTER_BROKER,  # every broker, every half minute
        Code.UNREGISTER_BROKER,
        Code.BROKER_HEARTBEAT,
        Code.QUERY_DATA_VERSION,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.GRANT_MEMBER,  # every failover agent, every few seconds
        Code.REPORT_MEMBER,  # every replica, several times a second
    )
)
"""Requests that change something, too, and that no operator sends."""


def audited_codes(rights: Rights) -> frozenset[int]:
    return frozenset(
        code
        for code, right in rights.items()
        if code not in ROUTINE and any(_CHANGES.intersection(clause.actions) for clause in right.clauses)
    )


AUDITED_BY_BROKERS: Final = audited_codes(BROKER_RIGHTS) | {Code.CONSUME_MESSAGE_DIRECTLY}
AUDITED_BY_NAMESERVERS: Final = audited_codes(NAMESERVER_RIGHTS)


def action_name(code: int) -> str:
    """``UPDATE_AND_CREATE_TOPIC``; the number where it has no name."""
    try:
        return Code(code).name
    except ValueError:
        return str(code)


def subject_of(request: Received[Any]) -> str:
    """The user that an access request is about."""
    subject = getattr(request.header, "username", None) or getattr(request.header, "subject", None) or ""
    return str(subject).removeprefix(USER_PREFIX)


def user_state(rules: Rules, name: str) -> dict[str, Any]:
    """A user and its policies as they are now, without its password."""
    state: dict[str, Any] = {}
    if (user := rules.users.get(name)) is not None:
        state[f"User:{name}"] = {"type": user.type.value, "status": user.status.value}
    if policies := rules.policies.get(name):
        state[f"Policies:{name}"] = msgspec.to_builtins(acl_info(name, policies))
    return state
