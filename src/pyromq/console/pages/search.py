"""Search: one text, looked for in the whole cluster; every page has its field."""

from __future__ import annotations

from typing import Final

from pyromq.console.web.pages import Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.visit import Drawn, Visit
from pyromq.operate.subjects import SubjectKind

pages = Pages()

_HEADINGS: Final = {
    SubjectKind.MESSAGE: "Messages",
    SubjectKind.TOPIC: "Topics",
    SubjectKind.GROUP: "Groups",
    SubjectKind.CLIENT: "Clients",
    SubjectKind.USER: "Users",
}


@pages.page("/search", title="Search")
async def search(visit: Visit) -> Drawn:
    """Results by kind. With ``names`` only topics and groups are looked at: what the field shows while one types."""
    text, names_only = visit.query.get("q", "").strip(), bool(visit.query.get("names"))
    found, problem = None, ""
    if text:
        found, problem = await or_problem(visit.desk.admin.search.find(text, names_only=names_only), None)
    kinds = [(heading, found.of(kind)) for kind, heading in _HEADINGS.items()] if found else []
    model = {
        "text": text,
        "found": found,
        "kinds": [(heading, hits) for heading, hits in kinds if hits],
        "problem": problem,
        "names_only": names_only,
    }
    return Drawn("search.html", model, title=f"Search: {text[:60]}" if text else "Search")
