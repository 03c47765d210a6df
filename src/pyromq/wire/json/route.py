"""Routes and cluster bodies: the route of a topic, the brokers of a cluster, lists of topics.

    lenient   {"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},…}],"filterServerTable":{},"queueDatas":[…]}
    strict    {"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},…}],"filterServerTable":{},"queueDatas":[…]}

A client of version 4.9.4 or later, or one that asks for it, gets the strict form. Both are compact: Go cuts
``brokerAddrs`` out of the raw text at ``,`` and ``:``, and panics over an empty one, so a broker without address is
left out, and its queues with it. Reading takes either form, and ``topicSynFlag``, 4.x's name of ``topicSysFlag``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.model.route import BrokerData, TopicRoute
from pyromq.wire.json import java_json

STRICT_SINCE_VERSION = 401  # 4.9.4


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every broker by its name, and the names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names of topics; some brokers tell their address in the same response."""

    topic_list: list[str] = []
    broker_addr: str | None = None


def wants_strict_json(version: int, accept_standard_json_only: bool = False) -> bool:
    """Whether a route goes out in the strict form to the sender of such a request."""
    return version >= STRICT_SINCE_VERSION or accept_standard_json_only


def encode_route(route: TopicRoute, *, strict: bool = False) -> bytes:
    reachable = tuple(broker for broker in route.broker_datas if broker.broker_addrs)
    names = {broker.broker_name for broker in reachable}
    queues = tuple(data for data in route.queue_datas if data.broker_name in names)
    whole = msgspec.structs.replace(route, broker_datas=reachable, queue_datas=queues)
    return java_json.dumps_strict(whole) if strict else java_json.dumps(whole)


def decode_route(body: bytes) -> TopicRoute:
    """Decode the route of a topic. Raises RemoteProtocolError."""
    value = java_json.parse(body)
    if isinstance(value, dict) and isinstance(queues := value.get("queueDatas"), list):
        value["queueDatas"] = [_renamed(queue) for queue in queues]
    return java_json.convert(value, TopicRoute)


def encode_cluster(cluster: ClusterInfo) -> bytes:
    return java_json.dumps(cluster)


def decode_cluster(body: bytes) -> ClusterInfo:
    """Decode the brokers of a cluster. Raises RemoteProtocolError."""
    return java_json.decode(body, ClusterInfo)


def encode_topics(topics: TopicList) -> bytes:
    """Encode a list of topics as ``java_json`` would, at a twentieth of its cost: there may be 100 000 names."""
    encode = msgspec.json.encode
    try:
        address = b"" if topics.broker_addr is None else b'"brokerAddr":%b,' % encode(topics.broker_addr)
        return b'{%b"topicList":%b}' % (address, encode(topics.topic_list))
    except UnicodeError:
        return java_json.dumps(topics)  # says what is wrong


def decode_topics(body: bytes) -> TopicList:
    """Decode a list of topics. Raises RemoteProtocolError."""
    return java_json.decode(body, TopicList)


def _renamed(queue: Any) -> Any:
    if isinstance(queue, dict) and "topicSynFlag" in queue and "topicSysFlag" not in queue:
        return {**queue, "topicSysFlag": queue["topicSynFlag"]}
    return queue
