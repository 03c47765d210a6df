"""Signing in and out."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.responses import RedirectResponse

from pyromq.console.auth.passwords import PASSWORD_CHARACTERS_MAX
from pyromq.console.auth.roles import ConsoleRole
from pyromq.console.web.admission import drop_cookie, set_cookie
from pyromq.console.web.pages import Pages
from pyromq.console.web.problems import TooManyError
from pyromq.console.web.visit import Drawn, Moved, Visit
from pyromq.errors import quoted
from pyromq.wording import shown_span

logger = logging.getLogger(__name__)
pages = Pages()

_NAME_CHARACTERS_MAX: Final = 100


@pages.page("/login", title="Sign in", role=None)
async def login(visit: Visit) -> Drawn | Moved:
    if visit.who is not None:
        return Moved(_onward(visit.query.get("next", "")))
    return Drawn("login.html", {"next": _onward(visit.query.get("next", "")), "name": "", "wrong": ""})


@pages.action("/login", title="Sign in", role=None)
async def sign_in(visit: Visit) -> Drawn | RedirectResponse:
    """Every try counts before it is checked, so that many at the same time are not many for free."""
    desk, form = visit.desk, visit.form
    name, password = form.get("name", "")[:_NAME_CHARACTERS_MAX], form.get("password", "")
    onward, address = _onward(form.get("next", "")), visit.request.client.host if visit.request.client else ""
    wait_ms = desk.attempts.wait_ms(address, name)
    if wait_ms:
        raise TooManyError(f"too many wrong passwords: try again in {shown_span(wait_ms + 999)}", wait_ms=wait_ms)
    desk.attempts.failed(address, name)
    who = None
    if len(password) <= PASSWORD_CHARACTERS_MAX:
        async with desk.password_checks:
            who = await asyncio.to_thread(desk.accounts.verify, name, password)
    if who is None:
        logger.warning("sign-in refused: account=%s address=%s", quoted(name), address)
        model = {"next": onward, "name": name, "wrong": "That is not the name and password of an account."}
        return Drawn("login.html", model, status=403)
    desk.attempts.succeeded(address, name)
    if visit.session is not None:
        desk.sessions.end(visit.session.id)
    response = RedirectResponse(onward, 303)
    set_cookie(response, visit.request, desk, desk.sessions.begin(who))
    return response


@pages.action("/logout", role=ConsoleRole.READER)
async def sign_out(visit: Visit) -> RedirectResponse:
    assert visit.session is not None
    visit.desk.sessions.end(visit.session.id)
    response = RedirectResponse("/login", 303)
    drop_cookie(response, visit.request, visit.desk)
    return response


def _onward(wanted: str) -> str:
    """A path of ours; anything else means the first page."""
    leads_here = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if leads_here and not wanted.startswith(("/login", "/logout")) else "/"
