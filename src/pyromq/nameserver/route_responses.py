"""Bodies of route responses, kept as bytes: clients ask for the same few topics every 30 seconds.

What is kept is thrown away as a whole when the table, the ordered topics or the settings change. Topics that do not
exist are not kept, so peers cannot fill the memory with names.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyromq.model.route import TopicRoute
from pyromq.nameserver.kv_config import ORDER_NAMESPACE, KvConfig
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerSettings
from pyromq.wire.json.route import encode_route


class RouteResponses:
    """Looks routes up, encodes them, remembers the bytes."""

    def __init__(self, table: RouteTable, kv: KvConfig) -> None:
        self._table = table
        self._kv = kv
        self._kept: dict[tuple[str, bool], bytes] = {}
        self._kept_for: tuple[int, int, NameServerSettings | None] = (-1, -1, None)

    def body(self, topic: str, settings: NameServerSettings, *, strict: bool) -> bytes | None:
        """The body for a topic in one of the two JSON forms; None when no broker has the topic."""
        now = (self._table.revision, self._kv.revision, settings)
        if now != self._kept_for:
            self._kept, self._kept_for = {}, now
        body = self._kept.get((topic, strict))
        if body is None and (route := self._route(topic, settings)) is not None:
            body = encode_route(route, strict=strict)
            if len(self._kept) < settings.limits.routes_cached_max:
                self._kept[topic, strict] = body
        return body

    def body_for_zone(self, topic: str, settings: NameServerSettings, zone: str, *, strict: bool) -> bytes | None:
        """Route body for a client that wants to stay within its zone."""
        route = self._route(topic, settings)
        return None if route is None else encode_route(within_zone(route, zone), strict=strict)

    def _route(self, topic: str, settings: NameServerSettings) -> TopicRoute | None:
        route = self._table.route(topic, acting_masters=settings.support_acting_master)
        if route is None or not settings.order_message_enable:
            return route
        return replace(route, order_topic_conf=self._kv.get(ORDER_NAMESPACE, topic))


def within_zone(route: TopicRoute, zone: str) -> TopicRoute:
    """The part of a route in a zone, and brokers without master, whose replicas may be anywhere."""
    brokers = tuple(
        broker
        for broker in route.broker_datas
        if broker.master_addr is None or (broker.zone_name or "").lower() == zone.lower()
    )
    names = {broker.broker_name for broker in brokers}
    addresses = {address for broker in brokers for address in broker.broker_addrs.values()}
    return replace(
        route,
        broker_datas=brokers,
        queue_datas=tuple(data for data in route.queue_datas if data.broker_name in names),
        filter_server_table={each: kept for each, kept in route.filter_server_table.items() if each in addresses},
    )
