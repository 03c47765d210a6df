"""The replication of one broker: a leader, or a follower and its metadata, or neither."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.lease import LeaseState
from pyromq.broker.commit.replica_stage import Copies, NoReplicas, ReplicaStage
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.replicating.master_calls import TAKES_NAMES, WANTS_PROOF, MasterCalls
from pyromq.broker.replicating.members import ReplicaMembers
from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.broker.replicating.reporter import LeaseFollowing
from pyromq.broker.state.tables import Tables
from pyromq.net.address import Address
from pyromq.replication.follower import Follower, Master
from pyromq.replication.leader import Leader
from pyromq.replication.proofs import Challenges
from pyromq.replication.replicas import Replicas
from pyromq.replication.settings import Role
from pyromq.security import handover
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.tables.owners import OwnerTable
from pyromq.wire.json import bodies
from pyromq.wire.json.membership import BrokerStatus, MemberReport, MemberRole

_ASK_S: Final = 3.0


@lru_cache(maxsize=64)
def _is_unspecified(host: str) -> bool:
    """Whether it stands for all addresses of a machine; agents ask several times a second."""
    return ip_address(host).is_unspecified


class KnownMaster:
    """Where the master is, as settings or name servers say."""

    def __init__(self, address: str, replication_address: str) -> None:
        self._given = address, replication_address
        self._reported = "", ""

    def told(self, address: str | None, replication_address: str | None) -> None:
        """By a name server."""
        if address or replication_address:
            self._reported = address or "", replication_address or ""

    @property
    def address(self) -> str:
        """Its port for clients; empty when it is not known."""
        return self._given[0] or self._reported[0]

    @property
    def replication_address(self) -> str:
        """Its port for replicas: as given, as reported, or the one behind its port for clients."""
        given, known = self._given[1], self._reported[1]
        if given or (known and not self._given[0]):
            return given or known
        if not self.address:
            return ""
        address = Address.parse(self.address)
        return str(Address(address.host, address.port + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """Exactly what the role needs is there."""

    environment: Environment
    store: MessageStore
    tables: Tables
    owners: OwnerTable
    stage: ReplicaStage | NoReplicas
    leader: Leader | None = None
    follower: Follower | None = None
    metadata: MetadataSync | None = None
    master: MasterCalls | None = None
    known_master: KnownMaster | None = None
    members: ReplicaMembers | None = None  # of a master under a failover agent
    lease_following: LeaseFollowing | None = None  # of a replica under one

    @property
    def role(self) -> Role:
        return self.environment.settings.replication.role

    async def start(self, broker_port: int) -> None:
        """Listen for replicas, if this is a master that has some. Raises OSError."""
        if self.leader is not None:
            settings = self.environment.settings
            port = settings.replication.port or (broker_port + 1 if settings.port else 0)
            await self.leader.start(port)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What a replica does by itself."""
        if self.follower is None or self.metadata is None:
            return {}
        tasks = {"broker-follow": self.follower.run(), "broker-metadata": self.metadata.run()}
        if self.lease_following is not None:
            tasks["broker-report"] = self.lease_following.run(self.follower, self.metadata)
        return tasks

    async def stop(self) -> None:
        lease = self.environment.lease
        if self.leader is not None:
            await self.leader.stop(send_all=lease is None or lease.is_open)
        if self.master is not None:
            await self.master.close()

    def durable(self) -> None:
        """More of the log is on disk."""
        if self.leader is not None:
            self.leader.flushed()
        if self.follower is not None:
            self.follower.flushed()

    def tick(self) -> None:
        """Measure replicas and reconnect; called every second."""
        if self.leader is not None:
            self.leader.tick()
        if self.follower is not None:
            self.follower.tick()

    def take_report(self, report: MemberReport, host: str) -> None:
        """Note which connection is which member; what waited for this member to be known is acknowledged at once."""
        if self.members is not None:
            self.members.reported(report, host)
            self.stage.release_confirmed()

    def has_masters_users(self) -> bool:
        """Whether the users of this broker are those of its master."""
        return self.metadata is not None and self.metadata.has_masters_users

    # --- for tools ---

    @property
    def confirmed(self) -> int:
        """Confirmed end of the log: on a master, what enough copies have; on a replica, what is on its disk."""
        if self.leader is None:
            return self.store.flushed_position
        return self.leader.replicas.confirmed(self.leader.end)

    @property
    def metadata_version(self) -> str:
        """Equal at master and replica when the replica has the master's topics and groups."""
        tables = self.tables
        versions = tables.topics.table.version, tables.groups.table.version
        return "-".join(f"{each.timestamp}.{each.counter}" for each in versions)

    @property
    def metadata_number(self) -> int:
        """Grows with every change of topics, groups, users and policies; a replica has its master's."""
        tables, access = self.tables, self.environment.access
        inner = self.environment.settings.access.inner
        users = access.guard.book.changes if isinstance(access, GuardedAccess) and inner is not None else 0
        return int(tables.topics.table.version.counter + tables.groups.table.version.counter + users)

    def advertised_address(self, broker_host: str) -> str:
        """Where replicas connect: the advertised host, or the one listened on; all of them means the broker's own.

        Empty while nothing listens.
        """
        if self.leader is None or not self.leader.is_listening:
            return ""
        found, host = self.leader.address, self.environment.settings.replication.advertised_host
        if not host:
            host = broker_host if _is_unspecified(found.host) else found.host
        return str(Address(host, found.port))

    def status(self, address: str) -> BrokerStatus:
        """Status of this broker as failover agents see it."""
        settings, lease, store = self.environment.settings, self.environment.lease, self.store
        state = lease.state if lease is not None else LeaseState()
        follower = self.follower
        return BrokerStatus(
            address=address,
            name=settings.name,
            cluster=settings.cluster,
            role=MemberRole.REPLICA if follower is not None else MemberRole.MASTER,
            number=state.number,
            log_number=state.log_number,
            epochs=state.epochs,
            end=store.end_position,
            flushed=store.flushed_position,
            metadata=self.metadata_number,
            managed=lease is not None,
            granted_s=lease.left_s if lease is not None else 0.0,
            acknowledged=lease.acknowledged if lease is not None else 0,
            required=lease.required if lease is not None else (),
            waits=self.stage.waits,
            log_damaged=bool(store.health.damage),
            master=state.master,
            replicas=self.members.statuses() if self.members is not None else (),
            following=follower.state.name if follower is not None else "",
            reason=follower.reason if follower is not None else store.health.damage,
            replication_address=self.advertised_address(Address.parse(address).host),
            members=state.members,
            renewals=lease.renewals if lease is not None else 0,
            waiting=lease.waiting if lease is not None else "",
            nameservers=settings.nameservers,
            is_new=state.is_new,
            promised=state.is_promised,
            failing=self._failing,
        )

    @property
    def _failing(self) -> str:
        """Why nothing that is sent here can be acknowledged; empty when it can."""
        lease, health = self.environment.lease, self.store.health
        if not health.writable:
            return str(health.error())
        return lease.failing if lease is not None else ""

    @property
    def users_version(self) -> str:
        """Equal at master and replica when the replica has the master's users; empty without inner credentials."""
        access, inner = self.environment.access, self.environment.settings.access.inner
        if not isinstance(access, GuardedAccess) or inner is None:
            return ""
        return handover.version_of(handover.Texts(access.guard.book.text(), self.owners.text()), inner)

    def runtime(self) -> dict[str, object]:
        """Facts about replication, in the names of run-time information."""
        facts: dict[str, object] = {
            "replicationRole": self.role.value,
            "replicationConfirmed": self.confirmed,
            "replicationFlushed": self.store.flushed_position,
            "replicationMetadataVersion": self.metadata_version,
        }
        if version := self.users_version:
            facts["replicationUsersVersion"] = version
        if (lease := self.environment.lease) is not None:
            facts["failoverLease"] = lease.state.number
            facts["failoverGrantedMs"] = round(lease.left_s * 1_000)
            facts["failoverCutMessages"] = lease.cut_messages
            facts["failoverWaiting"] = lease.waiting
            if lease.is_open:
                facts["failoverAway"] = " ".join(f"{each}={since_ms}" for each, since_ms in sorted(lease.away.items()))
        if self.leader is not None:
            facts["replicationAddress"] = self.leader.address if self.leader.is_listening else ""
            facts[TAKES_NAMES] = True
            if self.leader.challenges is not None:
                facts[WANTS_PROOF] = True
            facts["replicationInSync"] = len(self.leader.replicas.in_sync(self.leader.end))
        if isinstance(self.stage, ReplicaStage):
            facts["replicationWaitingSends"] = self.stage.waiting
            facts["replicationLateSends"] = self.stage.late
            facts["replicationUnconfirmedSends"] = self.stage.alone
        if self.follower is not None and self.metadata is not None:
            facts["replicationState"] = self.follower.state.name
            facts["replicationReason"] = self.follower.reason
            facts["replicationMetadataRounds"] = self.metadata.rounds
            facts["replicationMetadataLogEnd"] = self.metadata.log_end
            facts["replicationMetadataTroubles"] = "; ".join(
                f"{name}: {reason}" for name, reason in self.metadata.troubles.items()
            )
        return facts

    def state(self) -> bodies.ReplicationState:
        """Replication state in RocketMQ's form."""
        end = self.store.end_position
        if self.follower is not None:
            master = self.known_master.replication_address if self.known_master else ""
            replica = bodies.ReplicaState(
                master_addr=master, max_offset=end, master_flush_offset=self.store.flushed_position
            )
            return bodies.ReplicationState(master=False, ha_client_runtime_info=replica)
        if self.leader is None:
            return bodies.ReplicationState(master_commit_log_max_offset=end)
        leader = self.leader
        connections = tuple(
            bodies.ReplicaConnectionState(
                addr=each.name,
                slave_ack_offset=max(0, each.position),
                diff=end - max(0, each.position),
                in_sync=leader.replicas.is_in_sync(each, leader.end),
                transferred_byte_in_second=0,
                transfer_from_where=each.sent,
            )
            for each in leader.replicas
        )
        return bodies.ReplicationState(
            master_commit_log_max_offset=end,
            in_sync_slave_nums=len(leader.replicas.in_sync(leader.end)),
            ha_connection_info=connections,
        )


