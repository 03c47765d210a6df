"""Users, rules and signed requests for tests of access control."""

from __future__ import annotations

from typing import Any

from pyromq.security.guard import Guard
from pyromq.security.policies import PolicyType, parse_policies
from pyromq.security.rights import BROKER_RIGHTS, Rights
from pyromq.security.user_store import UserStore, user_of
from pyromq.security.validators import SignatureValidator
from pyromq.wire.command import encode_request
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pyromq.wire.received import Received, decode_received
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, sign
from tests.conftest import CANARY

CLUSTER = "DefaultCluster"


def secret_of(name: str) -> str:
    return f"{name}-{CANARY}"


def add_user(book: UserStore, name: str, *, is_super: bool = False) -> None:
    book.create_user(
        user_of(UserInfo(username=name, password=secret_of(name), user_type="Super" if is_super else "Normal"))
    )


def entry(
    resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] | None = None
) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource=resource, actions=actions, decision=decision, source_ips=sources)


def allow(book: UserStore, name: str, *entries: PolicyEntryInfo, kind: PolicyType = PolicyType.CUSTOM) -> None:
    policy = PolicyInfo(policy_type=kind.value, entries=entries)
    book.set_policies(name, parse_policies(AclInfo(policies=(policy,))))


def guard_of(book: UserStore, rights: Rights = BROKER_RIGHTS, cluster: str = CLUSTER) -> Guard:
    return Guard(book, [SignatureValidator(book)], rights, cluster)


def request(
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    user: str = "",
    secret: str | None = None,
    serialize_type: SerializeType = SerializeType.JSON,
) -> Received[Any]:
    """As it arrives; signed when there is a user."""
    fields = dict(ext or {})
    if user:
        fields[ACCESS_KEY] = user
        fields[SIGNATURE] = sign(fields, body, secret_of(user) if secret is None else secret)
    (frame,) = FrameDecoder().feed(encode_request(code, 1, fields, body=body, serialize_type=serialize_type))
    return decode_received(frame)


def send_fields(topic: str, group: str = "g") -> dict[str, str]:
    return {
        **{"a": group, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"},
        **{"i": "UNIQ_KEY\x01x\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a"},
    }


def pull_fields(topic: str, group: str) -> dict[str, str]:
    return {
        **{"topic": topic, "consumerGroup": group, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"},
        **{"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*"},
    }
