"""Prepared messages: transactions that are neither committed nor rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyromq.console.views.transactions import read_half_messages
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.tables import TableQuery, sorted_by
from pyromq.console.web.visit import Drawn, Visit
from pyromq.operate.transactions import OpenTransaction

pages = Pages()
_SORTS: Final[dict[str, Callable[[OpenTransaction], Any]]] = {
    "age": lambda each: -each.born_ms,
    "topic": lambda each: each.topic,
    "producers": lambda each: each.producer_group,
    "checks": lambda each: each.checks,
}


@pages.page("/transactions", title="Prepared messages", nav=Nav("Messages", order=50, key="i"))
async def transactions(visit: Visit) -> Drawn:
    found = await read_half_messages(visit.desk, visit.query.get("topic", "")[:255])
    given = visit.query if "sort" in visit.query else {**visit.query, "order": "desc"}  # the oldest first
    query = TableQuery.of(given, sorts=list(_SORTS), kept=("topic",))
    needle = query.search.casefold()
    rows = [
        each
        for each in found.messages
        if any(needle in word.casefold() for word in (each.topic, each.message_id, each.producer_group, *each.keys))
    ]
    model = {"half": found, "table": query.cut(sorted_by(rows, query, _SORTS))}
    return Drawn("transactions.html", model)