class ReplicationWiring:
    """Builds the replication of a broker from what is there before it. Call it inside a running loop."""

    def __init__(self, environment: Environment, on_open: Callable[[], None]) -> None:
        """``on_open`` runs when a master under a lease may be read."""
        self._environment = environment
        settings, lease = environment.settings.replication, environment.lease
        self._replicas = Replicas(settings)
        self._members: ReplicaMembers | None = None
        self.copies: Copies | None = None  # what the write path of a master has to know
        if settings.role.has_port:
            self.copies = Copies(replicas=self._replicas)
            if lease is not None:
                members = self._members = ReplicaMembers(self._replicas, lease, environment.clock)
                self.copies = Copies(replicas=self._replicas, required=members.required_position, on_open=on_open)

    def of_a_master(self, write_path: WritePath, tables: Tables, owners: OwnerTable) -> Replication:
        environment = self._environment
        settings, clock, stage = environment.settings.replication, environment.clock, write_path.replicas
        if not settings.role.has_port:
            return Replication(
                environment=environment, store=write_path.store, tables=tables, owners=owners, stage=stage
            )
        challenges = Challenges(clock) if isinstance(environment.access, GuardedAccess) else None
        leader = Leader(
            write_path.store, settings, clock, challenges, replicas=self._replicas, on_report=stage.release_confirmed
        )
        return Replication(
            environment=environment,
            store=write_path.store,
            tables=tables,
            owners=owners,
            stage=stage,
            leader=leader,
            members=self._members,
        )

    def of_a_replica(
        self,
        write_path: WritePath,
        tables: Tables,
        owners: OwnerTable,
        calls: MasterCalls,
        register: Callable[[], Awaitable[None]],
        saver: Executor,
        address: str,
        on_delay_offsets: Callable[[DelayOffsets], None],
    ) -> Replication:
        """``register`` asks name servers for the master, by registering with them; ``address`` is this broker's."""
        environment, store = self._environment, write_path.store
        settings = environment.settings.replication
        known = KnownMaster(settings.master_address, settings.master_replication_address)

        async def find_master() -> Master | None:
            if environment.settings.nameservers:
                with contextlib.suppress(TimeoutError):  # one that is silent must not keep us from a known master
                    async with asyncio.timeout(_ASK_S):
                        await register()
            if not known.replication_address:
                return None
            if known.address:
                await calls.at(known.address)
            return Master(Address.parse(known.replication_address), calls.log, calls.prove)

        lease, by_lease = environment.lease, None
        if lease is not None:
            by_lease = LeaseFollowing(lease, store, calls, address)
        follower = Follower(
            store,
            settings,
            environment.clock,
            environment.rng,
            find_master=by_lease.find_master if by_lease is not None else find_master,
            on_copied=lambda queues: write_path.disk.take_copied(Touched(queues)),
            broker_id=environment.settings.broker_id,
        )
        metadata = MetadataSync(environment, store, tables, owners, follower, calls, saver, on_delay_offsets)
        return Replication(
            environment=environment,
            store=store,
            tables=tables,
            owners=owners,
            stage=write_path.replicas,
            follower=follower,
            metadata=metadata,
            master=calls,
            known_master=known,
            lease_following=by_lease,
        )
