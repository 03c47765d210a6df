"""What the handlers of a name server share, and the response they give."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from pyromq.clock import Clock
from pyromq.model.route import TopicRoute
from pyromq.nameserver.errors import LimitError
from pyromq.nameserver.kv_config import ORDER_NAMESPACE, KvConfig
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerLimits, NameServerSettings
from pyromq.security.audit import AuditLog
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers import Header
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received


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


class NameServerState:
    """Table, key-value configuration and current settings; ``settings`` is replaced whole."""

    def __init__(self, settings: NameServerSettings, *, clock: Clock, kv: KvConfig) -> None:
        self.settings = settings
        self.kv = kv
        self.audit_log: AuditLog | None = None
        self._clock = clock
        self.table = RouteTable(clock, silence_ms_max=settings.broker_silence_ms_max, limits=settings.limits)
        self.routes = RouteResponses(self.table, kv)
        self._started_ms = clock.monotonic_ms()

    @property
    def limits(self) -> NameServerLimits:
        return self.settings.limits

    @property
    def is_ready(self) -> bool:
        """False while brokers may still be registering, if the settings say that this matters."""
        if not self.settings.wait_for_service:
            return True
        return self._clock.monotonic_ms() - self._started_ms >= 1000 * self.settings.wait_seconds_for_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response before it has a correlation id."""

    code: ResponseCode = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


Job = Callable[[], Response]
"""Makes a response on another thread, because files are read for it. Raises MQError, OSError."""

Answer = Response | Job
AnswerT = TypeVar("AnswerT", bound=Answer)
Handle = Callable[[NameServerState, Received[Any], Hashable], Answer]
"""Carries out one request that came over a connection. Raises MQError, and has then changed nothing."""


def small_body(state: NameServerState, request: Received[Any]) -> bytes:
    """The body of a request that never needs a large one; raises LimitError."""
    if len(request.body) > state.limits.small_body_bytes_max:
        raise LimitError(
            f"a body of {len(request.body)} bytes, at most {state.limits.small_body_bytes_max} are allowed"
        )
    return request.body
