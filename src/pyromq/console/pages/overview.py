"""The first page: how the cluster is."""

from __future__ import annotations

from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit

pages = Pages()


@pages.page("/", title="Overview", nav=Nav("Cluster", order=10, key="o"))
async def overview(visit: Visit) -> Drawn:
    return Drawn("overview.html", {"cluster": await visit.desk.cluster()})
