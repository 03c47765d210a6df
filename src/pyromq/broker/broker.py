"""The broker: one loop, one store, and everything that answers requests from it.

    async with Broker(settings, folder) as broker:      # opens the store, listens, registers
        print(broker.address)

``wiring`` builds the parts, ``request_table`` says which function answers what; here are their life, and the way of a
request to its function.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from enum import Enum
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from random import Random
from ssl import SSLContext
from typing import Any, Self

from pyromq.broker.base.access import OPEN, Access, GuardedAccess
from pyromq.broker.base.advertised import advertised_host, resolved
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.long_responses import LongResponses, Steps
from pyromq.broker.base.refusals import RefusedError, refusal_of, too_large
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.responses import (
    BODY_BYTES_MAX,
    Deferred,
    Immediate,
    Response,
    send_failure,
    send_refusal,
    send_response,
)
from pyromq.broker.base.session import Session
from pyromq.broker.base.settings import VIP_PORT_DISTANCE, BrokerSettings
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.base.workers import Workers
from pyromq.broker.delays.timer_copy import make_timer_files
from pyromq.broker.measuring.collector import BrokerCollector
from pyromq.broker.measuring.health import serving_health
from pyromq.broker.replicating.replica_refusals import of_a_leased_master, of_a_replica, without_pulls
from pyromq.broker.request_table import ANSWERED_AFTER_REGISTRATION, QUICK, UNDELAYED, Handlers
from pyromq.broker.roles import RoleChanges
from pyromq.broker.sending.closed_sends import closed_to_sends
from pyromq.broker.wiring import Parts, Wiring
from pyromq.clock import Clock, SystemClock
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.errors import MQError, StoreError
from pyromq.filters import load_parser
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.process_table import LOOP_LAG
from pyromq.metrics.samples import Family, Histogram, Part
from pyromq.net import Address, Connection, Handler, Server
from pyromq.net.handler import Decode, FastPath
from pyromq.net.measuring import server_families
from pyromq.net.stalls import LoopProbe
from pyromq.net.turns import FEW, TURN_S, Turns
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security.identity import Peer
from pyromq.security.opening import FollowedFile, Place, followed_file, open_guard
from pyromq.security.rights import BROKER_RIGHTS, check_rights
from pyromq.store.files.disk import Disk, RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery_report import RecoveryProgress
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.fast.signed_requests import decode_signed
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.message_id import Host
from pyromq.wire.received import Received, decode_received

logger = logging.getLogger(__name__)

_TICK_S = 0.1
_SLOW_TICK_MS = 1_000


class Lifecycle(Enum):
    """How far a broker is. It goes through these in this order; a start that fails ends with ``STOPPED``.

    A change of role goes back to ``LISTENING`` for a moment.
    """

    NEW = "nothing is open yet"
    LISTENING = "the port is taken, but nothing is read from it: the store is not open"
    SERVING = "requests are answered"
    STOPPING = "what is under way is answered, what comes now is refused"
    STOPPED = "everything is closed"


class Broker(Handler):
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
        self.state = Lifecycle.NEW
        self._folder = folder
        self._clock = clock if isinstance(clock, SteadyClock) else SteadyClock(clock or SystemClock())
        self._environment = Environment(
            settings=self.settings,
            clock=self._clock,
            disk=disk or RealDisk(),
            rng=rng or Random(),
            lease=lease or (Lease() if settings.replication.managed else None),
        )
        self._roles = RoleChanges(self, self._environment.lease)
        self._workers = Workers()
        self._new_server = new_server
        self._server: Server | None = None  # from LISTENING on
        self._probe: LoopProbe | None = None  # likewise
        self._parts: Parts | None = None  # from SERVING on
        self._recovery = RecoveryProgress()
        self._lag = Histogram(LOOP_LAG.buckets)  # how late timers of the loop are, in seconds
        self._collector: BrokerCollector | None = None  # from the first collection on
        self._identity: Identity | None = None  # likewise
        self._nameserver_tls: SSLContext | None = None
        self._followed: FollowedFile | None = None  # accounts that others keep
        self._early: dict[Connection, list[Received[Any]]] = {}  # who connected while the store was closed
        self._tasks: list[asyncio.Task[None]] = []
        self._turns = Turns(self._serve, self._clock.monotonic_s, UNDELAYED)
        self._long_responses = LongResponses(self._workers.encode, self._send)
        self._telling: set[asyncio.Task[None]] = set()  # responses that wait until name servers are told
        self._stopping = asyncio.Lock()  # held while it stops: a second stop waits for the first
        # of the parts, for every request
        self._immediate: dict[int, Immediate] = {}
        self._deferred: dict[int, Deferred] = {}
        self._quick: dict[int, Deferred] = {}  # of these, requests after which nothing looks at the clock
        self._commit_early: Callable[[], None] = lambda: None
        self._times = RequestTimes()
        # by the monotonic clock
        self._slow_ticked_ms = 0
        self._is_closed = False  # to sends, until ``sends_from_ms``
        self._offsets_saved_ms = 0

    @property
    def address(self) -> Address:
        """Where clients reach it."""
        assert self._server is not None, "the broker has not been started"
        return self._server.addresses[0]

    @property
    def disk(self) -> Disk:
        return self._environment.disk

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def access(self) -> Access:
        """Who may do what; open to everybody unless the settings say otherwise."""
        return self._environment.access

    @property
    def parts(self) -> Parts:
        assert self._parts is not None, "the broker has not been started"
        return self._parts

    @property
    def store(self) -> MessageStore:
        return self.parts.write_path.store

    # --- how it is ---

    def startup(self) -> Startup:
        """May be asked from any thread, also while the loop is busy with recovery."""
        if self.state in (Lifecycle.NEW, Lifecycle.LISTENING):
            return Startup(False, f"the broker is starting: {self._recovery.text}")
        return Startup(True, f"the broker: {self.state.value}")

    def health(self) -> HealthReport:
        """On the loop."""
        if self.state is not Lifecycle.SERVING or self._parts is None:
            return HealthReport((f"the broker is {self.state.name.lower()}: {self.state.value}",))
        return serving_health(self._parts, self.settings)

    @property
    def common_labels(self) -> dict[str, str]:
        """Of every metric."""
        settings = self.settings
        labels = {"cluster": settings.cluster, "node_type": "broker", "node_id": settings.name}
        return {**settings.metrics.label_values, **labels}

    def collect(self) -> Generator[None, None, list[Part]]:
        """The metrics of this moment, in steps; none before it serves, or after."""
        if self.state is not Lifecycle.SERVING or self._parts is None or self._server is None:
            return []
        if self._collector is None:
            waiting = partial(len, self._long_responses)
            self._collector = BrokerCollector(self._parts, self.settings, self._clock, self._environment.disk, waiting)
        server, steps = self._server, self._collector.collect()
        while True:
            if self.state is not Lifecycle.SERVING:  # it stopped in between: its files are closed
                return []
            try:
                next(steps)
            except StopIteration as end:
                found: list[Family] = end.value
                break
            yield
        found += [*server_families("broker", server), Family(LOOP_LAG, [((), self._lag.now())])]
        return [Part(self.common_labels, found)]

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
        ip = await resolved(advertised)
        nameserver_tls = tls.context() if tls else None
        self._server = settings.listener.server(self, _addresses(settings), clock=self._clock, new=self._new_server)
        await self._server.start()  # first: the port is part of message ids. Nothing is read before the store is open.
        self.state = Lifecycle.LISTENING
        port = self.address.port
        identity = self._identity = Identity(Address(advertised, port), Host(ip.packed, port))
        self._nameserver_tls = nameserver_tls
        try:
            self._build(self._open_store(), identity, nameserver_tls)
        except BaseException:  # what has started must not outlive a start that failed; raised again
            self.state = Lifecycle.STOPPED
            await self._server.stop()
            raise
        try:
            await self._begin(self.parts)
        except BaseException:  # likewise: the port for replicas is taken, perhaps
            await self.stop()
            raise
        self._probe = LoopProbe(self._server.stalls)
        self._probe.on_look = self._lag.observe
        self._probe.start()
        if settings.property_filter:
            self._workers.start_maintenance(load_parser)
        where = (settings.name, identity.address, self._folder)
        logger.info("broker started: name=%s address=%s store=%s core=%s", *where, DESCRIPTION)

    async def _begin(self, parts: Parts) -> None:
        """Start what runs by itself, and tell name servers. Raises OSError."""
        registrar, replication = parts.services.registrar, parts.replication
        await replication.start(self.address.port)
        if replication.leader is not None:
            registrar.ha_address = replication.advertised_address(registrar.host)
        self._tasks = [asyncio.create_task(self._tick_forever(), name="broker-tick")]
        if self.settings.nameservers:
            await registrar.register_now()
            self._tasks.append(asyncio.create_task(registrar.run(), name="broker-register"))
        self._tasks += [asyncio.create_task(task, name=name) for name, task in replication.tasks().items()]

    def _open_store(self) -> MessageStore:
        """On any thread: it takes as long as the disk does."""
        assert self._identity is not None
        return MessageStore.open(
            self._folder,
            self.settings.store,
            disk=self._environment.disk,
            clock=self._clock,
            store_host=self._identity.host.encode(),
            progress=self._recovery,
        )

    def _build(self, store: MessageStore, identity: Identity, nameserver_tls: SSLContext | None) -> None:
        """Build the parts on a store, which is closed if that fails; from here on requests are answered."""
        assert self._server is not None
        try:
            self._open_access(store)
            self._roles.load(store)
        except BaseException:  # nobody could be verified, perhaps: the folder must not stay locked; raised again
            store.close()
            raise
        wiring = Wiring(
            environment=self._environment,
            identity=identity,
            store=store,
            workers=self._workers,
            nameserver_tls=nameserver_tls,
            on_requests=lambda connection, requests: self._turns.serve_now(connection, requests),
            stalls=self._server.stalls,
        )
        try:
            parts = wiring.build()
            check_rights(BROKER_RIGHTS, {**parts.handlers.immediate(), **parts.handlers.deferred()}, "broker")
        except BaseException:  # a table is damaged, perhaps: the folder must not stay locked; raised again
            store.close()
            raise
        self._parts = parts
        self._roles.adopt(parts)
        parts.quotas.adopt()
        parts.handlers.config.on_update = self._settings_changed
        self._take_handlers(parts)
        self._turns.stalls = self._server.stalls
        self._commit_early = parts.write_path.group_commit.commit_early
        self._times = parts.stats.counters.requests
        self.state = Lifecycle.SERVING

    def _take_handlers(self, parts: Parts) -> None:
        """Every request goes to its quotas, into the audit log, to its handler; mostly to the handler at once."""
        auditing, quotas, handlers = parts.handlers.auditing, parts.quotas, parts.handlers
        immediate, deferred = handlers.immediate(), handlers.deferred()
        if self._is_replica:
            settings = self.settings.replication
            of_role = partial(of_a_replica, reads=settings.replica_reads, is_managed=settings.managed)
            immediate, deferred = of_role(immediate), of_role(deferred)
        elif self._environment.lease is not None:
            check, curtain = parts.write_path.gate.check_master, parts.replication.curtain
            immediate, deferred = of_a_leased_master(immediate, check), of_a_leased_master(deferred, check)
            if curtain is not None and curtain.is_shut:
                curtain.on_open, deferred = self._settings_changed, without_pulls(deferred, self._clock)
        self._is_closed = self.settings.sends_from_ms > self._clock.now_ms()
        if self._is_closed:
            immediate, deferred = (closed_to_sends(each, self.settings.sends_from_ms) for each in (immediate, deferred))
        self._immediate = quotas.immediate(auditing.immediate(immediate))
        self._deferred = quotas.deferred(auditing.deferred(deferred))
        self._quick = {code: self._deferred[code] for code in QUICK}
        self._open_lanes(handlers)

    def _open_to_sends(self) -> None:
        """Once the time has come."""
        if self._is_closed and self._clock.now_ms() >= self.settings.sends_from_ms:
            self._settings_changed()

    @property
    def _is_replica(self) -> bool:
        return self.settings.replication.role is Role.REPLICA

    def _open_lanes(self, handlers: Handlers) -> None:
        """Each lane stands for one or two functions, and is closed where anything else is called for a request."""
        sends, pulls, access = handlers.sends, handlers.pulls, self.access
        is_known = access is OPEN or (isinstance(access, GuardedAccess) and access.guard.is_by_signature)
        if sends.lane is not None:
            calls = (self._quick[RequestCode.SEND_MESSAGE_V2], self._quick[RequestCode.SEND_BATCH_MESSAGE])
            sends.lane.is_open = calls == (sends.send, sends.send_batch) and is_known
            sends.lane.waiting = self._turns.waiting
            sends.lane.next_lane = pulls.lane
            sends.lane.renew()
        if pulls.lane is not None:
            is_own = self._deferred[RequestCode.PULL_MESSAGE] == pulls.pull
            pulls.lane.is_open = is_own and pulls.is_plain and is_known
            pulls.lane.waiting = self._turns.waiting
            pulls.lane.renew()

    def _settings_changed(self) -> None:
        if self.state is Lifecycle.SERVING and not self._stopping.locked():  # nor while it changes its role
            self.parts.quotas.adopt()
            self._take_handlers(self.parts)

    def _open_access(self, store: MessageStore) -> None:
        """Requests go through the guard first, if the settings say so. Raises ConfigError, CorruptFileError."""
        settings, disk = self.settings, self._environment.disk
        if not settings.access.is_on:
            return
        guard = open_guard(settings.access, Place(settings.cluster, store.layout.config, disk), BROKER_RIGHTS)
        self._followed = followed_file(settings.access, disk, guard.book)
        access = GuardedAccess(guard)
        self._environment = replace(self._environment, access=access)
        self._turns = Turns(partial(self._serve_admitted, access), self._clock.monotonic_s, UNDELAYED)

    def ignore_late_timers(self) -> None:
        """Where time is virtual: that a timer comes late by the real clock says nothing of stalls."""
        if self._probe is not None:
            self._probe.stop()

    async def leave_routes(self) -> None:
        """Producers are sent to other brokers from now on, as soon as they ask for routes; all are served as before."""
        await self.parts.services.registrar.leave_routes()

    async def stop(self) -> None:
        """Answer what is under way, leave the name servers, seal the store; nothing happens when it does not run."""
        await self._roles.close()
        async with self._stopping:
            if self._server is None or self.state in (Lifecycle.NEW, Lifecycle.STOPPED):
                return
            self.state = Lifecycle.STOPPING
            if self._probe is not None:
                self._probe.stop()
            try:
                await self._cancel_tasks()
                if self._parts is not None:
                    await self._finish(self._parts)
                await self._server.stop()
            finally:
                self._workers.shutdown()  # what they do with files of the store must be over before it is closed
            if self._parts is not None:
                self._close_store(self._parts)
            self.state = Lifecycle.STOPPED
        logger.info("broker stopped: name=%s", self.settings.name)

    async def change_role(self, role: Role, broker_id: int, *, while_closed: Callable[[], None] | None = None) -> None:
        """Become a master or a replica, on the same folder and port; raises ConfigError, StoreError, OSError.

        What is under way is answered, the store is closed and opened again in the new role: what it recovers, rebuilds
        and delivers is what any broker does at its start. ``while_closed`` may change its files in between. Clients are
        disconnected, and come back. A change that fails ends in the role that there was before, or in a broker that
        has stopped. Who may be master is decided elsewhere: nothing here keeps two brokers from being it.
        """
        async with self._stopping:
            assert self.state is Lifecycle.SERVING, f"the broker is {self.state.name}"
            assert self._server is not None and self._identity is not None
            replication = replace(self.settings.replication, role=role)
            replace(self.settings, replication=replication, broker_id=broker_id)  # checks it
            before = self.settings.replication, self.settings.broker_id
            await self._close_parts(self.parts)
            try:
                if while_closed is not None:
                    await asyncio.to_thread(while_closed)
                await self._open_as(replication, broker_id)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                logger.error("role not changed: name=%s role=%s reason=%s", self.settings.name, role.value, reason)
                await self._go_back(*before)
                raise
        self._settings_changed()  # what happened while the role changed
        logger.warning("role changed: name=%s role=%s id=%d", self.settings.name, role.value, broker_id)

    async def _close_parts(self, parts: Parts) -> None:
        """The port stays taken, all else is closed; the loop does not wait for disks."""
        assert self._server is not None
        await self._cancel_tasks()
        await self._finish(parts)
        self._immediate = dict.fromkeys(self._immediate, _refuse_in_between)
        self.state, self._parts, self._collector = Lifecycle.LISTENING, None, None
        for connection in self._server.connections:
            connection.close("the broker changes its role")

        def close() -> None:
            self._workers.shutdown()
            self._close_store(parts)

        await asyncio.to_thread(close)

    async def _open_as(self, replication: ReplicationSettings, broker_id: int) -> None:
        """Raises whatever a start does; then nothing is open, as before."""
        assert self._identity is not None
        self.settings.replication, self.settings.broker_id = replication, broker_id
        self._workers = Workers()
        self._long_responses = LongResponses(self._workers.encode, self._send)
        try:
            self._build(await asyncio.to_thread(self._open_store), self._identity, self._nameserver_tls)
            if replication.role.is_master:
                self._set_back_offsets(self.parts)
            await self._begin(self.parts)
        except BaseException:  # a broker without its ticks must not go on serving; raised again
            if self._parts is not None:
                await self._close_parts(self._parts)
            raise
        self._welcome(self.parts)

    def _welcome(self, parts: Parts) -> None:
        """Who connected while the store was closed is served from now on."""
        waiting, self._early = self._early, {}
        for connection, requests in waiting.items():
            if connection.is_open:
                parts.quotas.connected(connection)
                connection.ask_handler()
                if requests:
                    self._turns.take(connection, requests)
                if connection not in self._turns.waiting:  # else after these: what is read next came behind them
                    connection.go_on_reading()

    async def _go_back(self, replication: ReplicationSettings, broker_id: int) -> None:
        try:
            await self._open_as(replication, broker_id)
        except Exception:
            assert self._server is not None
            self.state = Lifecycle.STOPPED
            if self._probe is not None:
                self._probe.stop()
            self._workers.shutdown()
            await self._server.stop()
            logger.exception("broker stopped, it could not go back to its former role: name=%s", self.settings.name)

    def _set_back_offsets(self, parts: Parts) -> None:
        """Groups that were further than what this broker has must not skip what comes next."""

        def end_of(topic: str, queue_id: int) -> int:
            known = parts.write_path.store.reader.range_of(topic, queue_id)
            return known.end if known else 0

        if ahead := parts.tables.progress.bring_back(end_of):
            logger.warning("committed offsets beyond the end of their queues, set back to it: queues=%d", ahead)

    async def _cancel_tasks(self) -> None:
        tasks = [*self._tasks, *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _finish(self, parts: Parts) -> None:
        """Bring what is under way to its end, and take nothing new."""
        group_commit, services = parts.write_path.group_commit, parts.services
        await self._long_responses.close()
        services.delay_runner.halt()
        parts.handlers.assignments.close()
        await services.registrar.close()
        self._deferred = dict.fromkeys(self._deferred, _refuse)  # else the last commit might never come
        self._quick = dict.fromkeys(self._quick, _refuse)
        self._open_lanes(parts.handlers)
        await group_commit.drain()
        while services.sealer.busy:
            services.sealer.advance()
            await asyncio.sleep(0.005)
        if parts.replication.leader is not None:
            group_commit.flush_soon()  # replicas get what is on disk, and shall have all of it
        await group_commit.drain()
        await parts.replication.stop()
        if self._is_replica:
            services.delay_runner.files.close()  # their progress is the master's, and saved
            if self.settings.replication.silent:  # a copy, which RocketMQ may open next
                self._leave_timers(parts)
        else:
            await services.delay_runner.close()

    def _leave_timers(self, parts: Parts) -> None:
        try:
            make_timer_files(parts.write_path.store, self._environment.disk, self._clock.now_ms())
        except (OSError, StoreError) as error:
            logger.error("timer files of the copy not made, PyroMQ alone may open it: reason=%s", error)

    def _close_store(self, parts: Parts) -> None:
        parts.services.offset_keeper.save_now()
        parts.services.table_keeper.save_now()
        parts.handlers.auditing.log.close()
        parts.write_path.store.close()

    # --- requests ---

    def on_connected(self, connection: Connection) -> None:
        remote = connection.remote
        host = Host(ip_address(remote.host).packed, remote.port).encode()
        connection.session = Session(host, Peer(remote.host, connection.peer_name))
        if self._parts is not None:
            self._parts.quotas.connected(connection)
        else:
            self._early[connection] = []

    def fast_path(self, connection: Connection) -> FastPath | None:
        if self._parts is None:
            return None
        sends, pulls = self._parts.handlers.sends.lane, self._parts.handlers.pulls.lane
        if core is None:
            return None  # a connection that pulls is given its fast path then
        if sends is None or not sends.serves(connection):
            return pulls.take if pulls is not None else None
        return sends.take  # which hands pulls on

    def decoder(self, connection: Connection) -> Decode:
        access = self._environment.access
        is_signed = isinstance(access, GuardedAccess) and access.guard.is_by_signature
        return decode_signed if is_signed and core is None else decode_received  # the core reads fields by itself

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        if self.state is Lifecycle.LISTENING:
            self._early.setdefault(connection, []).extend(requests)
            connection.hold_reading()
        else:
            self._turns.take(connection, requests)

    def _serve(self, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        """A turn of one connection: a few sends, which share their commit, and of the rest what fits into the turn."""
        quick, until_s, times, left = self._quick, 0.0, self._times, FEW
        for request in coming:
            handle = quick.get(request.code)
            try:
                if handle is not None:
                    left -= 1
                    handle(connection, request)
                    if left:
                        continue
                else:
                    if not until_s:
                        is_pull = request.code in UNDELAYED
                        times.began_s = now_s = self._clock.monotonic_s()
                        until_s = now_s + TURN_S if is_pull else self._turns.until_s()
                    self._handle(connection, request)
            except RefusedError as error:
                times.refuse(request, error.code)
                send_refusal(connection, request, error.code, error.remark, error.ext)
            except MQError as error:
                code, remark = refusal_of(error)
                times.refuse(request, code)
                send_refusal(connection, request, code, remark)
            except Exception as error:  # a defect of ours must not take the connection, or other requests, with it
                times.refuse(request, ResponseCode.SYSTEM_ERROR)
                logger.exception("request failed: code=%d peer=%s", request.code, connection.remote_text)
                send_failure(connection, request, error)
            if not left:
                left, until_s = FEW, self._turns.until_s()
            if until_s:
                now_s = self._clock.monotonic_s()
                if handle is None:
                    times.done(request.code, now_s)
                if now_s >= until_s:
                    self._commit_early()
                    return True
        self._commit_early()
        return False

    def _handle(self, connection: Connection, request: Received[Any]) -> None:
        if handle := self._deferred.get(request.code):
            handle(connection, request)
        elif response := self._immediate.get(request.code):
            if len(request.body) > BODY_BYTES_MAX:
                raise too_large(request)
            self._respond(connection, request, response(connection, request))
        else:
            text = f" request type {request.code} not supported"
            self._times.refuse(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            send_refusal(connection, request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)

    def _serve_admitted(self, access: GuardedAccess, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        """What ``_serve`` does, for those who may."""
        return self._serve(connection, _admitted(access, connection, coming, self._times))

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        access, request = self._environment.access, error.received
        if isinstance(access, GuardedAccess) and request is not None:
            try:
                access.principal_of(connection, request)
            except MQError as refusal:  # strangers are not told what a request should look like
                send_refusal(connection, request, *refusal_of(refusal))
                self._turns.spent(connection)
                return
        super().on_bad_header(connection, error)
        self._turns.spent(connection)

    def _respond(self, connection: Connection, request: Received[Any], response: Response | Steps) -> None:
        if isinstance(response, Generator):
            self._long_responses.begin(connection, request, response)
        else:
            self._send(connection, request, response)

    def _send(self, connection: Connection, request: Received[Any], response: Response) -> None:
        if request.code not in ANSWERED_AFTER_REGISTRATION or not self.settings.nameservers:
            send_response(connection, request, response)
            return
        told = self._roles.told(self.parts.services.registrar.told())
        task = asyncio.get_running_loop().create_task(told, name="tell name servers")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        task.add_done_callback(lambda _: send_response(connection, request, response))

    def on_drained(self, connection: Connection) -> None:
        self._turns.go_on(connection)

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self._turns.drop(connection)
        if self._parts is not None:
            self._parts.quotas.disconnected(connection)
            self._parts.waiters.drop_connection(connection)
            self._parts.handlers.clients.disconnected(connection)

    # --- what happens by itself ---

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._tick(self.parts)

    def _tick(self, parts: Parts) -> None:
        now = self._clock.monotonic_ms()
        services = parts.services
        duties = [
            parts.handlers.pulls.respond_due,
            parts.handlers.pulls.recheck_some,
            parts.handlers.clients.notices.tick,
            parts.write_path.group_commit.respond_overdue,
            services.sealer.advance,
            services.table_keeper.tick,
            services.maintenance.tick,
        ]
        if not self._is_replica and self._roles.may_write:
            duties += [services.transaction_checks.tick, services.delay_runner.tick]
        if self._environment.lease is not None:
            duties.append(self._roles.tick)
        if now - self._slow_ticked_ms >= _SLOW_TICK_MS:
            self._slow_ticked_ms = now
            duties += [
                parts.replication.tick,
                parts.stats.snapshot,
                self._drop_silent,
                self._follow_accounts,
                self._write_audit,
                self._open_to_sends,
            ]
        if now - self._offsets_saved_ms >= self.settings.offsets_save_ms:
            self._offsets_saved_ms = now
            duties.append(services.offset_keeper.tick)
        assert self._server is not None
        stalls = self._server.stalls
        for duty in duties:
            began_s = stalls.begin()
            try:
                duty()
            except (MQError, OSError) as error:  # the store has said so already, and says no to senders
                logger.error("periodic work failed: reason=%s", error)
            except Exception:  # a defect of one duty must not keep the others from being done
                logger.exception("periodic work failed")
            stalls.ended(began_s, duty.__qualname__)

    def _write_audit(self) -> None:
        log = self.parts.handlers.auditing.log
        log.tick()
        if log.has_news:
            self._workers.start_maintenance(log.flush)

    def _follow_accounts(self) -> None:
        if self._followed is not None:
            self._followed.refresh()

    def _drop_silent(self) -> None:
        tables = self.parts.tables
        silent, changed = tables.members.drop_silent()
        for connection in silent:
            connection.close("no heartbeat for too long")
        self.parts.handlers.clients.notices.tell(changed)
        tables.filters.tick(tables.members.subscription)


def _admitted(
    access: GuardedAccess, connection: Connection, coming: Iterator[Received[Any]], times: RequestTimes
) -> Iterator[Received[Any]]:
    """The requests whose senders may; the others are refused when their turn comes."""
    for request in coming:
        try:
            access.admit(connection, request)
        except MQError as error:
            code, remark = refusal_of(error)
            times.refuse(request, code, known=False)
            send_refusal(connection, request, code, remark)
        except Exception as error:  # a defect of ours, or of a plug-in, lets nobody in
            times.refuse(request, ResponseCode.SYSTEM_ERROR, known=False)
            logger.exception("request not verified: code=%d peer=%s", request.code, connection.remote_text)
            send_failure(connection, request, error)
        else:
            yield request


def _addresses(settings: BrokerSettings) -> list[Address]:
    """Where it listens."""
    ports = [settings.port]
    if settings.vip_port and settings.port > VIP_PORT_DISTANCE:
        ports.append(settings.port - VIP_PORT_DISTANCE)
    return [Address(settings.host, port) for port in ports]


def _refuse(connection: Connection, request: Received[Any]) -> None:
    send_refusal(connection, request, ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping; use another one")


def _refuse_in_between(connection: Connection, request: Received[Any]) -> None:
    raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker changes its role; try again")
