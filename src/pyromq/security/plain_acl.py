"""Accounts of RocketMQ 4.x: ``plain_acl.yml``.

    globalWhiteRemoteAddresses: [10.10.103.*]       nobody from there is asked for anything
    accounts:
      - accessKey: RocketMQ                         more than six characters, as its secret
        secretKey: 12345678
        whiteRemoteAddress: 10.10.103.7             from there the access key alone is believed
        admin: false                                true: a super user
        defaultTopicPerm: DENY                      what no topicPerms say; the same for groups
        defaultGroupPerm: SUB
        topicPerms: [topicA=DENY, topicB=PUB|SUB]
        groupPerms: [groupA=DENY, groupB=SUB]

An account becomes a user with a custom policy (its own topics and groups) and a default policy. A permission that is
none of PUB, SUB, PUB|SUB and SUB|PUB denies, as in 4.x.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.errors import ConfigError, quoted
from pyromq.security.addresses import WhiteList
from pyromq.security.policies import Decision, PolicyEntry, PolicyType, UserStatus, UserType, make_user, merged
from pyromq.security.resources import Action, Match, ResourcePattern, ResourceType
from pyromq.security.secret import Secret
from pyromq.security.user_store import Account

KEY_CHARACTERS_MIN: Final = 7
_NOWHERE: Final = ("", "null")
_PERMS: Final = {
    "PUB": {Action.PUB},
    "SUB": {Action.SUB},
    "PUB|SUB": {Action.PUB, Action.SUB},
    "SUB|PUB": {Action.PUB, Action.SUB},
}


class _PlainAccount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: tuple[str, ...] | None = None
    group_perms: tuple[str, ...] | None = None


class _PlainAcl(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    global_white_remote_addresses: tuple[str, ...] | None = None
    accounts: tuple[_PlainAccount, ...] | None = None


def parse_plain_acl(text: bytes | str) -> tuple[list[Account], WhiteList]:
    """Parse RocketMQ 4.x's ``plain_acl.yml``. Raises ConfigError, which never shows a secret."""
    plain = _parsed(text)
    accounts = [_account(each) for each in plain.accounts or ()]
    return accounts, WhiteList(plain.global_white_remote_addresses or ())


def _parsed(text: bytes | str) -> _PlainAcl:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError("plain_acl.yml is read with PyYAML: pip install 'pyromq[acl]'") from error
    try:
        value = yaml.BaseLoader(text).get_single_data()  # texts only: the secret 0123456 is not a number
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise ConfigError(f"plain_acl.yml is not YAML{where}") from None
    try:
        return msgspec.convert(_without_blanks(value) or {}, _PlainAcl, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        place = str(error).rpartition(" - at ")[2]
        raise ConfigError(f"plain_acl.yml is not what RocketMQ expects at {place}") from None


def _without_blanks(value: object) -> object:
    """A key without a value is as good as none."""
    if isinstance(value, dict):
        return {key: _without_blanks(inner) for key, inner in value.items() if inner != ""}
    return [_without_blanks(inner) for inner in value] if isinstance(value, list) else value


def _account(plain: _PlainAccount) -> Account:
    for kind, text in (("accessKey", plain.access_key), ("secretKey", plain.secret_key)):
        if len(text) < KEY_CHARACTERS_MIN:
            raise ConfigError(f"account {quoted(plain.access_key)}: its {kind} needs more than six characters")
    white = plain.white_remote_address or ""
    user = make_user(
        plain.access_key,
        Secret(plain.secret_key),
        UserType.SUPER if plain.admin else UserType.NORMAL,
        UserStatus.ENABLE,
        WhiteList(() if white.lower() in _NOWHERE else (white,)),
    )
    own = (
        *_entries(ResourceType.TOPIC, plain.topic_perms or ()),
        *_entries(ResourceType.GROUP, plain.group_perms or ()),
    )
    default = [
        _entry(ResourcePattern(kind, Match.ANY), perm)
        for kind, perm in (
            (ResourceType.TOPIC, plain.default_topic_perm),
            (ResourceType.GROUP, plain.default_group_perm),
        )
        if perm
    ]
    policies = {PolicyType.CUSTOM: merged((), own), PolicyType.DEFAULT: tuple(default)}
    return Account(user=user, policies={kind: entries for kind, entries in policies.items() if entries})


def _entries(kind: ResourceType, texts: Iterable[str]) -> Iterable[PolicyEntry]:
    for text in texts:
        name, equals, perm = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{quoted(text)} is not of the form name=PUB|SUB")
        yield _entry(ResourcePattern.parse(f"{kind.value}:{name.strip()}"), perm)


def _entry(pattern: ResourcePattern, perm: str) -> PolicyEntry:
    actions = _PERMS.get(perm.strip().upper())
    if actions is None:
        return PolicyEntry(pattern, frozenset((Action.ALL,)), Decision.DENY)
    return PolicyEntry(pattern, frozenset(actions), Decision.ALLOW)
