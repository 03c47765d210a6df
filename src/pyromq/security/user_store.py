"""User store: users and policies of one server, changed one by one and kept in one file.

    {"users":[{"username":"…","password":"…","userType":"Super","userStatus":"enable"}],
     "acls":[{"subject":"User:…","policies":[…]}],"changes":3}

``rules`` is the state as one frozen value; every change replaces it whole, with the next version. A change counts when
the file is durable (``whole_text``: written aside, flushed, renamed; for its owner alone); if the disk refuses, nothing
has changed. ``changes`` grows with each of them; a replica has its master's. Passwords are HMAC keys and stand in the
file as they are.

Accounts of a ``plain_acl.yml`` that is followed are laid over the book and are not written to its file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from pyromq.errors import ConfigError, quoted
from pyromq.security.addresses import WhiteList
from pyromq.security.errors import AccessChangeError
from pyromq.security.identity import Means, Principal
from pyromq.security.policies import (
    AccessDecision,
    Policies,
    PolicyEntry,
    PolicyType,
    User,
    UserStatus,
    UserType,
    acl_info,
    decide,
    make_user,
    merged,
    parse_policies,
    parse_subject,
)
from pyromq.security.resources import Need, ResourcePattern
from pyromq.security.secret import Secret
from pyromq.whole_text import SystemDisk, TextDisk, WholeText
from pyromq.wire.json.access import AclInfo, UserInfo

logger = logging.getLogger(__name__)

USERS_MAX: Final = 10_000
FILE_NAME: Final = "pyromq-access.json"
_SUPER: Final = AccessDecision(True, "a super user may do everything")
_WHITE_LISTED: Final = AccessDecision(True, "the address is on the global white list")


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decisions depend on; never changed, replaced."""

    users: Mapping[str, User] = field(default_factory=lambda: MappingProxyType({}))
    policies: Mapping[str, Policies] = field(default_factory=lambda: MappingProxyType({}))
    white_list: WhiteList = field(default_factory=WhiteList)
    version: int = 0
    changes: int = 0  # of the book, since its file was made

    def verdict(self, principal: Principal, need: Need, ip: str) -> AccessDecision:
        """Whether a verified sender may do that, from that address."""
        if principal.means is Means.WHITE_LIST:
            return (
                _WHITE_LISTED
                if ip in self.white_list
                else AccessDecision(False, "it is not on the white list any more.")
            )
        return self.verdict_of(principal.name, need, ip)

    def verdict_of(self, name: str, need: Need, ip: str) -> AccessDecision:
        """Decide for a user that is only asked about, without a request."""
        user = self.users.get(name)
        if user is None:
            return AccessDecision(False, "the user is not found.")
        if not user.is_enabled:
            return AccessDecision(False, "the user is disabled.")
        return _SUPER if user.is_super else decide(self.policies.get(name), need, ip)

    def is_super(self, principal: Principal) -> bool:
        if principal.means is Means.WHITE_LIST:
            return True
        user = self.users.get(principal.name)
        return user is not None and user.is_enabled and user.is_super


class _StoredUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    username: str
    password: str
    user_type: UserType = UserType.NORMAL
    user_status: UserStatus = UserStatus.ENABLE
    white_addresses: tuple[str, ...] = ()


