"""Access control of a server when it starts: its users and its validators."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from pyromq.errors import ConfigError, MQError
from pyromq.security.guard import Guard
from pyromq.security.plain_acl import parse_plain_acl
from pyromq.security.policies import UserStatus, UserType, make_user
from pyromq.security.rights import Rights
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import FILE_NAME, UserStore
from pyromq.security.validators import load_validators
from pyromq.whole_text import TextDisk

logger = logging.getLogger(__name__)


class AccessLocation(NamedTuple):
    """Where a server keeps its users, and which cluster it belongs to; ``folder`` None keeps them in memory."""

    cluster: str
    folder: Path | None
    disk: TextDisk


def open_guard(settings: AccessSettings, place: AccessLocation, rights: Rights) -> Guard:
    """Open access control from files and settings. Raises ConfigError when nobody could be verified, CorruptFileError,
    OSError.
    """
    path = settings.file or (place.folder / FILE_NAME if place.folder else None)
    book = UserStore(path, disk=place.disk)
    _create_first_users(settings, book)
    if settings.plain_acl_file is not None and not settings.follow_plain_acl:
        accounts, white_list = parse_plain_acl(place.disk.read(settings.plain_acl_file))
        if added := book.add(accounts, white_list):
            logger.info("accounts imported: file=%s users=%d", settings.plain_acl_file, len(added))
    _warn_of_white_lists(book)
    if not book.rules.users and not settings.follow_plain_acl:
        text = "access control is on and there are no users: nobody could do anything, not even create one"
        raise ConfigError(f"{text}; name the first in access.initial_user (RocketMQ: initAuthenticationUser)")
    validators = load_validators(settings.validators, book)
    return Guard(book, validators, rights, place.cluster, checks_rights=settings.checks_rights)


def _create_first_users(settings: AccessSettings, book: UserStore) -> None:
    """Those that the settings name, unless users of these names are there already."""
    if (first := settings.first_user) and first.username not in book.rules.users:
        book.create_user(make_user(first.username, Secret(first.password), UserType.SUPER))
        logger.info("super user created from the settings: user=%s", first.username)
    if inner := settings.inner:
        name, password = inner.access_key, Secret(inner.secret_key)
        known = book.rules.users.get(name)
        if known is None:
            book.create_user(make_user(name, password, UserType.SUPER))
        elif known.password != password:  # what a broker signs with is said by the settings alone
            book.update_user(name, password, UserType.SUPER, UserStatus.ENABLE)


def _warn_of_white_lists(book: UserStore) -> None:
    if book.rules.white_list:
        logger.warning(
            "requests from these addresses are not checked at all (globalWhiteRemoteAddresses): %s",
            ", ".join(book.rules.white_list.texts),
        )


class FollowedFile:
    """A ``plain_acl.yml`` that others keep; ``refresh`` takes it in when its text is another than before."""

    def __init__(self, path: Path, disk: TextDisk, book: UserStore) -> None:
        self._path = path
        self._disk = disk
        self._book = book
        self._text: bytes | None = None
        self._has_failed = False

    def refresh(self, *, first: bool = False) -> None:
        """A text that cannot be used is logged once, and the accounts stay as they were; ``first`` raises instead."""
        try:
            text = self._disk.read(self._path)
            if text == self._text:
                return
            accounts, white_list = parse_plain_acl(text)
        except (MQError, OSError) as error:
            if first:
                raise ConfigError(f"{self._path} cannot be used: {error}") from error
            if not self._has_failed:
                logger.error("accounts not followed, they stay as they were: file=%s reason=%s", self._path, error)
            self._has_failed = True
            return
        self._text, self._has_failed = text, False
        self._book.follow(accounts, white_list)
        logger.info("accounts followed: file=%s users=%d", self._path, len(accounts))
        _warn_of_white_lists(self._book)


def followed_file(settings: AccessSettings, disk: TextDisk, book: UserStore) -> FollowedFile | None:
    """Read a followed file once. Raises ConfigError."""
    if settings.plain_acl_file is None or not settings.follow_plain_acl:
        return None
    file = FollowedFile(settings.plain_acl_file, disk, book)
    file.refresh(first=True)
    return file
