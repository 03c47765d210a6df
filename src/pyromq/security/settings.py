"""Settings of access control, the same for brokers and name servers; off by default."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pyromq.errors import ConfigError
from pyromq.security.secret import Secret

T = TypeVar("T", bound=msgspec.Struct)

SIGNATURE: Final = "signature"
CERTIFICATE: Final = "certificate"


class InitialUser(msgspec.Struct, frozen=True):
    """User that is created when there is none (RocketMQ: ``initAuthenticationUser``)."""

    username: str
    password: str


class InnerCredentials(msgspec.Struct, frozen=True, rename="camel"):
    """Credentials of servers among themselves (RocketMQ: ``innerClientAuthenticationCredentials``)."""

    access_key: str
    secret_key: str
    security_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Settings of access control. Raises ConfigError for what would leave a server open, or closed to everybody."""

    enabled: bool = False  # both of the following, under the name that RocketMQ 4.x has for it
    authentication: bool = False  # requests are signed by a known user
    authorization: bool = False  # and policies say what the user may do
    initial_user: Secret = field(default_factory=Secret)  # a super user, made when there is none of that name: JSON
    inner_credentials: Secret = field(default_factory=Secret)  # what a broker signs with; a super user too: JSON
    validators: tuple[str, ...] = (SIGNATURE,)  # all must pass: signature, certificate, or module:name of your own
    plain_acl_file: Path | None = None  # accounts of RocketMQ 4.x, read at the start
    follow_plain_acl: bool = False  # and again when the file changes
    file: Path | None = None  # users and policies; None: in a broker's data folder, beside a name server's kv_path

    def __post_init__(self) -> None:
        if self.authorization and not self.authentication and not self.enabled:
            text = "authorization without authentication would believe whatever name a request gives"
            raise ConfigError(f"{text}: set access.authentication too (RocketMQ: authenticationEnabled)")
        _ = self.first_user, self.inner

    @property
    def is_on(self) -> bool:
        return self.enabled or self.authentication

    @property
    def checks_rights(self) -> bool:
        return self.enabled or self.authorization

    @property
    def first_user(self) -> InitialUser | None:
        text = '{"username": "…", "password": "…"}'
        return _parsed("access.initial_user (initAuthenticationUser)", self.initial_user, InitialUser, text)

    @property
    def inner(self) -> InnerCredentials | None:
        name = "access.inner_credentials (innerClientAuthenticationCredentials)"
        return _parsed(name, self.inner_credentials, InnerCredentials, '{"accessKey": "…", "secretKey": "…"}')


def with_inner_credentials(settings: AccessSettings) -> AccessSettings:
    """For a broker and a name server of one process that were given none: a new secret for every start."""
    if not settings.is_on or settings.inner_credentials:
        return settings
    inner = {"accessKey": "pyromq-inner-broker", "secretKey": secrets.token_urlsafe(32)}
    return replace(settings, inner_credentials=Secret(msgspec.json.encode(inner).decode()))


def _parsed(name: str, secret: Secret, kind: type[T], form: str) -> T | None:
    if not secret:
        return None
    try:
        parsed = msgspec.json.decode(secret.reveal(), type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ConfigError(f"{name} is not JSON of the form {form}") from None  # the cause would show the secret
    if not all(getattr(parsed, each).strip() for each in kind.__struct_fields__[:2]):
        raise ConfigError(f"{name} has an empty name or password; write {form}")
    return parsed
