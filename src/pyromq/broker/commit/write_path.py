"""The write path of a broker: the store, and what stands between a request and its response.

SendGate ─▶ GroupCommit ─▶ DiskStage ─▶ ReplicaStage | NoReplicas ─▶ Acknowledger
"""

from __future__ import annotations

from dataclasses import dataclass

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.workers import JobRunner
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.disk_stage import DiskStage
from pyromq.broker.commit.group_commit import GroupCommit
from pyromq.broker.commit.internal_writes import InternalWrites
from pyromq.broker.commit.pressure import Pressure
from pyromq.broker.commit.readers import Readers
from pyromq.broker.commit.replica_stage import AsyncReplicas, Copies, NoReplicas, ReplicaStage
from pyromq.broker.commit.send_gate import OnRequests, SendGate
from pyromq.replication.settings import Role
from pyromq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePath:
    """For handlers that write; those that only read take the store."""

    store: MessageStore
    readers: Readers
    pressure: Pressure
    gate: SendGate
    group_commit: GroupCommit
    disk: DiskStage
    replicas: ReplicaStage | NoReplicas
    internal_writes: InternalWrites


def open_write_path(
    environment: Environment,
    store: MessageStore,
    flusher: JobRunner,
    counters: Counters,
    on_requests: OnRequests,
    copies: Copies | None = None,
) -> WritePath:
    """Make the stages, the last one first. Call it inside a running loop; ``copies`` are a master's."""
    settings, clock, authority = environment.settings, environment.clock, environment.authority
    readers, times = Readers(), counters.requests
    acknowledger = Acknowledger(authority, times, clock)
    pressure = Pressure(store, settings, clock)
    gate = SendGate(pressure, authority, counters, settings, clock, on_requests)
    stage: ReplicaStage | NoReplicas
    if copies is None:
        stage = NoReplicas(acknowledger, readers)
    elif settings.replication.role is not Role.SYNC_MASTER:
        stage = AsyncReplicas(acknowledger, readers, copies.replicas)
    else:
        timeout_ms = settings.replication.confirm_timeout_ms
        stage = ReplicaStage(store, copies, authority, acknowledger, readers, pressure, clock, timeout_ms=timeout_ms)
    flush_ms = settings.sync_flush_timeout_ms
    disk = DiskStage(store, flusher, gate, stage, acknowledger, clock, times, flush_timeout_ms=flush_ms)
    group_commit = GroupCommit(store, disk, acknowledger, clock, times)
    return WritePath(
        store=store,
        readers=readers,
        pressure=pressure,
        gate=gate,
        group_commit=group_commit,
        disk=disk,
        replicas=stage,
        internal_writes=InternalWrites(store, group_commit),
    )