class _StoredBook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    users: tuple[_StoredUser, ...] = ()
    acls: tuple[AclInfo, ...] = ()
    white_addresses: tuple[str, ...] = ()
    changes: int = 0


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A user with its policies, as an import brings it."""

    user: User
    policies: dict[PolicyType, tuple[PolicyEntry, ...]]


class UserStore:
    """Owner of the rules. ``path`` None keeps them in memory only."""

    def __init__(self, path: Path | None = None, *, disk: TextDisk | None = None) -> None:
        """Load users and policies. Raises CorruptFileError when the file and its backup are damaged, OSError."""
        self._text = WholeText(path, _is_whole, disk=disk or SystemDisk(), copied=True) if path else None
        self._own = Rules()
        self._followed: tuple[Account, ...] = ()
        self._followed_white = WhiteList()
        self._changes = 0
        self._encoded: tuple[Rules, bytes] | None = None
        self.rules = self._own
        self.on_change: list[Callable[[], None]] = []
        stored = self._text.load(_decode) if self._text else None
        if stored is not None:
            self._adopt(_rules_of(stored))

    # --- users ---

    def create_user(self, user: User) -> None:
        """Add a user and save. Raises AccessChangeError, OSError as all changes do."""
        if user.name in self._own.users:
            raise AccessChangeError(f"The user is existed: {quoted(user.name)}")
        if len(self._own.users) >= USERS_MAX:
            raise AccessChangeError(f"there are {USERS_MAX} users, no more are kept")
        self._save(replace(self._own, users=MappingProxyType({**self._own.users, user.name: user})))

    def update_user(
        self, name: str, password: Secret | None, type_: UserType | None, status: UserStatus | None
    ) -> None:
        """Change a user; what is None stays."""
        old = self._user(name)
        new = make_user(name, password or old.password, type_ or old.type, status or old.status, old.white_list)
        users = {**self._own.users, name: new}
        self._keep_a_super_user(users)
        self._save(replace(self._own, users=MappingProxyType(users)))

    def delete_user(self, name: str) -> None:
        """Delete a user with its policies."""
        self._user(name)
        users = {each: user for each, user in self._own.users.items() if each != name}
        policies = {each: kept for each, kept in self._own.policies.items() if each != name}
        self._keep_a_super_user(users)
        self._save(replace(self._own, users=MappingProxyType(users), policies=MappingProxyType(policies)))

    def _user(self, name: str) -> User:
        found = self._own.users.get(name)
        if found is None:
            raise AccessChangeError(f"The user is not exist: {quoted(name)}")
        return found

    def _keep_a_super_user(self, users: Mapping[str, User]) -> None:
        before = any(user.is_super and user.is_enabled for user in self._own.users.values())
        if before and not any(user.is_super and user.is_enabled for user in users.values()):
            raise AccessChangeError("the last super user cannot be deleted, disabled or made a normal one")

    # --- policies ---

    def set_policies(self, name: str, given: Policies) -> None:
        """Lay entries over those that the user has; entries for other patterns stay."""
        self._user(name)
        old = self._own.policies.get(name, {})
        new = {kind: merged(old.get(kind, ()), given.get(kind, ())) for kind in PolicyType}
        self._put_policies(name, new)

    def delete_policies(self, name: str, kind: PolicyType | None, pattern: ResourcePattern | None) -> None:
        """One entry, or without a pattern all policies of the user."""
        self._user(name)
        old = self._own.policies.get(name)
        if old is None:
            raise AccessChangeError(f"The acl is not exist: {quoted(name)}")
        new: dict[PolicyType, tuple[PolicyEntry, ...]] = {}
        if pattern is not None:
            chosen = kind or PolicyType.CUSTOM
            new = {
                each: tuple(entry for entry in entries if each is not chosen or entry.pattern != pattern)
                for each, entries in old.items()
            }
        self._put_policies(name, new)

    def _put_policies(self, name: str, new: Policies) -> None:
        policies = {**self._own.policies, name: {kind: entries for kind, entries in new.items() if entries}}
        if not policies[name]:
            del policies[name]
        self._save(replace(self._own, policies=MappingProxyType(policies)))

    # --- accounts of 4.x ---

    def add(self, accounts: Iterable[Account], white_list: WhiteList | None = None) -> list[str]:
        """Import accounts that are not here yet, in one change; the names of those that were added."""
        fresh = [account for account in accounts if account.user.name not in self._own.users]
        if len(self._own.users) + len(fresh) > USERS_MAX:
            raise AccessChangeError(f"{len(fresh)} more users would be more than {USERS_MAX}")
        users = {**self._own.users, **{account.user.name: account.user for account in fresh}}
        policies = {**self._own.policies, **{each.user.name: each.policies for each in fresh if each.policies}}
        addresses = (*self._own.white_list.texts, *(white_list.texts if white_list else ()))
        white = WhiteList(tuple(dict.fromkeys(addresses)))
        if fresh or white != self._own.white_list:
            self._save(Rules(MappingProxyType(users), MappingProxyType(policies), white))
        return [account.user.name for account in fresh]

    def follow(self, accounts: Iterable[Account], white_list: WhiteList) -> None:
        """Lay the accounts of a file that others keep over those of the book, in place of what it had before."""
        self._followed, self._followed_white = tuple(accounts), white_list
        self._adopt(self._own)

    # --- replicas ---

    @property
    def changes(self) -> int:
        """How often the book was changed; a replica has its master's number."""
        return self._own.changes

    def text(self) -> bytes:
        """Everything that the file has, passwords too: for a replica, and for nobody else."""
        if self._encoded is None or self._encoded[0] is not self._own:
            self._encoded = self._own, _encoded(self._own)
        return self._encoded[1]

    def adopt(self, text: bytes) -> None:
        """Be what another server's book is. Raises ConfigError, ValueError, OSError, and is unchanged."""
        rules = _rules_of(_decode(text))
        if len(rules.users) > USERS_MAX:
            raise ConfigError(f"{len(rules.users)} users are more than {USERS_MAX}")
        self._keep_a_super_user(rules.users)
        self._keep(rules)

    # --- the state ---

    def _save(self, own: Rules) -> None:
        self._keep(replace(own, changes=self._own.changes + 1))

    def _keep(self, own: Rules) -> None:
        if self._text is not None:
            self._text.save(_encoded(own))
        self._adopt(own)

    def _adopt(self, own: Rules) -> None:
        self._own = own
        self._changes += 1
        users = {**{each.user.name: each.user for each in self._followed}, **own.users}
        followed = {each.user.name: each.policies for each in self._followed if each.user.name not in own.users}
        white = WhiteList((*own.white_list.texts, *self._followed_white.texts))
        self.rules = Rules(
            MappingProxyType(users), MappingProxyType({**followed, **own.policies}), white, self._changes
        )
        for tell in self.on_change:
            tell()


