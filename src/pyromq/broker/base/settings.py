"""Settings of a broker; RocketMQ's names are in docs/how-to/configure-a-broker.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyromq.errors import ConfigError
from pyromq.metrics.settings import MetricsSettings
from pyromq.model.names import validate_topic
from pyromq.model.subscription_policy import SubscriptionPolicy
from pyromq.net.exposure import Exposure
from pyromq.net.listener_settings import ListenerSettings
from pyromq.net.nameserver_list import check_nameservers
from pyromq.net.settings import TlsMode
from pyromq.net.tls import TlsSettings
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security.audit import AuditSettings
from pyromq.security.quotas import QuotaScope, parse_quotas
from pyromq.security.settings import AccessSettings
from pyromq.store.settings import StoreSettings

VIP_PORT_DISTANCE = 2
GRPC_PORT = 8081


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """The gRPC port, for clients of RocketMQ 5. Raises ConfigError for what cannot work."""

    enabled: bool = True
    port: int | None = None  # None: 8081, or another one if that is taken; none where the broker's port is picked

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65_535:
            raise ConfigError(f"grpc.port {self.port} is outside [0, 65535]")

    def port_beside(self, broker_port: int) -> int | None:
        """Where to listen; 0: any free port, None: nowhere."""
        if not self.enabled or (self.port is None and not broker_port):
            return None
        return GRPC_PORT if self.port is None else self.port


@dataclass(slots=True, kw_only=True)
class BrokerSettings:
    """How a broker presents itself, what it allows and how long it waits; RocketMQ's defaults.

    A broker works with a copy of its own, which everything in it shares; ``config`` alone changes that one.
    """

    cluster: str = "DefaultCluster"
    name: str = "broker-a"
    broker_id: int = 0
    host: str = "127.0.0.1"
    port: int = 10911
    advertised_host: str = ""  # what clients are given; when empty the listening host, or the address of this machine
    vip_port: bool = True  # also listen on port - 2, for old clients; not when the port is picked
    nameservers: tuple[str, ...] = ()  # addresses, or the URL of an address server
    region: str = "DefaultRegion"
    permission: int = 6
    sends_from_ms: int = 0  # when messages are taken, by the wall clock; they are refused before

    connections_max: int = 10_000
    half_read_bytes_max: int = 256 << 20  # incomplete frames of all connections; the largest is cut first
    idle_ms: int = 120_000  # a connection that is silent for so long is closed; 0 means never
    tls_mode: TlsMode = TlsMode.DISABLED
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None  # None: it stands in the file of the certificate
    tls_client_ca_file: Path | None = None  # clients must show a certificate of these authorities
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose PROXY protocol header is believed
    insecure_network: bool = False  # listen beyond loopback though strangers could use it, or listen in
    nameserver_tls: bool = False  # to name servers, with the certificate above where they ask for one
    nameserver_tls_ca_file: Path | None = None  # None: the system's authorities
    nameserver_tls_check_hostname: bool = True

    auto_create_topics: bool = True
    auto_create_groups: bool = True
    subscription_policy: SubscriptionPolicy = SubscriptionPolicy.WARN  # of groups that have none of their own
    default_topic_queues: int = 8
    topics_max: int = 100_000  # what a name server takes from one broker; retry and dead-letter topics count
    groups_max: int = 100_000
    trace_topic: bool = False
    store_replies: bool = True  # of request-reply, in the reply topic of the cluster
    server_side_reset: bool = True  # pulls get the new offset; else clients are, which must all be connected

    property_filter: bool = True  # SQL92 expressions
    filter_retries: bool = False  # messages in retry topics by the expression for the topic that they come from

    long_polling: bool = True
    short_polling_ms: int = 1_000
    held_pulls_max: int = 100_000
    client_expiry_ms: int = 120_000
    lock_expiry_ms: int = 60_000
    offsets_save_ms: int = 5_000
    register_interval_ms: int = 30_000
    register_timeout_ms: int = 24_000
    sync_flush_timeout_ms: int = 5_000
    drain_ms: int = 0  # between the signal to stop and the stop: producers are sent to other brokers meanwhile
    delay_offsets_save_ms: int = 1_000  # how far delay levels have come
    unflushed_sends_max: int = 10_000  # when so many sends wait for the disk, the next ones wait for them
    unflushed_bytes_max: int = 1 << 30  # with async flush: when so much is written and not on disk, sends wait
    parked_sends_max: int = 10_000  # and when so many wait for those, the broker is overloaded
    parked_bytes_max: int = 64 << 20
    parked_ms_max: int = 200
    fast_failure: bool = True  # waiting sends are refused after that time, or when the disk is stuck; else they wait on
    stuck_disk_ms: int = 1_000  # a flush that takes longer makes the broker refuse sends

    timer_delay_ms_max: int = 40 * 86_400_000
    recall_messages: bool = True  # senders may cancel messages that wait for a time
    transactions: bool = True
    transaction_timeout_ms: int = 6_000  # a prepared message is checked no earlier than that
    transaction_check_interval_ms: int = 30_000
    transaction_checks_max: int = 15  # 250 at most; then it is put away where a person can look at it

    quotas: tuple[str, ...] = ()  # such as "user:billing messages=1000 bytes=10m"; ``security.quotas``
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        validate_topic(self.cluster)
        validate_topic(self.name)
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"port {self.port} is outside [0, 65535]")
        if not 0 <= self.permission <= 7:
            raise ConfigError(f"permission {self.permission} is outside [0, 7]")
        positive = ("offsets_save_ms", "delay_offsets_save_ms", "register_interval_ms", "short_polling_ms")
        for name in (*positive, "topics_max", "groups_max"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        for name in ("drain_ms", "sends_from_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative")
        if self.broker_id < 0:
            raise ConfigError(f"broker id {self.broker_id} is negative")
        self._check_role()
        check_nameservers(self.nameservers)
        if not self.access.is_on and any(quota.scope is QuotaScope.USER for quota in parse_quotas(self.quotas)):
            raise ConfigError("quotas of users need access control (setting access.enabled): else nobody has a name")
        _ = self.listener  # building it checks it

    def _check_role(self) -> None:
        replication = self.replication
        if replication.role is Role.REPLICA:
            if self.broker_id == 0:
                raise ConfigError("a replica needs a broker id above 0 (--broker-id 1): 0 is the master's")
            known = self.nameservers or replication.master_address or replication.master_replication_address
            if not (known or replication.managed):
                raise ConfigError(
                    "a replica needs to know its master: give name servers, or its address (--master HOST:PORT)"
                )
        elif replication.role.has_port and self.broker_id:
            raise ConfigError(f"a master has broker id 0, not {self.broker_id}")

    @property
    def exposure(self) -> Exposure:
        return Exposure(authenticates=self.access.is_on, insecure_network=self.insecure_network)

    @property
    def listener(self) -> ListenerSettings:
        """What the listening side is given. Raises ConfigError."""
        return ListenerSettings.of(self)

    @property
    def tls_to_nameservers(self) -> TlsSettings | None:
        if not self.nameserver_tls:
            return None
        return TlsSettings(
            ca_file=self.nameserver_tls_ca_file,
            certificate_file=self.tls_certificate_file,
            key_file=self.tls_key_file,
            check_hostname=self.nameserver_tls_check_hostname,
        )
