"""Guard: verification and decision before a request reaches its handler.

    request ─▶ validators ─▶ Principal ─▶ row of the table ─▶ needs ─▶ rules ─▶ the handler, or NO_PERMISSION

Decisions are remembered under everything that they depend on: the user, how it was verified, its address, the need
(or, for hot requests, the fields that their needs follow from), and the version of the rules; with the next version all
are forgotten. Refusals are logged once for each address and reason. Names that a request gives may be as long as its
header: what is remembered has a bound in bytes, and texts show only some of a long name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyromq.errors import MQError, quoted, shortened
from pyromq.remembered import Remembered
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Means, Peer, Principal, verify, verify_claim, verify_signature
from pyromq.security.needs import topic_needs
from pyromq.security.policies import User
from pyromq.security.resources import Action, Need
from pyromq.security.rights import Rights
from pyromq.security.user_store import Rules, UserStore
from pyromq.security.validators import SignatureValidator, SignedClaim, Validator
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

REMEMBERED_BYTES_MAX: Final = 16 << 20  # of each kind of decision: some 30 000 with names of 40 characters
LOGGED_BYTES_MAX: Final = 4 << 20
LINES_MAX: Final = 500  # of an address, until rules change: who makes up a name for each request fills no disk
REASON_CHARACTERS_MAX: Final = 500
_USER: Final = "User:"
NAME_CHARACTERS_MAX: Final = 255  # of a name in a text: no topic, group or user has a longer one


class Guard:
    """Access control of one server. ``cluster`` is the one it belongs to; ``checks_rights`` False stops after
    verification.
    """

    def __init__(
        self,
        book: UserStore,
        validators: Sequence[Validator],
        rights: Rights,
        cluster: str,
        *,
        checks_rights: bool = True,
    ) -> None:
        self.book = book
        self._validators = tuple(validators)
        only = self._validators[0] if len(self._validators) == 1 else None
        self._signatures = only if type(only) is SignatureValidator else None
        self._rights = rights
        self._cluster = cluster
        self._checks_rights = checks_rights
        self._rules = book.rules  # those that the decisions are remembered for
        self._admitted: Remembered[object, bool] = Remembered(REMEMBERED_BYTES_MAX)
        self._decided: Remembered[object, str] = Remembered(REMEMBERED_BYTES_MAX)  # empty for yes, else why not
        self._logged: Remembered[tuple[str, str], int] = Remembered(
            LOGGED_BYTES_MAX
        )  # "" as reason: lines of an address
        self.on_refused: Callable[[Received[Any], Peer, str, str], None] | None = None  # with user and reason

    def verify(self, request: Received[Any], peer: Peer) -> Principal:
        """Who sent it. Raises AccessDeniedError."""
        try:
            if self._signatures is not None:
                return verify_signature(self._signatures, request, peer)
            return verify(self._validators, request, peer)
        except AccessDeniedError as error:
            self._log(request, peer, str(error))
            raise

    def verify_claim(self, claim: SignedClaim, peer: Peer) -> Principal:
        """Who that is, of a protocol whose requests carry their signature in another way. Raises AccessDeniedError."""
        return verify_claim(self._validators, claim, peer)

    def admit(self, request: Received[Any], peer: Peer, principal: Principal | None = None) -> Principal:
        """Who sent it, and may; ``principal``: who that is was verified before. Raises AccessDeniedError."""
        try:  # as ``verify``: a call less for each request
            if principal is not None:
                pass
            elif self._signatures is not None:
                principal = verify_signature(self._signatures, request, peer)
            else:
                principal = verify(self._validators, request, peer)
        except AccessDeniedError as error:
            self._log(request, peer, str(error))
            raise
        code = request.code
        right = self._rights.get(code)
        if not self._checks_rights or right is None:  # a code without row is not answered: that is checked at the start
            return principal
        rules = self._current()
        names: str | tuple[str, ...] = ""
        key, key_of = None, right.key
        if key_of is not None:
            names = key_of(request.header)
            key = (principal, peer.ip, code, names)
            if key in self._admitted:
                return principal
        if not rules.is_super(principal):
            self._check(right.is_open, self._needs(request, peer), principal, request, peer)
        if key is not None:
            self._admitted.remember(key, True, *((names,) if isinstance(names, str) else names))
        return principal

    @property
    def is_by_signature(self) -> bool:
        """Whether signatures are all that is asked for."""
        return self._signatures is not None

    def signer(self, principal: Principal) -> User | None:
        """The user behind a principal, if its signature alone proves who it is; else there is more to look at."""
        rules = self._current()
        user = rules.users.get(principal.name)
        is_enough = self.is_by_signature and principal.means is Means.SIGNATURE and not rules.white_list.texts
        return user if is_enough and user is not None and user.is_enabled else None

    def check_topic(
        self, request: Received[Any], peer: Peer, principal: Principal, name: str, actions: tuple[Action, ...]
    ) -> None:
        """An object that a handler found belongs to that topic. Raises AccessDeniedError."""
        if self._checks_rights and not self._current().is_super(principal):
            self._check(False, list(topic_needs(name, actions, self._cluster)), principal, request, peer)

    def may(self, principal: Principal, name: str, actions: tuple[Action, ...], ip: str) -> bool:
        """Whether a sender that was verified earlier may still do that with a topic."""
        found = topic_needs(name, actions, self._cluster)
        return not self._checks_rights or not any(self._refusal(principal, need, ip) for need in found)

    def refuse(self, request: Received[Any], peer: Peer, reason: str, user: str) -> AccessDeniedError:
        """What a handler found out: told as other refusals are, for the handler to raise."""
        self._log(request, peer, reason, user)
        return AccessDeniedError(reason)

    def _needs(self, request: Received[Any], peer: Peer) -> list[Need]:
        try:
            return list(self._rights[request.code].needs(request, self._cluster))
        except AccessDeniedError:
            raise
        except MQError as error:
            text = shortened(f"the request names nothing that could be looked up: {error}", REASON_CHARACTERS_MAX)
            self._log(request, peer, text)
            raise AccessDeniedError(text) from error

    def _check(
        self, is_open: bool, needs: list[Need], principal: Principal, request: Received[Any], peer: Peer
    ) -> None:
        reason = "" if needs or is_open else "the request names no resource."
        for need in needs:
            reason = reason or self._refusal(principal, need, peer.ip)
        if reason:
            raise self.refuse(request, peer, reason, principal.name)

    def _refusal(self, principal: Principal, need: Need, ip: str) -> str:
        """Why not; empty if it may."""
        rules = self._current()
        key = (principal.name, principal.means, ip, need)
        found = self._decided.get(key)
        if found is None:
            found = refusal_text(rules, principal, need, ip)
            self._decided.remember(key, found, need.resource.name, found)
        return found

    def _current(self) -> Rules:
        """The rules as they are; when they have changed, nothing that was decided before counts."""
        rules = self.book.rules
        if rules is not self._rules:
            self._rules = rules
            self._admitted.clear()
            self._decided.clear()
            self._logged.clear()
        return rules

    def _log(self, request: Received[Any], peer: Peer, reason: str, user: str = "") -> None:
        reason = shortened(reason, REASON_CHARACTERS_MAX)
        if self.on_refused is not None:
            self.on_refused(request, peer, user, reason)
        lines = self._logged.get((peer.ip, ""), 0)
        if (peer.ip, reason) in self._logged or lines > LINES_MAX:
            return
        self._logged.remember((peer.ip, ""), lines + 1)
        if lines == LINES_MAX:
            logger.warning("more refusals of other kinds, which the audit log has: peer=%s", peer.ip)
            return
        self._logged.remember((peer.ip, reason), 1, reason)
        logger.warning("request refused: peer=%s code=%d reason=%s", peer.ip, request.code, quoted(reason, 300))


def refusal_text(rules: Rules, principal: Principal, need: Need, ip: str) -> str:
    """The decision without any memory, in RocketMQ's words; empty for yes."""
    verdict = rules.verdict(principal, need, ip)
    if verdict.allowed:
        return ""
    resource = shortened(str(need.resource), NAME_CHARACTERS_MAX)
    return f"{_USER}{principal.name} has no permission to access {resource} from {ip}, {verdict.reason}"


def is_about_a_user(text: str) -> bool:
    """Whether a refusal says that a user has no right, and not that something is closed to everybody."""
    return text.startswith(_USER)
