"""Sessions: who is signed in, kept here and named by 256 random bits in a cookie.

A session ends when it was not used for a while, when it is old, when its owner signs out, and when the password that it
began with is another one, whoever changed it. Signing in begins a new one, so that an id which somebody planted before
is worth nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyromq.clock import Clock
from pyromq.console.auth.roles import ConsoleIdentity

_ID_BYTES: Final = 32
_SAID_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence for the next page, and its kind: ``good``, ``bad`` or ``plain``; a secret is shown this once."""

    text: str
    kind: str = "good"
    secret: str = ""


@dataclass(slots=True, eq=False)
class SignedInSession:
    """``csrf`` is what its forms carry; ``said`` waits for the next page."""

    id: str
    identity: ConsoleIdentity
    csrf: str
    began_ms: int
    used_ms: int
    proof: str = ""  # of the password that it began with
    said: list[Said] = field(default_factory=list)

    def say(self, said: Said) -> None:
        self.said = [*self.said, said][-_SAID_MAX:]

    def take_said(self) -> list[Said]:
        said, self.said = self.said, []
        return said

    def has_csrf(self, given: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), given.encode("utf-8", "surrogatepass"))


class Sessions:
    """At most ``sessions_max``: the one that was not used for longest makes room."""

    def __init__(
        self,
        clock: Clock,
        *,
        idle_ms_max: int,
        session_ms_max: int,
        sessions_max: int,
        proof_of: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._clock = clock
        self._proof_of = proof_of  # by the name of an account
        self._idle_ms_max, self._session_ms_max, self._sessions_max = idle_ms_max, session_ms_max, sessions_max
        self._sessions: OrderedDict[str, SignedInSession] = OrderedDict()  # the one used last at the end
        self._new_id: Callable[[], str] = lambda: secrets.token_urlsafe(_ID_BYTES)

    def begin(self, identity: ConsoleIdentity) -> SignedInSession:
        now_ms = self._clock.monotonic_ms()
        session = SignedInSession(
            self._new_id(), identity, self._new_id(), now_ms, now_ms, self._proof_of(identity.name)
        )
        self._sessions[session.id] = session
        while len(self._sessions) > self._sessions_max:
            self._sessions.popitem(last=False)
        return session

    def find(self, session_id: str) -> SignedInSession | None:
        """A session that is still good; it was used now."""
        if not self.is_open(session_id):
            self.end(session_id)
            return None
        session = self._sessions[session_id]
        session.used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session_id)
        return session

    def is_open(self, session_id: str) -> bool:
        """Without using it: a page that refreshes itself is not its reader."""
        session = self._sessions.get(session_id)
        if session is None:
            return False
        now_ms = self._clock.monotonic_ms()
        is_fresh = now_ms - session.used_ms <= self._idle_ms_max and now_ms - session.began_ms <= self._session_ms_max
        return is_fresh and hmac.compare_digest(session.proof, self._proof_of(session.identity.name))

    def end(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def end_all_of(self, name: str, *, but: str = "") -> None:
        """When its password changed; the one that changed it goes on."""
        for each in [each for each in self._sessions.values() if each.identity.name == name]:
            if each.id == but:
                each.proof = self._proof_of(name)
            else:
                del self._sessions[each.id]

    def __len__(self) -> int:
        return len(self._sessions)
