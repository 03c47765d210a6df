"""Passwords as scrypt hashes: ``scrypt$n$r$p$salt$hash``, salt and hash in hexadecimal."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from pyromq.console.settings import ScryptCost

_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_GENERATED_BYTES: Final = 15  # 120 bits, 20 characters
PASSWORD_CHARACTERS_MAX: Final = 1_024


def new_password() -> str:
    return secrets.token_urlsafe(_GENERATED_BYTES)


def hash_password(password: str, cost: ScryptCost) -> str:
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"scrypt${cost.n}${cost.r}${cost.p}${salt.hex()}${_scrypt(password, salt, cost).hex()}"


def nobodys_hash(cost: ScryptCost) -> str:
    """One that no password fits, and that takes as long to find out."""
    return f"scrypt${cost.n}${cost.r}${cost.p}${secrets.token_hex(_SALT_BYTES)}${secrets.token_hex(_HASH_BYTES)}"


def is_password(password: str, hashed: str) -> bool:
    """Whether it is the one; takes as long when it is not, and when the hash is none."""
    kind, *parts = hashed.split("$")
    if kind != "scrypt" or len(parts) != 5:
        return False
    cost = ScryptCost(*map(int, parts[:3]))
    return hmac.compare_digest(_scrypt(password, bytes.fromhex(parts[3]), cost), bytes.fromhex(parts[4]))


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    memory = 132 * cost.n * cost.r * cost.p + (1 << 20)  # what OpenSSL asks to be allowed
    text = password[:PASSWORD_CHARACTERS_MAX].encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=memory, dklen=_HASH_BYTES)
