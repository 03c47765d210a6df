"""The broker: one loop, one store, and everything that answers requests from it.

    async with Broker(settings, folder) as broker:      # opens the store, listens, registers
        print(broker.address)

It has one role at a time, and a ``Tenure`` with everything that the role needs; ``dispatching`` brings requests to
their functions, ``request_table`` says which these are, ``wiring`` builds the parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Self

from pyromq.broker.base.access import OPEN, Access
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity, advertised_host, listened_on, resolved
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.dispatching.dispatcher import RequestDispatcher
from pyromq.broker.grpc.front import GrpcFront
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.lifecycle import Lifecycle
from pyromq.broker.measuring.health import serving_health
from pyromq.broker.roles import RoleChanges
from pyromq.broker.tenure import Ground, Tenure
from pyromq.broker.tenures import Tenures
from pyromq.broker.wiring import Parts
from pyromq.clock import Clock, SystemClock
from pyromq.compiled_core import DESCRIPTION
from pyromq.filters import load_parser
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.process_table import LOOP_LAG
from pyromq.metrics.samples import Family, Histogram, ServerSamples
from pyromq.net import Address, Server
from pyromq.net.measuring import server_families
from pyromq.net.stalls import LoopProbe
from pyromq.replication.settings import Role
from pyromq.store.files.disk import Disk, RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery_report import RecoveryProgress
from pyromq.wire.message_id import Host

logger = logging.getLogger(__name__)


class Broker:
    """A broker between ``start`` and ``stop``."""

    def __init__(
        self,
        settings: BrokerSettings,
        folder: Path,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        rng: Random | None = None,
        new_server: Callable[..., Server] = Server,
        lease: Lease | None = None,
    ) -> None:
        self.settings = replace(settings)  # a copy, which may change while it runs
        self._phase = Lifecycle.NEW
        self._folder = folder
        self._clock = clock if isinstance(clock, SteadyClock) else SteadyClock(clock or SystemClock())
        self._environment = Environment(
            settings=self.settings,
            clock=self._clock,
            disk=disk or RealDisk(),
            rng=rng or Random(),
            lease=lease or (Lease() if settings.replication.managed else None),
        )
        self._roles = RoleChanges(self, self._environment)
        self.dispatcher = RequestDispatcher(self._clock)  # where requests go, from every front door
        self._new_server = new_server
        self._server: Server | None = None  # from LISTENING on
        self._tenures: Tenures | None = None  # likewise
        self._probe: LoopProbe | None = None  # from SERVING on
        self._grpc = GrpcFront(self._front_ground())  # listens from SERVING on, unless it is switched off
        self._recovery = RecoveryProgress()
        self._lag = Histogram(LOOP_LAG.buckets)  # how late timers of the loop are, in seconds
        self._stopping = asyncio.Lock()  # held while it stops: a second stop waits for the first

    @property
    def address(self) -> Address:
        """Address at which clients reach the broker."""
        assert self._server is not None, "the broker has not been started"
        return self._server.addresses[0]

    def _front_ground(self) -> FrontGround:
        return FrontGround(
            settings=self.settings,
            clock=self._clock,
            dispatcher=self.dispatcher,
            current_tenure=lambda: self._tenure,
            address=Address(self.settings.host, 0),
        )

    @property
    def grpc_address(self) -> Address | None:
        """Where clients of RocketMQ 5 reach it; None when it serves no gRPC."""
        return self._grpc.address

    @property
    def state(self) -> Lifecycle:
        if self._phase is Lifecycle.SERVING and self._tenure is None:
            return Lifecycle.LISTENING
        return self._phase

    @property
    def _tenure(self) -> Tenure | None:
        """None before it serves, and while its role changes."""
        return self._tenures.current if self._tenures is not None else None

    @property
    def tenure(self) -> Tenure:
        """The parts, threads and tasks of its role."""
        tenure = self._tenure
        assert tenure is not None, "the broker has not been started, or its role changes"
        return tenure

    @property
    def access(self) -> Access:
        """Who may do what; open to everybody unless the settings say otherwise."""
        return self._tenure.access if self._tenure is not None else OPEN

    @property
    def parts(self) -> Parts:
        return self.tenure.parts

    @property
    def store(self) -> MessageStore:
        return self.parts.write_path.store

    # --- how it is ---

    def startup(self) -> Startup:
        """Whether it has started; from any thread, also while the loop is busy with recovery."""
        if self.state in (Lifecycle.NEW, Lifecycle.LISTENING):
            return Startup(False, f"the broker is starting: {self._recovery.text}")
        return Startup(True, f"the broker: {self.state.value}")

    def health(self) -> HealthReport:
        """Whether it is ready, and what is wrong with it; on the loop."""
        if self.state is not Lifecycle.SERVING:
            return HealthReport((f"the broker is {self.state.name.lower()}: {self.state.value}",))
        return serving_health(self.parts, self.settings)

    @property
    def common_labels(self) -> dict[str, str]:
        """Labels added to every metric of this broker."""
        own = {"cluster": self.settings.cluster, "node_type": "broker", "node_id": self.settings.name}
        return {**self.settings.metrics.label_values, **own}

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        """The metrics of this moment, in steps; none before it serves, or after."""
        if self.state is not Lifecycle.SERVING or self._server is None:
            return []
        if found := (yield from self.tenure.collect()):
            found += [*server_families("broker", self._server), Family(LOOP_LAG, [((), self._lag.now())])]
        return [ServerSamples(self.common_labels, found)] if found else []

    def ignore_late_timers(self) -> None:
        """Where time is virtual: that a timer comes late by the real clock says nothing of stalls."""
        if self._probe is not None:
            self._probe.stop()

    # --- life ---

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, open and recover the store, register; raises StoreInUseError and other StoreErrors, OSError."""
        assert self.state is Lifecycle.NEW, f"a broker starts once, this one is {self.state.name}"
        settings = self.settings
        advertised, tls = advertised_host(settings), settings.tls_to_nameservers
        ip, nameserver_tls = await resolved(advertised), tls.context() if tls else None
        where, new = listened_on(settings), self._new_server
        self._server = settings.listener.server(self.dispatcher, where, clock=self._clock, new=new)
        await self._server.start()  # first: the port is part of message ids. Nothing is read before the store is open.
        self._phase = Lifecycle.LISTENING
        port = self.address.port
        ground = Ground(
            environment=self._environment,
            folder=self._folder,
            identity=Identity(Address(advertised, port), Host(ip.packed, port)),
            nameserver_tls=nameserver_tls,
            dispatcher=self.dispatcher,
            roles=self._roles,
            stalls=self._server.stalls,
        )
        self._tenures = Tenures(ground, self._server, self._recovery)
        self.dispatcher.turns.stalls = self._server.stalls
        try:
            self._tenures.open_first()
        except BaseException:  # what has started must not outlive a start that failed; raised again
            self._phase = Lifecycle.STOPPED
            await self._server.stop()
            raise
        self._phase = Lifecycle.SERVING
        try:
            await self.tenure.start(port)
            await self._grpc.start(self._folder)
        except BaseException:  # the port for replicas is taken, perhaps; raised again
            await self.stop()
            raise
        self._probe = LoopProbe(self._server.stalls)
        self._probe.on_look = self._lag.observe
        self._probe.start()
        if settings.property_filter:
            self.tenure.workers.start_maintenance(load_parser)
        facts = (settings.name, ground.identity.address, self._folder, DESCRIPTION)
        logger.info("broker started: name=%s address=%s store=%s core=%s", *facts)

    async def leave_routes(self) -> None:
        """Producers are sent to other brokers from now on, as soon as they ask for routes; all are served as before."""
        await self.parts.services.registrar.leave_routes()

    async def stop(self) -> None:
        """Answer what is under way, leave the name servers, seal the store; nothing happens when it does not run."""
        await self._roles.close()
        async with self._stopping:
            if self._server is None or self.state in (Lifecycle.NEW, Lifecycle.STOPPED):
                return
            self._phase = Lifecycle.STOPPING
            self.ignore_late_timers()
            tenure = self._tenure
            try:
                if tenure is not None:
                    await tenure.finish()
                await self._grpc.stop()
                await self._server.stop()
            finally:
                if tenure is not None:
                    tenure.workers.shutdown()
            if tenure is not None:
                tenure.close()
            self._phase = Lifecycle.STOPPED
        logger.info("broker stopped: name=%s", self.settings.name)

    # --- roles ---

    async def change_role(self, role: Role, broker_id: int, *, while_closed: Callable[[], None] | None = None) -> None:
        """Become a master or a replica, on the same folder and port; raises ConfigError, StoreError, OSError.

        What is under way is answered, the store is closed and opened again in the new role: what it recovers, rebuilds
        and delivers is what any broker does at its start. ``while_closed`` may change its files in between. Clients are
        disconnected, and come back. A change that fails ends in the role that there was before, or in a broker that
        has stopped. Who may be master is decided elsewhere: nothing here keeps two brokers from being it.
        """
        async with self._stopping:
            assert self.state is Lifecycle.SERVING and self._tenures is not None, f"the broker is {self.state.name}"
            try:
                await self._tenures.change(role, broker_id, while_closed)
            finally:
                if self._tenures.current is None:
                    self._phase = Lifecycle.STOPPED
                    self.ignore_late_timers()
