"""Access to the console: the visitor's own account, and API tokens."""

from __future__ import annotations

import asyncio

from pyromq.console.auth.accounts import ADMIN, VIEWER
from pyromq.console.auth.roles import ConsoleRole
from pyromq.console.web.forms import about_field
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import BadRequestError, Drawn, Moved, Visit

pages = Pages()


@pages.page("/access", title="Access", nav=Nav("Console", order=10, key="a"))
async def access(visit: Visit) -> Drawn:
    return Drawn("access.html", {"tokens": visit.desk.accounts.tokens, "accounts": visit.desk.accounts.names})


@pages.action("/access/tokens", again="/access")
async def add_token(visit: Visit) -> Moved:
    try:
        role = ConsoleRole(visit.form.get("role", ConsoleRole.READER.value))
    except ValueError as error:
        raise BadRequestError("a token is read-only or an operator's") from error
    name = visit.form.get("name", "")
    with about_field("name"):
        token = visit.desk.accounts.add_token(name, role)
    return Moved("/access", said=f"The token {name.strip()} is shown this once; only its hash is kept:", secret=token)


@pages.action("/access/tokens/revoke", again="/access")
async def revoke_token(visit: Visit) -> Moved:
    name = visit.form.get("name", "")
    visit.desk.accounts.revoke_token(name)
    return Moved("/access", said=f"The token {name} is worth nothing any more.")


@pages.action("/access/passwords")
async def renew_password(visit: Visit) -> Moved:
    """A new one for an account; whoever else is signed in with it has to sign in again."""
    name = visit.form.get("name", "")
    if name not in (ADMIN, VIEWER):
        raise BadRequestError(f"there are the accounts {ADMIN} and {VIEWER}")
    password = await asyncio.to_thread(visit.desk.accounts.renew, name)
    visit.desk.sessions.end_all_of(name, but=visit.session.id if visit.session else "")
    return Moved("/access", said=f"The new password of {name}, shown this once:", secret=password)
