"""The registry of pages: a module declares paths, titles, its place in the navigation and who may come.

``page`` answers GET, ``action`` POST, ``stream`` GET with server-sent events. Who may come is part of the declaration
and has a safe default: readers see pages, operators act.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.responses import Response

from pyromq.console.auth.roles import ConsoleRole
from pyromq.console.web.streams import Events
from pyromq.console.web.visit import Drawn, File, Moved, Visit

Answer = Drawn | Moved | File | Events | Response
Handler = Callable[[Visit], Awaitable[Answer]]
HandlerT = TypeVar("HandlerT", bound=Callable[[Visit], Awaitable[Answer]])
SECTIONS: Final = ("Cluster", "Messages", "Consume", "Operate", "Console")
"""Headings of the navigation, in this order."""


@dataclass(frozen=True, slots=True)
class Nav:
    """An entry of the navigation: under which heading, where, and the key that opens it after ``g``."""

    section: str
    order: int
    key: str = ""
    label: str = ""  # the title without
    badge: str = ""  # which number stands beside it (``console.badges``)

    def __post_init__(self) -> None:
        if self.section not in SECTIONS:
            raise ValueError(f"the navigation has no section {self.section!r}, only {', '.join(SECTIONS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """One address. ``role`` None: nobody has to sign in for it."""

    method: str
    path: str
    handler: Handler
    role: ConsoleRole | None
    title: str = ""
    nav: Nav | None = None
    is_stream: bool = False
    again: str = ""
    """Path of the page that an action shows when it fails; its own, if there is a page at it."""


class Pages:
    """Registry of the pages of one module."""

    def __init__(self) -> None:
        self.routes: list[PageRoute] = []

    def page(
        self, path: str, *, title: str, nav: Nav | None = None, role: ConsoleRole | None = ConsoleRole.READER
    ) -> Callable[[HandlerT], HandlerT]:
        return self._added(method="GET", path=path, role=role, title=title, nav=nav)

    def action(
        self, path: str, *, title: str = "", role: ConsoleRole | None = ConsoleRole.OPERATOR, again: str = ""
    ) -> Callable[[HandlerT], HandlerT]:
        """A form that changes something, or shows what it would change (``Drawn``).

        When it raises an MQError, the page at ``again`` (without: the one at the same path) shows the form again with
        what was sent (``web.forms``). Parts of that path come from this one's, or from the form.
        """
        return self._added(method="POST", path=path, role=role, title=title, again=again or path)

    def stream(self, path: str, *, role: ConsoleRole = ConsoleRole.READER) -> Callable[[HandlerT], HandlerT]:
        """Server-sent events for a page that is open."""
        return self._added(method="GET", path=path, role=role, is_stream=True)

    def _added(
        self,
        *,
        method: str,
        path: str,
        role: ConsoleRole | None,
        title: str = "",
        nav: Nav | None = None,
        is_stream: bool = False,
        again: str = "",
    ) -> Callable[[HandlerT], HandlerT]:
        def added(handler: HandlerT) -> HandlerT:
            self.routes.append(
                PageRoute(
                    method=method,
                    path=path,
                    handler=handler,
                    role=role,
                    title=title,
                    nav=nav,
                    is_stream=is_stream,
                    again=again,
                )
            )
            return handler

        return added
