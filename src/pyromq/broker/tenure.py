"""Tenure: everything that lives as long as a broker has one role.

    open    store opened, parts built, requests answered
    start   replication listens or follows, ticks begin, name servers know
    finish  what is under way is answered, what comes now is refused
    close   threads end, tables are saved, the store is sealed

A change of role finishes and closes one tenure, and opens the next on the same folder and port.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any

from pyromq.broker.base.access import OPEN, Access, GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity
from pyromq.broker.base.long_responses import LongResponses
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.workers import Workers
from pyromq.broker.commit.replica_stage import ReplicaStage
from pyromq.broker.delays.timer_copy import make_timer_files
from pyromq.broker.dispatching.dispatcher import RequestDispatcher
from pyromq.broker.dispatching.layers import Layer
from pyromq.broker.dispatching.plan import Lanes, RequestPlan, plan_requests
from pyromq.broker.duties import Duties, Duty
from pyromq.broker.measuring.collector import BrokerCollector
from pyromq.broker.replicating.replica_refusals import leased_layer, replica_layer, shut_layer
from pyromq.broker.roles import RoleChanges
from pyromq.broker.sending.closed_sends import closed_layer
from pyromq.broker.wiring import Parts, Wiring
from pyromq.errors import StoreError
from pyromq.metrics.samples import Family
from pyromq.net import Connection
from pyromq.net.handler import FastPath
from pyromq.net.stalls import StallWatch
from pyromq.replication.settings import Role
from pyromq.security.opening import AccessLocation, followed_file, open_guard
from pyromq.security.rights import BROKER_RIGHTS, check_rights
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery_report import RecoveryProgress

logger = logging.getLogger(__name__)

_SEALED_AGAIN_S = 0.005  # a seal that is under way is looked at so often


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What stays when the role changes."""

    environment: Environment
    folder: Path
    identity: Identity
    nameserver_tls: SSLContext | None
    dispatcher: RequestDispatcher
    roles: RoleChanges
    stalls: StallWatch

    def open_store(self, progress: RecoveryProgress) -> MessageStore:
        """On any thread: it takes as long as the disk does. Raises StoreError, OSError."""
        return MessageStore.open(
            self.folder,
            self.environment.settings.store,
            disk=self.environment.disk,
            clock=self.environment.clock,
            store_host=self.identity.host.encode(),
            progress=progress,
        )


