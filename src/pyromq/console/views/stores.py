"""Stores: what their brokers tell."""

from __future__ import annotations

import msgspec

from pyromq.console.desk import Desk
from pyromq.console.disk_forecast import Forecast
from pyromq.console.views.cluster import BrokerView
from pyromq.errors import MQError
from pyromq.operate.brokers import first_number
from pyromq.operate.reading.retention import LogRetention
from pyromq.wire.json.store_facts import StoreFacts


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """``facts`` is None for Apache RocketMQ, which tells only ``runtime``; ``problem`` if the broker told nothing."""

    broker: str
    cluster: str = ""
    facts: StoreFacts | None = None
    first_position: int = 0
    end_position: int = 0
    disk_percent: float = 0.0
    oldest_ms: int = 0
    forecast: Forecast | None = None
    retention: LogRetention | None = None
    problem: str = ""


async def read_store(desk: Desk, broker: BrokerView) -> StoreView:
    view = StoreView(broker=broker.broker, cluster=broker.cluster, forecast=broker.forecast)
    try:
        facts = await desk.admin.stores.facts(broker.address)
        told = await desk.admin.brokers.runtime(broker.address)
        retention = await desk.admin.stores.retention(broker.address)
    except MQError as error:
        return msgspec.structs.replace(view, problem=str(error))
    oldest_ms = int(first_number(told.get("earliestMessageTimeStamp", "")))
    return msgspec.structs.replace(
        view,
        facts=facts,
        retention=msgspec.structs.replace(retention, broker=broker.broker),
        first_position=int(first_number(told.get("commitLogMinOffset", ""))),
        end_position=int(first_number(told.get("commitLogMaxOffset", ""))),
        disk_percent=first_number(told.get("commitLogDiskRatio", "")) * 100,
        oldest_ms=oldest_ms,
    )
