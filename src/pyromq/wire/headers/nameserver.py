"""What brokers, clients and admin tools ask a name server."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header, Int32, Int64


class PutKvConfigHeader(Header, frozen=True, kw_only=True):
    """Fields of request 100 PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class KvConfigHeader(Header, frozen=True, kw_only=True):
    """Fields of request 101 GET_KV_CONFIG, 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class GetKvConfigResponseHeader(Header, frozen=True, kw_only=True):
    value: str | None = None


class NamespaceHeader(Header, frozen=True, kw_only=True):
    """Fields of request 219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class RegisterBrokerHeader(Header, frozen=True, kw_only=True):
    """Fields of request 103 REGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0  # 0: unchecked
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """Both only for slaves whose master is known."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityHeader(Header, frozen=True, kw_only=True):
    """Fields of request 104 UNREGISTER_BROKER, 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    changed: bool = False


class GetRouteHeader(Header, frozen=True, kw_only=True):
    """Fields of request 105 GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | None = None


class BrokerNameHeader(Header, frozen=True, kw_only=True):
    """Fields of request 205 WIPE_WRITE_PERM_OF_BROKER, 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermResponseHeader(Header, frozen=True, kw_only=True):
    wipe_topic_count: Int32


class AddWritePermResponseHeader(Header, frozen=True, kw_only=True):
    add_topic_count: Int32


class DeleteTopicInNameServerHeader(Header, frozen=True, kw_only=True):
    """Fields of request 216 DELETE_TOPIC_IN_NAMESRV."""

    topic: str
    cluster_name: str | None = None  # None: in every cluster


class ClusterHeader(Header, frozen=True, kw_only=True):
    """Fields of request 224 GET_TOPICS_BY_CLUSTER."""

    cluster: str


class BrokerMemberGroupHeader(Header, frozen=True, kw_only=True):
    """Fields of request 901 GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatHeader(Header, frozen=True, kw_only=True):
    """Fields of request 904 BROKER_HEARTBEAT."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_millis: Int64 | None = msgspec.field(name="heartbeatTimeoutMills", default=None)
    election_priority: Int32 | None = None


class MinBrokerIdChangeHeader(Header, frozen=True, kw_only=True):
    """905 NOTIFY_MIN_BROKER_ID_CHANGE, from the name server to brokers."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
