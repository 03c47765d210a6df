"""Validators: each looks at a request and the address that it came from, and vouches for its sender or refuses.

    parse(request, peer) ─▶ claim ─▶ validate(claim) ─▶ Voucher, or None: nothing against it, but no name either

Several may be configured, and all must pass. ``signature`` and ``certificate`` are built in; ``module:name`` is a class
or function of yours that takes the ``UserStore`` and returns an object with these two methods.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pyromq.compiled_core import SigningKeys, core
from pyromq.errors import ConfigError, quoted
from pyromq.security.errors import AccessDeniedError, UnknownUserError
from pyromq.security.identity import Means, Peer, Voucher
from pyromq.security.policies import User
from pyromq.security.settings import CERTIFICATE, SIGNATURE
from pyromq.security.user_store import UserStore
from pyromq.wire.fast.signed_fields import signed_fields
from pyromq.wire.fast.signed_requests import signed_values
from pyromq.wire.frame import SerializeType
from pyromq.wire.received import Received
from pyromq.wire.signature import ACCESS_KEY, signed_content, unsigned_fields
from pyromq.wire.signature import SIGNATURE as SIGNATURE_FIELD

_JSON: Final = SerializeType.JSON
_REMEMBERED_MAX: Final = 10_000
_WHITE_LISTED: Final = Voucher("", Means.WHITE_LIST)


class Validator(Protocol):
    """Both methods raise AccessDeniedError, whose text the sender gets."""

    def parse(self, request: Received[Any], peer: Peer) -> Any:
        """What the request claims, read once; it may be asked for anything that ``validate`` needs."""

    def validate(self, claim: Any) -> Voucher | None:
        """Verify a claim and return who it is."""


class SignedClaim(NamedTuple):
    """The name and signature that a request gives, and what the signature is made over; not believed yet."""

    name: str
    signature: str
    fields: bytes  # their values, in the order in which they are signed
    body: bytes
    ip: str


class SignatureValidator:
    """RocketMQ's signature: HMAC-SHA1 with the user's password over all fields and the body."""

    def __init__(self, book: UserStore) -> None:
        self._book = book
        self._keys = core.SigningKeys() if core is not None else None
        self._rules = book.rules  # that ``_keys`` follow from

    def parse(self, request: Received[Any], peer: Peer) -> SignedClaim:
        return SignedClaim(*_signed(request), request.body, peer.ip)

    def parse_claim(self, claim: SignedClaim, peer: Peer) -> SignedClaim:
        """Parse a claim of another protocol; see ``identity.verify_claim``."""
        return claim

    def vouch(self, request: Received[Any], peer: Peer) -> Voucher:
        """Both steps in one, for the usual case: a user that is known, and signs well."""
        rules, keys = self._book.rules, self._keys
        if keys is not None and request.frame.serialize_type is _JSON:
            if rules is not self._rules:
                self._rules = rules
                keys.clear()
            signer = keys.signer(request.frame.header, request.body)
            if signer is not None:
                return rules.users[signer].voucher
        name, signature, fields = signed_values(request) or _signed(request)
        user = rules.users.get(name)
        if user is not None and user.is_enabled and not rules.white_list.texts:
            if user.key.matches(signature, fields, request.body):
                if keys is not None:
                    self._remember(keys, user)
                return user.voucher
        return self.validate(self.parse(request, peer))

    def _remember(self, keys: SigningKeys, user: User) -> None:
        """Under the rules as they are: that it is enabled, and that no white list speaks for anybody."""
        if len(keys) >= _REMEMBERED_MAX:
            keys.clear()
        keys.add(user.name, user.password.reveal().encode("utf-8", "replace"))

    def validate(self, claim: SignedClaim) -> Voucher:
        rules = self._book.rules
        if rules.white_list and claim.ip in rules.white_list:
            return _WHITE_LISTED
        if not claim.name:
            raise AccessDeniedError("username cannot be null.")
        user = rules.users.get(claim.name)
        if user is None:
            raise UnknownUserError(claim.name)
        if not user.is_enabled:
            raise AccessDeniedError(f"User:{claim.name} is disabled.")
        if user.key.matches(claim.signature, claim.fields, claim.body) or claim.ip in user.white_list:
            return user.voucher
        raise AccessDeniedError("check signature failed.")


def _signed(request: Received[Any]) -> tuple[str, str, bytes]:
    """Name, signature, and the fields that it covers. Raises UndecodableHeaderError."""
    frame = request.frame
    found = signed_fields(request.code, frame.header) if frame.serialize_type is _JSON else None
    return found or _plain(request)


def _plain(request: Received[Any]) -> tuple[str, str, bytes]:
    """Name, signature and content without body, from the map of ext fields. Raises UndecodableHeaderError."""
    ext = request.ext()
    content = signed_content(ext, None, exclude=unsigned_fields(request.version))
    return ext.get(ACCESS_KEY, ""), ext.get(SIGNATURE_FIELD, ""), content


class CertificateValidator:
    """The common name of a client certificate that TLS has verified is the name of a user."""

    def __init__(self, book: UserStore) -> None:
        self._book = book

    def parse(self, request: Received[Any], peer: Peer) -> str:
        return peer.certificate_subject

    def parse_claim(self, claim: SignedClaim, peer: Peer) -> str:
        """Parse a claim of another protocol; see ``identity.verify_claim``."""
        return peer.certificate_subject

    def validate(self, claim: str) -> Voucher:
        if not claim:
            raise AccessDeniedError("the connection shows no client certificate.")
        user = self._book.rules.users.get(claim)
        if user is None:
            raise UnknownUserError(claim)
        if not user.is_enabled:
            raise AccessDeniedError(f"User:{claim} is disabled.")
        return Voucher(claim, Means.CERTIFICATE)


_BUILT_IN: Final[dict[str, Callable[[UserStore], Validator]]] = {
    SIGNATURE: SignatureValidator,
    CERTIFICATE: CertificateValidator,
}


def load_validators(names: Sequence[str], book: UserStore) -> list[Validator]:
    """Make validators by name. Raises ConfigError, also when there are none: nobody would be checked."""
    if not names:
        raise ConfigError("access control is on and access.validators names none: nobody could be verified")
    return [(_BUILT_IN.get(name) or _imported(name))(book) for name in names]


def _imported(name: str) -> Callable[[UserStore], Validator]:
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(_BUILT_IN)
        raise ConfigError(f"validator {quoted(name)} is unknown: there are {known}, or module:name of your own")
    try:
        found: Callable[[UserStore], Validator] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"validator {quoted(name)} cannot be loaded: {error}") from error
    return found
