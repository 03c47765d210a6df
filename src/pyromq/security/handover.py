"""Handover: users, policies and owners on their way from a master to its replicas, passwords and all.

    replica ─▶ what for, a random word, the version it has      signed with the inner credentials of both
    master  ─▶ the version here; if it is another, the tables   with a proof over the random word and the tables

Only who signs with the inner credentials of this master gets them, and only where nobody listens. The request says what
it is for, because a signature covers the values of a request and not its code: another one that was signed, and
overheard, cannot be sent as this one. The proof shows the replica that the tables come from one who knows the secret,
and are the answer to this very request.

A version is a keyed digest: equal tables have equal versions, and it says nothing about a password.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, NamedTuple

from pyromq.errors import RemoteProtocolError
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Means, Principal
from pyromq.security.settings import InnerCredentials
from pyromq.security.user_store import UserStore
from pyromq.wire.headers.auth import AccessTablesHeader
from pyromq.wire.json.access import AccessTables

PURPOSE: Final = "pyromq: users for a replica"
_MEANS: Final = (Means.SIGNATURE, Means.CERTIFICATE)


class Texts(NamedTuple):
    """The tables as their files have them."""

    users: bytes
    owners: bytes


def ask(known: str) -> AccessTablesHeader:
    """What a replica asks that has this version."""
    return AccessTablesHeader(purpose=PURPOSE, nonce=secrets.token_hex(16), known=known)


def check_replica(header: AccessTablesHeader, principal: Principal, inner: InnerCredentials) -> None:
    """Check that a replica may copy the users. Raises AccessDeniedError."""
    if principal.means not in _MEANS or principal.name != inner.access_key:
        raise AccessDeniedError("users are given to replicas alone, which sign with access.inner_credentials")
    if header.purpose != PURPOSE or not header.nonce:
        raise AccessDeniedError("the request was not signed to ask for users")


def version_of(texts: Texts, inner: InnerCredentials) -> str:
    return _digest(inner, b"version", texts.users, texts.owners)[:32]


def hand_over(header: AccessTablesHeader, texts: Texts, inner: InnerCredentials) -> AccessTables:
    """What a master answers to a replica that was checked."""
    version = version_of(texts, inner)
    if header.known == version:
        return AccessTables(version=version)
    users, owners = texts.users.decode(), texts.owners.decode()
    return AccessTables(version=version, users=users, owners=owners, proof=_proof(header, texts, inner))


def take_over(answer: AccessTables, header: AccessTablesHeader, inner: InnerCredentials) -> Texts | None:
    """What a replica got; None when it is what it has. Raises RemoteProtocolError for tables of anybody else."""
    if answer.users is None or answer.owners is None:
        return None
    texts = Texts(answer.users.encode(), answer.owners.encode())
    if not hmac.compare_digest(answer.proof.encode(), _proof(header, texts, inner).encode()):
        raise RemoteProtocolError("the users that came are not from a master with the same access.inner_credentials")
    return texts


def adopt(book: UserStore, texts: Texts) -> None:
    """Replace the users by those of the master. Raises ConfigError or ValueError for what is no table of users,
    OSError.
    """
    if texts.users != book.text():
        book.adopt(texts.users)


def _proof(header: AccessTablesHeader, texts: Texts, inner: InnerCredentials) -> str:
    return _digest(inner, b"proof", header.nonce.encode(), texts.users, texts.owners)


def _digest(inner: InnerCredentials, *parts: bytes) -> str:
    digest = hmac.new(inner.secret_key.encode(), digestmod="sha256")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
