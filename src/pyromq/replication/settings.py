"""Settings of replication; RocketMQ's names are in docs/how-to/configure-a-broker.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.wire.transfer import SLICE_BYTES_MAX


class Role(Enum):
    """What a broker is among those that share its name."""

    ALONE = "alone"  # it has no replicas and no port for them
    ASYNC_MASTER = "async-master"  # sends are answered when they are stored here; replicas follow
    SYNC_MASTER = "sync-master"  # sends are answered when replicas have them on disk, too
    REPLICA = "replica"  # it follows a master and takes no messages of clients

    @property
    def is_master(self) -> bool:
        return self is not Role.REPLICA

    @property
    def has_port(self) -> bool:
        """Whether replicas can connect to a broker of this role."""
        return self in (Role.ASYNC_MASTER, Role.SYNC_MASTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Who follows whom, how far behind counts as in sync, and how long a send waits for it; RocketMQ's defaults."""

    role: Role = Role.ALONE

    # of a master
    host: str = "127.0.0.1"  # where replicas connect
    port: int = 0  # 0: the port of the broker and one more; picked if that one is
    advertised_host: str = ""  # what replicas are given; when empty the broker's own
    replica_addresses: tuple[str, ...] = ("127.0.0.0/8", "::1/128")  # addresses and networks that may connect
    unproven_addresses: tuple[str, ...] = ()  # who needs no proof (Apache's), with access control
    insecure_network: bool = False  # listen beyond loopback, although what is transferred is neither signed nor secret
    connections_max: int = 16
    in_sync_replicas: int = 2  # copies a sync master waits for, its own among them; fewer than 2 would be none
    min_in_sync_replicas: int = 2  # with ``auto_in_sync_replicas``: so many at least
    auto_in_sync_replicas: bool = False  # wait for as many as are in sync, between the two
    all_in_sync: bool = False  # wait for every replica that is in sync
    gap_bytes_max: int = 256 << 20  # a replica that misses as much is not in sync
    stall_ms_max: int = 2_000  # nor is one that gets no further for so long, though it was sent something
    confirm_timeout_ms: int = 5_000  # then a send is answered FLUSH_SLAVE_TIMEOUT
    slice_bytes: int = 1 << 20  # transferred at once; a replica flushes behind a slice

    # of a replica
    master_address: str = ""  # the master's port for clients; when empty, name servers know it
    master_replication_address: str = ""  # its port for replicas; when empty, name servers know it
    from_last_file: bool = False  # an empty replica begins with the master's last file, not its first
    metadata_interval_ms: int = 3_000  # between two looks at the master's topics, groups and offsets
    silent: bool = False  # the master never hears how far it is, so that it never waits for it
    replica_reads: bool = False  # clients may read here; a master may send them here

    # under a failover agent, which says who is master
    managed: bool = False  # nothing is acknowledged without a grant; ``role`` counts until the first lease
    promoted_role: Role = Role.SYNC_MASTER  # what a replica becomes if the lease does not say what its master was
    replica_id: int = 1  # broker id of a master that becomes a replica; a broker started as replica keeps its own

    # of both
    heartbeat_interval_ms: int = 5_000
    silence_ms_max: int = 20_000  # a connection that is silent for longer is closed

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"replication port {self.port} is outside [0, 65535]")
        if not 1 <= self.slice_bytes <= SLICE_BYTES_MAX:
            raise ConfigError(f"replication.slice_bytes {self.slice_bytes} is outside [1, {SLICE_BYTES_MAX}]")
        positive = ("confirm_timeout_ms", "metadata_interval_ms", "heartbeat_interval_ms", "silence_ms_max")
        for name in (*positive, "connections_max", "gap_bytes_max", "stall_ms_max"):
            if getattr(self, name) < 1:
                raise ConfigError(f"replication.{name} must be at least 1")
        for text in (self.master_address, self.master_replication_address):
            if text:
                Address.parse(text)
        for name in ("replica_addresses", "unproven_addresses"):
            for text in getattr(self, name):
                _network(text, name)
        if self.role.has_port:
            self._check_exposure()
        if self.managed:
            self._check_managed()

    def _check_exposure(self) -> None:
        try:
            is_local = ip_address(self.host).is_loopback
        except ValueError as error:
            raise ConfigError(f"replication.host {self.host!r} is not an IP address") from error
        if not is_local and not self.insecure_network:
            raise ConfigError(
                f"{self.host} can be reached from other machines, and replication is neither signed nor encrypted: who "
                "reaches its port from an allowed address gets every message. Listen on 127.0.0.1 (a tunnel brings "
                "replicas there), or set replication.insecure_network if the network between the brokers is theirs"
            )

    def _check_managed(self) -> None:
        if not self.promoted_role.has_port:
            raise ConfigError("replication.promoted_role is sync-master or async-master")
        if self.role is Role.ALONE:
            raise ConfigError(
                "a broker under a failover agent needs a role: --role sync-master, async-master or replica"
            )
        if self.replica_id < 1:
            raise ConfigError("replication.replica_id must be at least 1: 0 is the master's")
        self._check_exposure()

    def allows(self, host: str) -> bool:
        """Whether a replica may connect from there."""
        return _holds(self.replica_addresses, host)

    def is_proven_by(self, host: str) -> bool:
        """Whether the address of a replica is proof enough, where proofs are wanted."""
        return _holds(self.unproven_addresses, host)

    @property
    def copies_needed(self) -> int:
        """Copies a sync master needs before it acknowledges: 2 at least, or the name would be a lie."""
        return max(2, self.in_sync_replicas)


def _holds(networks: tuple[str, ...], host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in ip_network(text, strict=False) for text in networks)


def _network(text: str, name: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"replication.{name}: {text!r} is neither an address nor a network") from error
