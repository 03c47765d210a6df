"""A console on a LoopbackBroker, asked without sockets: ``async with ConsoleRig() as rig: page = await rig.get("/")``.

``rig.get``, ``rig.post`` are a browser that signed in as an operator and sends what our forms send; ``rig.viewer`` is
one that only reads; ``rig.stranger`` has not signed in. ``rig.api`` sends a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx

from pyromq.aio import Admin, Producer
from pyromq.clock import Clock
from pyromq.console.app import Console, create_app
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.security.secret import Secret
from pyromq.testing import LoopbackBroker

BASE: Final = "http://127.0.0.1:8082"
PASSWORD: Final = "the operator's password"
VIEWER_PASSWORD: Final = "the reader's password"
TOKEN: Final = "pmq_" + "t" * 40
CHEAP: Final = ScryptCost(n=2, r=1, p=1)
XSS: Final = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"


class Browser:
    """Keeps its cookies; knows the CSRF token of its session as its pages would tell it."""

    def __init__(self, console: Console, role: ConsoleRole | None) -> None:
        self._console = console
        transport = httpx.ASGITransport(app=console, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=BASE, headers={"Origin": BASE})
        self.csrf = ""
        if role is not None:
            name = "admin" if role is ConsoleRole.OPERATOR else "viewer"
            session = console.desk.sessions.begin(ConsoleIdentity(name, role))
            self.csrf = session.csrf
            self.http.cookies.set("pyromq_console_8082", session.id, domain="127.0.0.1")

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.http.get(path, params=query or None)

    async def page(self, path: str, **query: Any) -> str:
        """The text of a page that must open."""
        response = await self.get(path, **query)
        assert response.status_code == 200, f"{path}: {response.status_code} {response.text[-2000:]}"
        return response.text

    async def post(
        self, path: str, fields: Mapping[str, Any] | Sequence[tuple[str, Any]] = (), **more: Any
    ) -> httpx.Response:
        """What a form of ours sends."""
        given = list(fields.items() if isinstance(fields, Mapping) else fields)
        body = urlencode([("csrf", self.csrf), *given, *more.items()])
        return await self.http.post(path, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})

    async def act(self, path: str, fields: Mapping[str, Any] | Sequence[tuple[str, Any]] = (), **more: Any) -> str:
        """A form that leads on to another page: the text of that page."""
        response = await self.post(path, fields, **more)
        assert response.status_code == 303, f"{path}: {response.status_code} {response.text[-2000:]}"
        return await self.page(response.headers["location"])


class ConsoleRig:
    """``broker`` is a LoopbackBroker on the same loop; settings may be changed by keyword."""

    def __init__(self, *, broker: LoopbackBroker | None = None, clock: Clock | None = None, **settings: Any) -> None:
        self.broker = broker or LoopbackBroker()
        self._clock = clock
        self._changes = settings
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.broker)
        settings = ConsoleSettings(
            nameservers=self.broker.nameserver,
            password=Secret(PASSWORD),
            viewer_password=Secret(VIEWER_PASSWORD),
            token=Secret(TOKEN),
            scrypt=CHEAP,
            first_paint_ms=60_000,
        )
        self.console = create_app(replace(settings, **self._changes), clock=self._clock)
        self.desk = await self._stack.enter_async_context(self.console.desk)
        self.operator = await self.browser(ConsoleRole.OPERATOR)
        self.viewer = await self.browser(ConsoleRole.READER)
        self.stranger = await self.browser(None)
        self.get, self.page = self.operator.get, self.operator.page
        self.post, self.act = self.operator.post, self.operator.act
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def browser(self, role: ConsoleRole | None) -> Browser:
        browser = Browser(self.console, role)
        await self._stack.enter_async_context(browser.http)
        return browser

    async def api(self, method: str, path: str, *, token: str = TOKEN, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app=self.console, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
            return await http.request(method, f"/api/v1{path}", headers=headers, **more)

    @property
    def admin(self) -> Admin:
        return self.desk.admin

    async def producer(self) -> Producer:
        return await self.desk.producer()
