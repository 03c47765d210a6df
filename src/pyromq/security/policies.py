"""Users and policies, and the decision about one need of one user: RocketMQ's ACL 2.0.

A super user may do everything. For everybody else: of the entries of the custom policy that match resource, action and
source address the most exact one decides (a type before ``*``, a whole name before a prefix, a longer prefix before a
shorter one, Deny before Allow); when none matches, likewise the default policy; when none matches there, no.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from pyromq.errors import ConfigError, quoted
from pyromq.security.addresses import SourceRanges, WhiteList
from pyromq.security.identity import Means, Voucher
from pyromq.security.resources import Action, Need, ResourcePattern, parse_action
from pyromq.security.secret import Secret
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pyromq.wire.signature import SigningKey

USER_PREFIX: Final = "User:"
USERNAME_CHARACTERS_MAX: Final = 255
ENTRIES_MAX: Final = 1_000  # of one user, so that a decision stays quick
_EVERYWHERE: Final = SourceRanges()
_NOWHERE: Final = WhiteList()


class UserType(Enum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLE = "enable"
    DISABLE = "disable"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class User(NamedTuple):
    """``white_list``: addresses from which the name alone is believed (RocketMQ 4.x: whiteRemoteAddress)."""

    name: str
    password: Secret
    key: SigningKey
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    white_list: WhiteList = _NOWHERE
    voucher: Voucher = Voucher("", Means.SIGNATURE)  # what a good signature proves
    is_enabled: bool = True

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    def info(self) -> UserInfo:
        """The user as tools see it: without the password."""
        return UserInfo(username=self.name, user_type=self.type.value, user_status=self.status.value)


def make_user(
    name: str,
    password: Secret,
    type_: UserType = UserType.NORMAL,
    status: UserStatus = UserStatus.ENABLE,
    white_list: WhiteList = _NOWHERE,
) -> User:
    """Check and make a user. Raises ConfigError."""
    if not name.strip() or not name.isprintable() or len(name) > USERNAME_CHARACTERS_MAX:
        raise ConfigError(f"user name {quoted(name)} is blank, too long, or has characters that cannot be printed")
    if not password.reveal().strip():
        raise ConfigError(f"user {quoted(name)} has no password")
    voucher = Voucher(name, Means.SIGNATURE)
    is_enabled = status is UserStatus.ENABLE
    return User(name, password, SigningKey(password.reveal()), type_, status, white_list, voucher, is_enabled)


class PolicyEntry(NamedTuple):
    """What is allowed or denied on the resources of one pattern."""

    pattern: ResourcePattern
    actions: frozenset[Action]
    decision: Decision
    sources: SourceRanges = _EVERYWHERE

    @classmethod
    def of(cls, info: PolicyEntryInfo) -> PolicyEntry:
        """Read a policy entry from its wire form. Raises ConfigError."""
        if not info.actions:
            raise ConfigError(f"the entry for {quoted(info.resource or '')} names no actions")
        actions = frozenset(map(parse_action, info.actions))
        if Action.ANY in actions:
            raise ConfigError("the action Any cannot be given; All means each of them")
        decision = _DECISIONS.get((info.decision or "").lower())
        if decision is None:
            raise ConfigError(f"{quoted(info.decision or '')} is not a decision: Allow or Deny")
        return cls(ResourcePattern.parse(info.resource or ""), actions, decision, SourceRanges(info.source_ips or ()))

    def info(self) -> PolicyEntryInfo:
        return PolicyEntryInfo(
            resource=str(self.pattern),
            actions=tuple(each.value for each in Action if each in self.actions),
            source_ips=self.sources.texts or None,
            decision=self.decision.value,
        )

    def __str__(self) -> str:
        actions = ",".join(each.value for each in Action if each in self.actions)
        origin = f" from {', '.join(self.sources.texts)}" if self.sources.texts else ""
        return f"{self.decision.value} {actions} on {self.pattern}{origin}"

    def applies_to(self, need: Need, ip: str) -> bool:
        return (
            self.pattern.matches(need.resource)
            and (Action.ALL in self.actions or not self.actions.isdisjoint(need.actions))
            and ip in self.sources
        )


Policies = Mapping[PolicyType, tuple[PolicyEntry, ...]]
"""Of one user; a pattern occurs once in each policy."""


class AccessDecision(NamedTuple):
    """A decision, why, and which entry made it."""

    allowed: bool
    reason: str
    policy: PolicyType | None = None
    entry: PolicyEntry | None = None


NO_MATCH: Final = AccessDecision(False, "no matched policies.")
_DECISIONS: Final = {each.value.lower(): each for each in Decision}
_DENIED: Final = "the decision is deny."


def decide(policies: Policies | None, need: Need, ip: str) -> AccessDecision:
    """Decide whether the policies of a user that is no super user allow what a request needs."""
    for kind in PolicyType:
        found = [entry for entry in (policies or {}).get(kind, ()) if entry.applies_to(need, ip)]
        if found:
            entry = min(found, key=_rank)
            allowed = entry.decision is Decision.ALLOW
            return AccessDecision(allowed, "" if allowed else _DENIED, kind, entry)
    return NO_MATCH


def _rank(entry: PolicyEntry) -> tuple[tuple[bool, int, int], bool]:
    return entry.pattern.rank, entry.decision is Decision.ALLOW


def parse_subject(text: str) -> str:
    """The user that a subject such as ``User:alice`` names. Raises ConfigError."""
    name = text[len(USER_PREFIX) :] if text.lower().startswith(USER_PREFIX.lower()) else ""
    if not name.strip():
        raise ConfigError(f"{quoted(text)} is not a subject: write User:name")
    return name


def parse_policies(info: AclInfo) -> dict[PolicyType, tuple[PolicyEntry, ...]]:
    """What a tool sends; a pattern that is given twice keeps its last entry. Raises ConfigError."""
    if not info.policies:
        raise ConfigError("no policies are given")
    found: dict[PolicyType, tuple[PolicyEntry, ...]] = {}
    for policy in info.policies:
        kind = parse_policy_type(policy.policy_type)
        if not policy.entries:
            raise ConfigError(f"the {kind.value} policy has no entries")
        found[kind] = merged(found.get(kind, ()), tuple(map(PolicyEntry.of, policy.entries)))
    return found


def parse_policy_type(text: str | None) -> PolicyType:
    """Custom when none is given. Raises ConfigError."""
    kinds = {each.value.lower(): each for each in PolicyType}
    found = kinds.get(text.lower()) if text else PolicyType.CUSTOM
    if found is None:
        raise ConfigError(f"{quoted(text or '')} is not a type of policy: Custom or Default")
    return found


def merged(old: tuple[PolicyEntry, ...], new: tuple[PolicyEntry, ...]) -> tuple[PolicyEntry, ...]:
    """Entries of both; of two with the same pattern the new one. Raises ConfigError when they are too many."""
    by_pattern = {entry.pattern: entry for entry in (*old, *new)}
    if len(by_pattern) > ENTRIES_MAX:
        raise ConfigError(f"{len(by_pattern)} entries in one policy, at most {ENTRIES_MAX} are allowed")
    return tuple(by_pattern.values())


def acl_info(name: str, policies: Policies) -> AclInfo:
    infos = [
        PolicyInfo(policy_type=kind.value, entries=tuple(entry.info() for entry in entries))
        for kind, entries in policies.items()
        if entries
    ]
    return AclInfo(subject=USER_PREFIX + name, policies=tuple(infos))
