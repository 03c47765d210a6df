"""Rendering: templates with everything escaped, the navigation, and static files under names that change with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pyromq.console.web.commands import command_line
from pyromq.console.web.formatting import FILTERS, link
from pyromq.console.web.forms import SentForm
from pyromq.console.web.pages import SECTIONS, Nav, PageRoute
from pyromq.console.web.places import place_of
from pyromq.console.web.visit import Visit

FOLDER: Final = Path(__file__).parents[1]
STATIC: Final = FOLDER / "static"
_HASH_CHARACTERS: Final = 12
_THEMES: Final = ("light", "dark")


@dataclass(frozen=True, slots=True)
class NavEntry:
    label: str
    path: str
    key: str
    badge: str


class Renderer:
    """Templates of the console. Nothing in them is marked safe but SVG of our own, whose text was escaped."""

    def __init__(self, routes: Sequence[PageRoute], badges: Callable[[], Mapping[str, Any]]) -> None:
        self.nav = _navigation(routes)
        self._badges = badges
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals.update(link=link, asset=asset, place_of=place_of)

    def page(self, template: str, visit: Visit, title: str, model: dict[str, Any]) -> str:
        """A whole page; what was said before is shown on it, once."""
        cookies = visit.request.cookies
        nameservers = visit.desk.settings.nameservers
        given = {
            "visit": visit,
            "who": visit.who,
            "csrf": visit.session.csrf if visit.session else "",
            "said": visit.session.take_said() if visit.session else [],
            "nav": self.nav,
            "nav_badges": self._badges() if visit.who is not None else {},
            "title": title,
            "theme": theme if (theme := cookies.get("pyromq_theme", "")) in _THEMES else "",
            "density": "compact" if cookies.get("pyromq_density") == "compact" else "",
            "sent": visit.sent or SentForm(),
            "here": visit.request.url.path,
            "now_ms": visit.now_ms,
            "nameservers": nameservers,
            "command": lambda *words: command_line(*words, nameservers=nameservers),
            **model,
        }
        return self._environment.get_template(template).render(given)

    def part(self, template: str, macro: str, visit: Visit, **model: Any) -> str:
        """One macro of a template by itself: a region that a stream replaces."""
        module = self._environment.get_template(template).make_module({"visit": visit, "now_ms": visit.now_ms})
        return str(getattr(module, macro)(**model))


def _navigation(routes: Sequence[PageRoute]) -> list[tuple[str, list[NavEntry]]]:
    entries: dict[str, list[tuple[Nav, PageRoute]]] = {section: [] for section in SECTIONS}
    for route in routes:
        if route.nav is not None:
            entries[route.nav.section].append((route.nav, route))
    return [
        (section, [NavEntry(nav.label or route.title, route.path, nav.key, nav.badge) for nav, route in found])
        for section in SECTIONS
        if (found := sorted(entries[section], key=lambda each: each[0].order))
    ]


@cache
def asset(name: str) -> str:
    """The path of a static file, with a part of its hash: browsers keep it until it changes."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:_HASH_CHARACTERS]}"
