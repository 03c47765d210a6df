"""Client ids: which connection a client id stands for, when more than one claims it in its heartbeats.

    ("", "10.0.0.5@1")           among producers, whatever their groups: replies are addressed so
    ("billing", "10.0.0.5@1")    among the consumers of a group

A client chooses its id itself, and what is pushed to a client (replies, requests of tools) is addressed to it. Under
access control the id belongs to a user for as long as a connection of that user is heard: to the newest one, for a
client that has lost its connection comes back over another. Without users it belongs to the connection that had it
first, until that is gone, silent, or does not answer what is pushed to it; a claim of another one waits for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyromq.clock import Clock

SILENCE_MS: Final = 65_000  # two heartbeats of every known client

IDS_MAX: Final = 64  # client ids that one connection has among producers; honest ones have one
PRODUCERS: Final = ""  # in place of a group

Key = tuple[str, str]  # consumer group or PRODUCERS, client id
C = TypeVar("C")  # the connection, of which nothing but identity is needed here


@dataclass(slots=True)
class _Claim:
    user: str | None  # None: nobody is verified
    seen_ms: int


class ClientIds(Generic[C]):
    """Claims by id and connection; of those of one id the first is its holder."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._claims: dict[Key, dict[C, _Claim]] = {}
        self._producers: dict[C, dict[str, None]] = {}  # client ids of producers, by connection; the oldest first

    def __len__(self) -> int:
        return len(self._claims)

    # --- looking ---

    def is_foreign(self, key: Key, user: str | None) -> bool:
        """Whether it is another user's, who is heard of."""
        if user is None or key not in self._claims:
            return False
        limit = self._clock.monotonic_ms() - SILENCE_MS
        return any(claim.user != user and claim.seen_ms >= limit for claim in self._claims[key].values())

    def holder(self, key: Key) -> C | None:
        """The first that is not silent; if all are, the first."""
        claims = self._claims.get(key)
        if claims is None:
            return None
        limit = self._clock.monotonic_ms() - SILENCE_MS
        return next((each for each, claim in claims.items() if claim.seen_ms >= limit), next(iter(claims)))

    # --- changing ---

    def claim(self, key: Key, connection: C, user: str | None) -> None:
        """A heartbeat names it; ask ``is_foreign`` first."""
        claims = self._claims.setdefault(key, {})
        is_new = connection not in claims
        claims[connection] = _Claim(user, self._clock.monotonic_ms())
        if is_new and user is not None and len(claims) > 1:
            self._claims[key] = {connection: claims[connection], **claims}
        if is_new and key[0] == PRODUCERS:
            named = self._producers.setdefault(connection, {})
            named[key[1]] = None
            if len(named) > IDS_MAX:
                self.release((PRODUCERS, next(iter(named))), connection)

    def failed(self, key: Key, connection: C) -> None:
        """What was pushed to it was not answered: others who claim the id come first from now on."""
        claims = self._claims.get(key, {})
        if connection in claims:
            claims[connection] = claims.pop(connection)

    def release(self, key: Key, connection: C) -> None:
        claims = self._claims.get(key)
        if claims is not None:
            claims.pop(connection, None)
            if not claims:
                del self._claims[key]
        if key[0] == PRODUCERS:
            self._producers.get(connection, {}).pop(key[1], None)

    def disconnected(self, connection: C) -> None:
        """Those that it had among producers are free; groups release theirs themselves."""
        for client_id in list(self._producers.pop(connection, ())):
            self.release((PRODUCERS, client_id), connection)
