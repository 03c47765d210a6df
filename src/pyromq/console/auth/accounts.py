"""Accounts and API tokens, kept hashed in a small file of the console's folder (mode 600), or in memory without one.

There are two accounts: ``admin``, an operator, and ``viewer``, who reads. A token is 256 random bits, so a plain
SHA-256 of it is as good as a slow hash. The file is read again when it has changed, before anybody is let in by it:
``--reset-password``, or another console on the same folder, may write it while a console runs.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.console.auth.passwords import hash_password, is_password, new_password, nobodys_hash
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.errors import ConfigError, NotFoundError
from pyromq.whole_text import WholeText

ADMIN: Final = "admin"
VIEWER: Final = "viewer"
TOKENS_MAX: Final = 100
_TOKEN_PREFIX: Final = "pmq_"
_TOKEN_BYTES: Final = 32
_NOT_FOUND: Final = 404
_NAME_CHARACTERS_MAX: Final = 60
ENVIRONMENT: Final = "environment"  # the token that the environment gives


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An API token as it is kept: not the token itself."""

    name: str
    role: ConsoleRole
    sha256: str
    created_ms: int


class _Kept(msgspec.Struct, kw_only=True):
    """The file ``accounts.json``."""

    passwords: dict[str, str] = {}
    tokens: list[Token] = []


class Accounts:
    """``generated`` is the password of ``admin`` when it was made just now, to be shown this once."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._clock, self._cost, self._is_read_only = clock, settings.scrypt, settings.read_only
        self._path = None if settings.data is None else settings.data / "accounts.json"
        self._file = None if self._path is None else _file(self._path)
        self._read_as: object = None  # of the file, when it was read or written last
        self._kept = _Kept()
        self._read_again()
        self._given = {ADMIN: settings.password.reveal(), VIEWER: settings.viewer_password.reveal()}
        self._hashes = {name: hash_password(given, self._cost) for name, given in self._given.items() if given}
        self._no_such = nobodys_hash(self._cost)
        self._token_given = _sha256(settings.token.reveal()) if settings.token else ""
        self.generated = ""
        if ADMIN not in self._hashes and ADMIN not in self._kept.passwords:
            self.generated = self.renew(ADMIN)

    @property
    def cost(self) -> ScryptCost:
        return self._cost

    @property
    def names(self) -> dict[str, str]:
        """Accounts, and where their passwords come from."""
        return {
            name: "the environment" if given else "kept hashed" if name in self._kept.passwords else "has none yet"
            for name, given in self._given.items()
        }

    def renew(self, name: str) -> str:
        """A new password, returned this once. Raises ConfigError for one that the environment gives."""
        if self._given.get(name):
            raise ConfigError(f"the password of {name} comes from the environment: change it there")
        password = new_password()
        hashed = hash_password(password, self._cost)
        self._read_again()
        self._kept.passwords[name] = hashed
        self._save()
        return password

    def verify(self, name: str, password: str) -> ConsoleIdentity | None:
        """Takes as long for a name that does not exist. Slow on purpose: called on a worker thread."""
        self._read_again()
        hashed = self._hashes.get(name) or self._kept.passwords.get(name) or self._no_such
        if not is_password(password, hashed) or hashed is self._no_such:
            return None
        return ConsoleIdentity(name, self._most(ConsoleRole.OPERATOR) if name == ADMIN else ConsoleRole.READER)

    def proof_of(self, name: str) -> str:
        """What a session of an account rests on: another text as soon as its password is another one."""
        self._read_again()
        return self._hashes.get(name) or self._kept.passwords.get(name, "")

    def _most(self, role: ConsoleRole) -> ConsoleRole:
        """In a console that only shows things everybody is a reader."""
        return ConsoleRole.READER if self._is_read_only else role

    # --- tokens ---

    @property
    def tokens(self) -> list[Token]:
        self._read_again()
        return list(self._kept.tokens)

    def add_token(self, name: str, role: ConsoleRole) -> str:
        """The token, returned this once. Raises ConfigError."""
        name = name.strip()
        if not name or len(name) > _NAME_CHARACTERS_MAX or not name.isprintable():
            raise ConfigError(f"a token has a name of 1 to {_NAME_CHARACTERS_MAX} printable characters")
        self._read_again()
        if name == ENVIRONMENT:
            raise ConfigError(f"{name} is the token that the environment gives: choose another name")
        if any(each.name == name for each in self._kept.tokens):
            raise ConfigError(f"there is a token {name} already: revoke it, or choose another name")
        if len(self._kept.tokens) >= TOKENS_MAX:
            raise ConfigError(f"there are {TOKENS_MAX} tokens already: revoke some")
        token = _TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        created = Token(name=name, role=role, sha256=_sha256(token), created_ms=self._clock.now_ms())
        self._kept.tokens = [*self._kept.tokens, created]
        self._save()
        return token

    def revoke_token(self, name: str) -> None:
        """Revoke an API token. Raises NotFoundError."""
        self._read_again()
        left = [each for each in self._kept.tokens if each.name != name]
        if len(left) == len(self._kept.tokens):
            raise NotFoundError(code=_NOT_FOUND, remark=f"there is no token {name}")
        self._kept.tokens = left
        self._save()
        self._save()  # nor does the backup know it any more

    def token(self, token: str) -> ConsoleIdentity | None:
        """Whose it is; None for one that was revoked, by whatever console."""
        self._read_again()
        hashed = _sha256(token)
        if self._token_given and secrets.compare_digest(hashed, self._token_given):
            return ConsoleIdentity(ENVIRONMENT, self._most(ConsoleRole.OPERATOR), token=ENVIRONMENT)
        for each in self._kept.tokens:
            if secrets.compare_digest(hashed, each.sha256):
                return ConsoleIdentity(each.name, self._most(each.role), token=each.name)
        return None

    def _save(self) -> None:
        if self._file is not None:
            self._file.save(msgspec.json.format(msgspec.json.encode(self._kept)))
            self._read_as = self._on_disk()

    def _read_again(self) -> None:
        """If it was changed by another process. Raises CorruptFileError."""
        if self._file is not None and (found := self._on_disk()) != self._read_as:
            self._kept, self._read_as = self._file.load(_parsed) or _Kept(), found

    def _on_disk(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns) if found is not None else None


def _file(path: Path) -> WholeText:
    def is_whole(text: bytes) -> bool:
        try:
            return bool(_parsed(text))
        except ValueError:
            return False

    return WholeText(path, is_whole)


def _parsed(text: bytes) -> _Kept:
    try:
        return msgspec.json.decode(text, type=_Kept)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
