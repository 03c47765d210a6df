"""What clients and tools ask a name server about topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from pyromq.nameserver.errors import LimitError, UnknownTopicError
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.state import Handle, NameServerState, Response
from pyromq.wire.headers.nameserver import ClusterHeader, GetRouteHeader
from pyromq.wire.json.route import TopicList, encode_cluster, encode_topics, wants_strict_json
from pyromq.wire.received import Received

_ZONE_MODE: Final = "__ZONE_MODE"
_ZONE_NAME: Final = "__ZONE_NAME"


def get_route(state: NameServerState, request: Received[GetRouteHeader], _: Hashable) -> Response:
    """105: the request that every client repeats for every topic, every 30 seconds."""
    header = request.header
    if not state.is_ready:
        raise LimitError("the name server has just started and waits for brokers")
    strict = wants_strict_json(request.version, bool(header.accept_standard_json_only))
    if zone := _zone(request):
        body = state.routes.body_for_zone(header.topic, state.settings, zone, strict=strict)
    else:
        body = state.routes.body(header.topic, state.settings, strict=strict)
    if body is None:
        raise UnknownTopicError(header.topic)
    return Response(body=body)


def _zone(request: Received[GetRouteHeader]) -> str:
    """The zone that a client wants to stay in, else empty."""
    if _ZONE_MODE.encode() not in request.frame.header:  # nearly always: the ext fields need not be decoded again
        return ""
    ext = request.ext()
    return ext.get(_ZONE_NAME, "").strip() if ext.get(_ZONE_MODE, "").lower() == "true" else ""


def cluster_info(state: NameServerState, _request: Received[Any], _: Hashable) -> Response:
    """Handle request 106 (GET_BROKER_CLUSTER_INFO)."""
    return Response(body=encode_cluster(state.table.cluster_info()))


def all_topics(state: NameServerState, _request: Received[Any], _: Hashable) -> Response:
    """Handle request 206 (GET_ALL_TOPIC_LIST_FROM_NAMESERVER)."""
    if not state.settings.all_topic_list_enable:
        raise LimitError("the list of all topics is switched off")
    return Response(body=encode_topics(state.table.list_topics()))


def topics_of_cluster(state: NameServerState, request: Received[ClusterHeader], _: Hashable) -> Response:
    """Handle request 224 (GET_TOPICS_BY_CLUSTER)."""
    return _topics(state, state.table.list_topics_of_cluster(request.header.cluster))


def topics_by(listed: Callable[[RouteTable], TopicList]) -> Handle:
    """304, 311, 312, 313: a list that needs no more than the table."""

    def handle(state: NameServerState, _request: Received[Any], _: Hashable) -> Response:
        return _topics(state, listed(state.table))

    return handle


def _topics(state: NameServerState, topics: TopicList) -> Response:
    if not state.settings.topic_list_enable:
        raise LimitError("lists of topics are switched off")
    return Response(body=encode_topics(topics))
