"""Challenge and response: a replica shows its master that it knows a secret of it, without saying the secret.

    replica ─▶ master, port for clients     a signed request (31031)      ─▶ a challenge, 16 random bytes
    replica ─▶ master, port for replicas    HMAC-SHA256(secret, challenge), before its name

A challenge is good for one proof, and for some seconds. Who overhears both, or repeats a signed request, has nothing:
the next challenge is another one.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from pyromq.clock import Clock

CHALLENGE_BYTES: Final = 16
_PURPOSE: Final = b"pyromq: the log for a replica"
_GOOD_MS: Final = 30_000
_OPEN_MAX: Final = 64  # challenges; the oldest is forgotten


def prove(secret: str, challenge: bytes) -> bytes:
    """What a replica that knows the secret answers."""
    return hmac.digest(secret.encode(), _PURPOSE + challenge, "sha256")


class Challenges:
    """Owned by a master with access control, on its loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expected: dict[bytes, int] = {}  # proofs, and since when each is expected; the oldest first

    def issue(self, secret: str) -> bytes:
        """A new challenge for one who should know the secret."""
        challenge = secrets.token_bytes(CHALLENGE_BYTES)
        while len(self._expected) >= _OPEN_MAX:
            del self._expected[next(iter(self._expected))]
        self._expected[prove(secret, challenge)] = self._clock.monotonic_ms()
        return challenge

    def is_met(self, proof: bytes) -> bool:
        """Whether a proof answers a challenge that is open; it does so once."""
        since_ms = self._expected.pop(proof, None)
        return since_ms is not None and self._clock.monotonic_ms() - since_ms <= _GOOD_MS
