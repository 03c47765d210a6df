"""Principal: who a request comes from, as its verification found.

A principal cannot be made by hand. The validators of a server look at a request one after the other; what they agree on
becomes a principal here, and nowhere else. Names in a request mean nothing until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from pyromq.security.errors import AccessDeniedError

if TYPE_CHECKING:
    from pyromq.security.validators import SignatureValidator, SignedClaim, Validator
    from pyromq.wire.received import Received


class Means(StrEnum):
    """How a principal was verified."""

    SIGNATURE = "signature"
    CERTIFICATE = "certificate"
    WHITE_LIST = "white list"  # the address alone (RocketMQ 4.x: globalWhiteRemoteAddresses)
    PLUG_IN = "plug-in"

    __hash__ = str.__hash__  # that of enumerations is written in Python, and means are part of the keys of caches


class Peer(NamedTuple):
    """The other side of a connection: its address, and the subject of its certificate if TLS verified one."""

    ip: str
    certificate_subject: str = ""


class Voucher(NamedTuple):
    """What a validator found out: the name of a user, and how. An empty name is for white lists alone."""

    name: str
    means: Means


class Principal:
    """A verified sender; ``name`` is that of a user, empty for an address of the white list."""

    __slots__ = ("means", "name")
    name: str
    means: Means

    def __new__(cls, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a principal is the outcome of a verification: ask verify() for it")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a principal does not change: {name}")

    def __repr__(self) -> str:
        return f"<Principal {self.name!r} by {self.means.value}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a principal is not pickled: it is true of one request")


def verify(validators: Sequence[Validator], request: Received[Any], peer: Peer) -> Principal:
    """Who sent the request, as all validators see it. Raises AccessDeniedError."""
    return _agreed([validator.validate(validator.parse(request, peer)) for validator in validators])


def verify_claim(validators: Sequence[Validator], claim: SignedClaim, peer: Peer) -> Principal:
    """Verify a claim that stood in no request of the remoting protocol. Raises AccessDeniedError."""
    return _agreed([validator.validate(_claim_for(validator, claim, peer)) for validator in validators])


def _claim_for(validator: Validator, claim: SignedClaim, peer: Peer) -> Any:
    """Plug-ins that know such claims have a method ``parse_claim``."""
    parse = getattr(validator, "parse_claim", None)
    if parse is None:
        raise AccessDeniedError("a validator of this server knows requests of the remoting protocol only.")
    return parse(claim, peer)


def _agreed(vouchers: Sequence[Voucher | None]) -> Principal:
    voucher: Voucher | None = None
    for found in vouchers:
        if found is None:
            continue
        if voucher is not None and found.name != voucher.name:
            raise AccessDeniedError(f"the request is signed by {found.name!r}, the connection is {voucher.name!r}'s")
        voucher = voucher or found
    if voucher is None:
        raise AccessDeniedError("no validator vouches for the sender of this request")
    return _issue(voucher)


def verify_signature(validator: SignatureValidator, request: Received[Any], peer: Peer) -> Principal:
    """Verify a request where signatures are the only way. Raises AccessDeniedError."""
    voucher = validator.vouch(request, peer)
    return _issued.get(voucher) or _issue(voucher)


def _issue(voucher: Voucher) -> Principal:
    """Vouchers that are equal give the same principal: there are few of them."""
    principal = _issued.get(voucher)
    if principal is None:
        principal = object.__new__(_CLASS)
        object.__setattr__(principal, "name", voucher.name)
        object.__setattr__(principal, "means", voucher.means)
        if len(_issued) >= _ISSUED_MAX:
            _issued.clear()
        _issued[voucher] = principal
    return principal


_CLASS: Final = cast("type[Principal]", Principal)
_ISSUED_MAX: Final = 10_000
_issued: dict[Voucher, Principal] = {}
