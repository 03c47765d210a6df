"""Protection of every request: headers of responses, names under which browsers may come, where forms come from.

A page of somebody else cannot run here (CSP), frame us, or send our forms (the Origin header and a CSRF token). Nor can
it read us under a name that its owner makes lead to this machine (DNS rebinding): a browser says that name in Host.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyromq.console.web.problems import ForbiddenError, problem_response

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers send forms with "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HSTS: Final = "max-age=31536000"
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class Protection:
    """Around the whole application, so that errors and static files are covered as well."""

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str], is_encrypted: bool) -> None:
        self._app = app
        self._allowed = frozenset(name.lower().rstrip(".") for name in allowed_hosts) | {"localhost"}
        self._headers = {**HEADERS, **({"Strict-Transport-Security": _HSTS} if is_encrypted else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if is_allowed_host(host, self._allowed):
            await self._app(scope, receive, send_protected)
            return
        text = f"this console is not known as {host[:100]!r}: start it with --allow-host to let browsers use that name"
        await problem_response(ForbiddenError(text))(scope, receive, send_protected)


def is_allowed_host(host: str, allowed: frozenset[str]) -> bool:
    """A plain address is always allowed: no name leads anywhere then."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name.rstrip(".") in allowed:
        return True
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def check_origin(request: Request) -> None:
    """Check that an unsafe request that a cookie vouches for came from a page of ours. Raises ForbiddenError.

    Browsers send Origin with every POST, old ones at least Referer.
    """
    told = request.headers.get("origin") or request.headers.get("referer") or ""
    host = request.headers.get("host", "")
    try:
        from_host = urlsplit(told).netloc
    except ValueError:
        from_host = ""
    if not from_host or from_host.lower() != host.lower():
        raise ForbiddenError("the request did not come from a page of this console: reload the page and try again")
