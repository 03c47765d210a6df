"""The API described for people, drawn from the same declarations."""

from __future__ import annotations

from typing import Any

from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit

pages = Pages()


@pages.page("/api", title="HTTP API", nav=Nav("Console", order=20, key="h"))
async def api_docs(visit: Visit) -> Drawn:
    description = visit.request.app.state.console.description
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append({"method": method.upper(), "path": path, **operation})
    return Drawn("api_docs.html", {"by_tag": by_tag, "schemas": description["components"]["schemas"]})