class Tenure:
    """Serves requests from its making on. Raises StoreError, ConfigError, OSError; then the store is closed."""

    def __init__(self, ground: Ground, store: MessageStore) -> None:
        self._roles = ground.roles
        self._dispatcher = ground.dispatcher
        self._slow_duties: list[Duty] = [self._open_to_sends]
        self.workers = Workers()
        self.long_responses = LongResponses(self.workers.encode, ground.dispatcher.respond)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed_to_sends = False  # until ``sends_from_ms``
        self._is_ending = False
        try:
            self._environment = self._with_access(ground.environment, store)
            ground.roles.load(store, str(ground.identity.address))
            self.parts = self._build(ground, store)
            self.times: RequestTimes = self.parts.stats.counters.requests
            self.commit_early: Callable[[], None] = self.parts.write_path.group_commit.commit_early
            self._collector = self._new_collector()
            self._duties = self._new_duties(ground)
            ground.roles.adopt(self.parts)
            self.parts.quotas.adopt()
            ground.dispatcher.serve(self, self._plan())
        except BaseException:  # a table is damaged, perhaps: the folder must not stay locked; raised again
            self.workers.shutdown()
            store.close()
            raise

    def _new_collector(self) -> BrokerCollector:
        of = self._environment
        return BrokerCollector(self.parts, of.settings, of.clock, of.disk, partial(len, self.long_responses))

    def _new_duties(self, ground: Ground) -> Duties:
        return Duties(self._environment, self.parts, ground.roles, self.workers, ground.stalls, self._slow_duties)

    def _with_access(self, environment: Environment, store: MessageStore) -> Environment:
        """Requests go through the guard first, if the settings say so. Raises ConfigError, CorruptFileError."""
        settings, disk = environment.settings, environment.disk
        if not settings.access.is_on:
            return environment
        guard = open_guard(settings.access, AccessLocation(settings.cluster, store.layout.config, disk), BROKER_RIGHTS)
        followed = followed_file(settings.access, disk, guard.book)
        if followed is not None:
            self._slow_duties.append(followed.refresh)
        return replace(environment, access=GuardedAccess(guard))

    def _build(self, ground: Ground, store: MessageStore) -> Parts:
        wiring = Wiring(
            environment=self._environment,
            identity=ground.identity,
            store=store,
            workers=self.workers,
            nameserver_tls=ground.nameserver_tls,
            on_requests=ground.dispatcher.turns.serve_now,
            on_change=self.renew_plan,
            stalls=ground.stalls,
        )
        parts = wiring.build()
        check_rights(BROKER_RIGHTS, {**parts.handlers.immediate(), **parts.handlers.deferred()}, "broker")
        return parts

    # --- what answers requests ---

    def renew_plan(self) -> None:
        """Settings have changed, or a gate has opened."""
        if not self._is_ending:
            self.parts.quotas.adopt()
            self._dispatcher.follow(self._plan())

    def _plan(self) -> RequestPlan:
        handlers, access = self.parts.handlers, self.access
        is_known = access is OPEN or (isinstance(access, GuardedAccess) and access.guard.is_by_signature)
        possible = Lanes(is_known, is_known and handlers.pulls.is_plain, access is OPEN)
        return plan_requests(handlers.immediate(), handlers.deferred(), self._layers(), possible)

    def _layers(self) -> list[Layer]:
        """What stands in front of handlers: first the role, then what the broker is closed to, audit, quotas."""
        settings, parts, found = self._environment.settings, self.parts, list[Layer]()
        if settings.replication.role is Role.REPLICA:
            reads, is_managed = settings.replication.replica_reads, settings.replication.managed
            found.append(replica_layer(reads=reads, is_managed=is_managed))
        elif self._environment.lease is not None:
            found.append(leased_layer(parts.write_path.gate.check_master))
            if isinstance(stage := parts.write_path.replicas, ReplicaStage) and stage.watermark.is_shut:
                found.append(shut_layer(self._environment.clock))
        self._is_closed_to_sends = settings.sends_from_ms > self._environment.clock.now_ms()
        if self._is_closed_to_sends:
            found.append(closed_layer(settings.sends_from_ms))
        return [*found, parts.handlers.auditing.layer(), *parts.quotas.layers()]

    def _open_to_sends(self) -> None:
        """Once the time has come."""
        is_over = self._environment.clock.now_ms() >= self._environment.settings.sends_from_ms
        if self._is_closed_to_sends and is_over:
            self.renew_plan()

    # --- for the dispatcher ---

    @property
    def access(self) -> Access:
        return self._environment.access

    def connected(self, connection: Connection) -> None:
        self.parts.quotas.connected(connection)

    def disconnected(self, connection: Connection) -> None:
        self.parts.quotas.disconnected(connection)
        self.parts.waiters.drop_connection(connection)
        self.parts.handlers.watches.watches.drop_connection(connection)
        self.parts.popping.pops.waiting.drop_owner(connection)
        self.parts.handlers.clients.disconnected(connection)

    def fast_path(self, connection: Connection) -> FastPath | None:
        return self.parts.handlers.fast_path(connection)

    def renew_lanes(self, lanes: Lanes, waiting: Container[Connection]) -> None:
        self.parts.handlers.renew_lanes(lanes, waiting)

    def announced(self) -> Coroutine[Any, Any, None] | None:
        if not self._environment.settings.nameservers:
            return None
        return self._roles.told(self.parts.services.registrar.told())

    def replicated(self) -> Coroutine[Any, Any, None] | None:
        return self._roles.replicated()

    def collect(self) -> Generator[None, None, list[Family]]:
        """Its metrics, in steps; none when it ends in between, for its files may be closed then."""
        steps = self._collector.collect()
        while not self._is_ending:
            try:
                next(steps)
            except StopIteration as end:
                found: list[Family] = end.value
                return found
            yield
        return []

    # --- life ---

    def set_back_offsets(self) -> None:
        """Groups that were further than what this broker has must not skip what comes next."""

        def end_of(topic: str, queue_id: int) -> int:
            known = self.parts.write_path.store.reader.range_of(topic, queue_id)
            return known.end if known else 0

        if ahead := self.parts.tables.progress.bring_back(end_of):
            logger.warning("committed offsets beyond the end of their queues, set back to it: queues=%d", ahead)

    async def start(self, port: int) -> None:
        """Start what runs by itself, and tell name servers; ``port`` is the broker's. Raises OSError."""
        registrar, replication = self.parts.services.registrar, self.parts.replication
        await replication.start(port)
        if replication.leader is not None:
            registrar.ha_address = replication.advertised_address(registrar.host)
        self._run(self._duties.run(), "broker-tick")
        if self._environment.settings.nameservers:
            await registrar.register_now()
            self._run(registrar.run(), "broker-register")
        for name, task in replication.tasks().items():
            self._run(task, name)

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    async def cancel_tasks(self) -> None:
        """Nothing happens by itself any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Bring what is under way to its end, and take nothing new."""
        self._is_ending = True
        await self.cancel_tasks()
        await self._dispatcher.finish()
        self.parts.handlers.members.drop_held()
        group_commit, services = self.parts.write_path.group_commit, self.parts.services
        await self.long_responses.close()
        services.delay_runner.halt()
        self.parts.handlers.assignments.close()
        await services.registrar.close()
        self._dispatcher.refuse_late()
        self.parts.handlers.replies.finish()
        self.parts.popping.finish()
        await group_commit.drain()
        while services.sealer.busy:
            services.sealer.advance()
            await asyncio.sleep(_SEALED_AGAIN_S)
        if self.parts.replication.leader is not None:
            self.parts.write_path.disk.flush_soon()  # replicas get what is on disk, and shall have all of it
        await group_commit.drain()
        if self.parts.handlers.sends.lane is not None:
            self.parts.handlers.sends.lane.forget()
        await self.parts.replication.stop()
        if self._environment.settings.replication.role is Role.REPLICA:
            services.delay_runner.files.close()  # their progress is the master's, and saved
            if self._environment.settings.replication.silent:  # a copy, which RocketMQ may open next
                self._leave_timers()
        else:
            await services.delay_runner.close()

    def _leave_timers(self) -> None:
        environment = self._environment
        try:
            make_timer_files(self.parts.write_path.store, environment.disk, environment.clock.now_ms())
        except (OSError, StoreError) as error:
            logger.error("timer files of the copy not made, PyroMQ alone may open it: reason=%s", error)

    def close(self) -> None:
        """Seal the store. On any thread: it takes as long as the disk does."""
        self.workers.shutdown()  # what they do with files of the store must be over before it is closed
        self.parts.services.offset_keeper.save_now()
        self.parts.services.table_keeper.save_now()
        self.parts.popping.keeper.save_now()
        self.parts.handlers.auditing.log.close()
        self.parts.write_path.store.close()