def _is_whole(text: bytes) -> bool:
    try:
        _decode(text)
    except ValueError:
        return False
    return True


def _decode(text: bytes) -> _StoredBook:
    try:
        return msgspec.json.decode(text, type=_StoredBook)
    except msgspec.MsgspecError:
        raise ValueError("it is not a file of users and policies") from None  # the cause might show a password


def _rules_of(stored: _StoredBook) -> Rules:
    try:
        users = {
            each.username: make_user(
                each.username,
                Secret(each.password),
                each.user_type,
                each.user_status,
                WhiteList(each.white_addresses),
            )
            for each in stored.users
        }
        policies = {parse_subject(each.subject or ""): parse_policies(each) for each in stored.acls}
        white_list = WhiteList(stored.white_addresses)
        return Rules(MappingProxyType(users), MappingProxyType(policies), white_list, changes=stored.changes)
    except ConfigError as error:
        raise ConfigError(f"the file of users and policies is not usable: {error}") from error


def _encoded(rules: Rules) -> bytes:
    stored = _StoredBook(
        users=tuple(
            _StoredUser(
                username=user.name,
                password=user.password.reveal(),
                user_type=user.type,
                user_status=user.status,
                white_addresses=user.white_list.texts,
            )
            for user in rules.users.values()
        ),
        acls=tuple(acl_info(name, policies) for name, policies in rules.policies.items()),
        white_addresses=rules.white_list.texts,
        changes=rules.changes,
    )
    return msgspec.json.format(msgspec.json.encode(stored), indent=1) + b"\n"


def user_of(info: UserInfo) -> User:
    """A new user as a tool describes it. Raises ConfigError."""
    type_, status = types_of(info)
    return make_user(
        info.username or "",
        Secret(info.password or ""),
        type_ or UserType.NORMAL,
        status or UserStatus.ENABLE,
    )


def types_of(info: UserInfo) -> tuple[UserType | None, UserStatus | None]:
    """Read type and status of a user from their wire form. Raises ConfigError."""
    types, statuses = {each.value.lower(): each for each in UserType}, {each.value: each for each in UserStatus}
    type_ = types.get(info.user_type.lower()) if info.user_type else None
    status = statuses.get(info.user_status.lower()) if info.user_status else None
    if info.user_type and type_ is None:
        raise ConfigError(f"{quoted(info.user_type)} is not a type of user: Super or Normal")
    if info.user_status and status is None:
        raise ConfigError(f"{quoted(info.user_status)} is not a status of a user: enable or disable")
    return type_, status
