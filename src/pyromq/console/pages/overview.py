"""The first page: rates, health with reasons, brokers with their disks and addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pyromq.console.views.cluster import cluster_view, rates_chart
from pyromq.console.views.health import health
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.streams import Event, Events
from pyromq.console.web.visit import Drawn, Visit
from pyromq.errors import MQError
from pyromq.model.system_names import is_system_group

pages = Pages()


@pages.page("/", title="Overview", nav=Nav("Cluster", order=10, key="o"))
async def overview(visit: Visit) -> Drawn:
    return Drawn("overview.html", await _model(visit))


@pages.page("/health", title="Health", nav=Nav("Cluster", order=15, key="d", badge="health"))
async def to_do(visit: Visit) -> Drawn:
    """Everything that needs somebody, with the page and the command that settle it."""
    return Drawn("health.html", {"health": await health(visit.desk)})


@pages.stream("/overview/live")
async def live(visit: Visit) -> Events:
    """Every few seconds the regions of the page anew."""
    return Events(_regions(visit))


async def _regions(visit: Visit) -> AsyncIterator[Event]:
    renderer = visit.request.app.state.console.renderer
    while True:
        await asyncio.sleep(visit.desk.settings.refresh_ms / 1000)
        model = await _model(visit)
        yield Event("region", renderer.part("overview_parts.html", "regions", visit, **model))


async def _model(visit: Visit) -> dict[str, Any]:
    """Where the cluster cannot be asked, the page says so; it opens all the same."""
    desk = visit.desk
    cluster, found = await asyncio.gather(cluster_view(desk), health(desk))
    try:
        topics = sum(kind.is_users for kind in (await desk.topic_kinds()).values())
        groups = await desk.group_names()
    except MQError:
        topics, groups = None, None
    return {
        "cluster": cluster,
        "health": found,
        "chart": rates_chart(desk, visit.span),
        "span": visit.span,
        "topics": topics,
        "groups": None if groups is None else sum(not is_system_group(each) for each in groups),
    }
