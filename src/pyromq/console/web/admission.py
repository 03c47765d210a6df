"""Admission: who asks, by cookie or by token, and whether the request may go on."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from pyromq.console.auth.accounts import ENVIRONMENT
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.auth.sessions import SignedInSession
from pyromq.console.desk import Desk
from pyromq.console.web.problems import ForbiddenError, NotSignedInError
from pyromq.console.web.protection import SAFE_METHODS, check_origin

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class Admitted:
    who: ConsoleIdentity | None
    session: SignedInSession | None = None

    @property
    def needs_csrf(self) -> bool:
        return self.session is not None

    def is_welcome(self, desk: Desk) -> bool:
        """Still: a session ends, a token is revoked."""
        if self.session is not None:
            return desk.sessions.is_open(self.session.id)
        if self.who is None or self.who.token == ENVIRONMENT:
            return True
        return any(each.name == self.who.token and each.role is self.who.role for each in desk.accounts.tokens)


def admit(request: Request, desk: Desk, needed: ConsoleRole | None, *, by_token: bool) -> Admitted:
    """Verify who sends a request and what it may do; ``needed`` None admits everybody, tokens are for the API alone.
    Raises NotSignedInError, ForbiddenError.
    """
    admitted = _identified(request, desk, by_token=by_token)
    if request.method not in SAFE_METHODS and (admitted.who is None or admitted.needs_csrf):
        check_origin(request)
    if needed is None:
        return admitted
    if admitted.who is None:
        raise NotSignedInError("sign in first" + (", or send a token: Authorization: Bearer …" if by_token else ""))
    if not admitted.who.role.may(needed):
        raise ForbiddenError(f"{admitted.who.name} is {admitted.who.role.value}: this needs the role {needed.value}")
    return admitted


def check_csrf(request: Request, admitted: Admitted, given: str) -> None:
    """Check that an unsafe request with a session knows what only our own pages know. Raises ForbiddenError."""
    if request.method in SAFE_METHODS or admitted.session is None:
        return
    if not admitted.session.has_csrf(request.headers.get(CSRF_HEADER) or given):
        raise ForbiddenError("the form is out of date, or not of this console: reload the page and try again")


def _identified(request: Request, desk: Desk, *, by_token: bool) -> Admitted:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if by_token and kind.lower() == "bearer":
        who = desk.accounts.token(token.strip())
        if who is None:
            raise NotSignedInError("the token is not known: it was revoked, or belongs to another console")
        return Admitted(who)
    session = desk.sessions.find(request.cookies.get(cookie_name(request, desk), ""))
    return Admitted(session.identity if session else None, session)


# --- cookies ---


def cookie_name(request: Request, desk: Desk) -> str:
    """Browsers give cookies of one port to every other port of a machine: each console has its own name."""
    if desk.settings.is_encrypted:
        return "__Host-pyromq"
    server = request.scope.get("server")
    return f"pyromq_console_{server[1] if server else 0}"


def set_cookie(response: Response, request: Request, desk: Desk, session: SignedInSession) -> None:
    response.set_cookie(
        cookie_name(request, desk),
        session.id,
        path="/",
        secure=desk.settings.is_encrypted,
        httponly=True,
        samesite="strict",
    )


def drop_cookie(response: Response, request: Request, desk: Desk) -> None:
    name = cookie_name(request, desk)
    response.delete_cookie(name, path="/", secure=desk.settings.is_encrypted, httponly=True, samesite="strict")
