"""Stores: segments, disk, retention and the last recovery, as brokers tell them."""

from __future__ import annotations

from pyromq.console.views.cluster import cluster_view
from pyromq.console.views.stores import read_store
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit
from pyromq.errors import NotFoundError
from pyromq.wire.codes import ResponseCode

pages = Pages()


@pages.page("/store", title="Store", nav=Nav("Cluster", order=30, key="s"))
async def store(visit: Visit) -> Drawn:
    """Store of the broker that the query names, or of the first one."""
    masters = [each for each in (await cluster_view(visit.desk)).brokers if each.number == 0]
    wanted = visit.query.get("broker", "")
    chosen = next((each for each in masters if not wanted or each.broker == wanted), None)
    if chosen is None:
        remark = f"name servers know no broker {wanted[:80]}" if wanted else "no broker has registered"
        raise NotFoundError(code=ResponseCode.BROKER_NOT_EXIST, remark=remark)
    names = [each.broker for each in masters]
    return Drawn("store.html", {"store": await read_store(visit.desk, chosen), "brokers": names})
