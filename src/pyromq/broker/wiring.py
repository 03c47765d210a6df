"""How a broker is put together: which part is built from which, in which order.

    environment, identity, store ─▶ tables ─▶ write path ─▶ services ─▶ handlers ─▶ Parts

Nothing here acts: ``broker.Broker`` starts the parts, gives them requests and ticks, and stops them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext

from pyromq.broker.admin.access_requests import AccessHandler
from pyromq.broker.admin.assignment_requests import AssignmentHandler
from pyromq.broker.admin.auditing import Auditing
from pyromq.broker.admin.cleaning_requests import CleaningHandler
from pyromq.broker.admin.client_relay import ClientRelay
from pyromq.broker.admin.client_requests import ClientHandler
from pyromq.broker.admin.config_requests import ConfigHandler
from pyromq.broker.admin.delay_requests import DelayHandler
from pyromq.broker.admin.group_requests import GroupHandler
from pyromq.broker.admin.lookup_requests import LookupHandler
from pyromq.broker.admin.member_requests import MemberHandler
from pyromq.broker.admin.member_tables import MemberTablesHandler
from pyromq.broker.admin.offset_requests import OffsetHandler
from pyromq.broker.admin.progress_requests import ProgressHandler
from pyromq.broker.admin.quota_gate import QuotaGate
from pyromq.broker.admin.reset_requests import ResetHandler
from pyromq.broker.admin.runtime_requests import RuntimeHandler
from pyromq.broker.admin.store_requests import StoreHandler
from pyromq.broker.admin.topic_requests import TopicHandler
from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity
from pyromq.broker.base.signed_link import SignedLink
from pyromq.broker.base.stats import Stats
from pyromq.broker.base.table_keeper import TableKeeper
from pyromq.broker.base.workers import Workers
from pyromq.broker.commit.sealer import Sealer
from pyromq.broker.commit.send_gate import OnRequests
from pyromq.broker.commit.write_path import WritePath, open_write_path
from pyromq.broker.delays.delay_runner import DelayRunner
from pyromq.broker.delays.delays import Delays
from pyromq.broker.delays.delivered import DeliveredBefore
from pyromq.broker.delays.due_messages import DueMessages
from pyromq.broker.delays.recall import RecallHandler
from pyromq.broker.delays.schedule import Schedule
from pyromq.broker.delays.timers import Timers
from pyromq.broker.popping.keeping import Popping, open_popping
from pyromq.broker.pulling.pull import PullHandler
from pyromq.broker.pulling.pull_waiters import PullWaiters
from pyromq.broker.pulling.queue_watches import WatchHandler
from pyromq.broker.registration import Registrar
from pyromq.broker.replicating.master_calls import MasterCalls
from pyromq.broker.replicating.replication import Replication, ReplicationWiring
from pyromq.broker.request_table import Handlers
from pyromq.broker.sending.reply import ReplyHandler
from pyromq.broker.sending.send import SendHandler
from pyromq.broker.sending.send_back import SendBackHandler
from pyromq.broker.state.tables import Tables, open_tables
from pyromq.broker.state.unread_watch import UnreadWatch
from pyromq.broker.transactions.transaction_checks import TransactionChecks
from pyromq.broker.transactions.transaction_log import TransactionLog
from pyromq.broker.transactions.transactions import TransactionHandler
from pyromq.model.names import TIMER_TOPIC
from pyromq.net import Address, Link, open_connection
from pyromq.net.nameserver_list import NameServerList
from pyromq.net.stalls import StallWatch
from pyromq.replication.repair import LogRepair
from pyromq.replication.settings import Role
from pyromq.security.audit import FOLDER as AUDIT_FOLDER
from pyromq.security.audit import AuditLog
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import QueueRange
from pyromq.store.tables.config_table import ConfigTable
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.tables.owners import OwnerTable
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.store.timers.files import TimerFiles, remove_timer_files
from pyromq.store.timers.metrics import TimerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What works by itself, in ticks of the broker or in tasks."""

    sealer: Sealer
    maintenance: Maintenance
    table_keeper: TableKeeper  # of topics, groups and filters
    offset_keeper: TableKeeper  # of committed offsets, which have their own interval
    registrar: Registrar
    delay_runner: DelayRunner
    transaction_log: TransactionLog
    transaction_checks: TransactionChecks


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a running broker consists of."""

    tables: Tables
    stats: Stats
    waiters: PullWaiters  # pulls that wait for a message
    write_path: WritePath
    services: Services
    handlers: Handlers
    replication: Replication
    quotas: QuotaGate  # in front of the handlers
    popping: Popping


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What is there before the parts are; ``build`` makes them. Call it inside a running loop."""

    environment: Environment
    identity: Identity
    store: MessageStore
    workers: Workers
    nameserver_tls: SSLContext | None
    on_requests: OnRequests
    on_change: Callable[[], None]  # what answers requests has to be planned anew
    stalls: StallWatch

    def build(self) -> Parts:
        """Build the parts of a broker around its store. Raises StoreError, OSError when a table is damaged or cannot be
        written.
        """
        tables = open_tables(self.environment, self.store)
        stats = Stats(self.environment.clock)
        waiters = PullWaiters(self.environment.clock, self.environment.settings.held_pulls_max)
        replicating = ReplicationWiring(self.environment, self.on_change)
        write_path = open_write_path(
            self.environment, self.store, self.workers.flush, stats.counters, self.on_requests, replicating.copies
        )
        owners = OwnerTable.load(self.environment.disk, self.store.layout.root)
        services = self._services(tables, stats, write_path, owners)
        popping = open_popping(self.environment, tables, write_path, self.workers.save, stats.counters)
        handlers = self._handlers(tables, stats, waiters, write_path, services, popping)
        replication = self._replication(replicating, tables, owners, write_path, services)
        if replication.follower is not None:
            replication.follower.repair = LogRepair(self.store, services.maintenance.scrub)
            handlers.pulls.master_is_near = replication.follower.attached.is_set
            services.delay_runner.has_master = replication.follower.attached.is_set
        on_report = replication.take_report if replication.members is not None else None
        handlers.members.take(partial(replication.status, str(self.identity.address)), on_report)
        handlers.member_tables.take(handlers.immediate())
        handlers.access.owners, handlers.access.belong_to_master = owners.text, replication.has_masters_users
        handlers.access.challenges = replication.leader.challenges if replication.leader is not None else None
        handlers.runtime.replication_facts, handlers.runtime.replication_state = replication.runtime, replication.state
        handlers.runtime.scrub_facts = services.maintenance.scrub.facts
        services.maintenance.scrub.holds_reads = self.environment.lease is not None
        tables.topics.on_change = services.registrar.topics_changed
        write_path.readers.join(popping, services.delay_runner, handlers.pulls, handlers.watches)
        if handlers.sends.lane is not None:
            stats.puts.before_look = handlers.sends.lane.count_puts
        return Parts(
            tables=tables,
            stats=stats,
            waiters=waiters,
            write_path=write_path,
            services=services,
            handlers=handlers,
            replication=replication,
            popping=popping,
            quotas=QuotaGate(self.environment, tables, owners, write_path.gate, handlers.pulls, stats.counters),
        )

    def _replication(
        self,
        wiring: ReplicationWiring,
        tables: Tables,
        owners: OwnerTable,
        write_path: WritePath,
        services: Services,
    ) -> Replication:
        if self.environment.settings.replication.role is Role.REPLICA:
            calls = MasterCalls(self._open_link, self.environment.settings.access.inner)
            address = str(self.identity.address)
            replication = wiring.of_a_replica(
                write_path,
                tables,
                owners,
                calls,
                services.registrar.register_now,
                self.workers.save,
                address,
                services.delay_runner.schedule.follow,
            )
            if replication.known_master is not None:
                services.registrar.on_registered = replication.known_master.told
        else:
            replication = wiring.of_a_master(write_path, tables, owners)
        write_path.disk.ship_to(replication)
        return replication

    # --- services ---

    def _services(self, tables: Tables, stats: Stats, write_path: WritePath, owners: OwnerTable) -> Services:
        clock, flush_soon = self.environment.clock, write_path.disk.flush_soon
        sealer = Sealer(self.store, self.workers.seal, flush_soon)
        delay_runner = self._delay_runner(tables, stats, write_path)
        transaction_log = TransactionLog(write_path, tables.progress, clock)
        saved_soon: list[ConfigTable] = [tables.topics.table, tables.groups.table, tables.filters.table, owners]
        return Services(
            sealer=sealer,
            maintenance=Maintenance(
                self.store,
                self.environment.disk,
                clock,
                flush=flush_soon,
                seal=sealer.start,
                elsewhere=self.workers.start_maintenance,
                needed_from=delay_runner.needed_from,  # retention keeps delayed messages that wait
                groups=UnreadWatch(tables, stats.counters),
            ),
            table_keeper=TableKeeper(saved_soon, self.workers.save, clock),
            offset_keeper=TableKeeper([tables.progress.table], self.workers.save, clock, interval_ms=0),
            registrar=self._registrar(tables),
            delay_runner=delay_runner,
            transaction_log=transaction_log,
            transaction_checks=TransactionChecks(self.environment, tables, write_path, transaction_log),
        )

    def _delay_runner(self, tables: Tables, stats: Stats, write_path: WritePath) -> DelayRunner:
        """What lets delayed messages go."""
        store, clock, disk = self.store, self.environment.clock, self.environment.disk
        put, counters = write_path.internal_writes.put, stats.counters
        root = store.layout.root
        due = DueMessages(store, tables.topics, DeliveredBefore(store, clock))
        is_replica = self.environment.settings.replication.role is Role.REPLICA
        if is_replica:  # they were made when this was a master: with the master's note they are made anew
            remove_timer_files(disk, root)
        now_ms = clock.now_ms()
        offsets, metrics = DelayOffsets.load(disk, root, now_ms), TimerMetrics.load(disk, root, now_ms)
        waiting = store.reader.range_of(TIMER_TOPIC, 0) or QueueRange(0, 0)
        files = TimerFiles.open(disk, root, store.settings, store.records, waiting, now_ms)
        runner = DelayRunner(
            store,
            Schedule(store, offsets, due, put, counters, clock),
            Timers(store, files, due, put, counters, clock, metrics),
            offsets,
            files,
            self.workers.save,
            write_path.disk.flush_soon,
            self.environment,
        )
        if is_replica:  # what is due is delivered by the master alone
            runner.halt()
        return runner

    def _registrar(self, tables: Tables) -> Registrar:
        settings, address = self.environment.settings, self.identity.address
        return Registrar(
            tables.topics,
            settings,
            self._open_link,
            address=str(address),
            ha_address=str(Address(address.host, address.port + 1)),
            known=NameServerList(settings.nameservers, clock=self.environment.clock),
            lease=self.environment.lease if settings.replication.role is not Role.REPLICA else None,
        )

    def _open_link(self, name: str) -> Link:
        address, clock = Address.parse(name), self.environment.clock
        connect = partial(open_connection, address, clock=clock, tls_context=self.nameserver_tls)
        inner = self.environment.settings.access.inner
        if inner is None:
            return Link(address, connect=connect, clock=clock, rng=self.environment.rng)
        link = SignedLink(address, connect=connect, clock=clock, rng=self.environment.rng)
        link.credentials = inner
        return link

    def _audit_log(self) -> AuditLog:
        settings, folder = self.environment.settings, self.store.layout.root / AUDIT_FOLDER
        return AuditLog(
            folder, settings.name, settings.audit, self.environment.clock.now_ms, disk=self.environment.disk
        )

    # --- handlers ---

    def _handlers(
        self,
        tables: Tables,
        stats: Stats,
        waiters: PullWaiters,
        write_path: WritePath,
        services: Services,
        popping: Popping,
    ) -> Handlers:
        environment, identity, store, counters = self.environment, self.identity, self.store, stats.counters
        settings, address = environment.settings, str(identity.address)
        modes = RequestModeTable.load(environment.disk, store.layout.root)
        find_queues = services.registrar.find_queues if settings.nameservers else None
        delays, timers = Delays(settings, environment.clock), services.delay_runner.timers
        delay_requests = DelayHandler(environment, store, services.delay_runner, stats)
        transactions = TransactionHandler(
            environment, tables.topics, write_path, services.transaction_log, delays, counters
        )
        pulls = PullHandler(environment, tables, store, waiters, counters)
        members = MemberHandler(environment.lease)
        access = environment.access if isinstance(environment.access, GuardedAccess) else None
        if access is not None:
            access.guard.book.on_change.append(pulls.rules_changed)
        return Handlers(
            sends=SendHandler(environment, identity, tables, write_path, delays, transactions.prepare, counters),
            transactions=transactions,
            send_back=SendBackHandler(environment, tables, write_path, delays, counters),
            replies=ReplyHandler(environment, identity, tables, write_path),
            pulls=pulls,
            watches=WatchHandler(environment, tables, store, counters),
            pops=popping.handler,
            clients=ClientHandler(tables, settings, environment.clock, environment.access),
            client_relay=ClientRelay(store, tables, settings, environment.access),
            assignments=AssignmentHandler(tables, modes, settings, find_queues),
            offsets=OffsetHandler(store, tables),
            lookups=LookupHandler(store, tables, environment.access),
            topics=TopicHandler(write_path, tables, stats, settings),
            groups=GroupHandler(tables, address),
            progress=ProgressHandler(environment, store, tables, stats, address, popping.pops.table),
            resets=ResetHandler(store, tables, settings),
            config=ConfigHandler(environment, store, tables.topics, identity.address, self.on_change),
            cleaning=CleaningHandler(write_path, tables, services.maintenance),
            runtime=RuntimeHandler(
                environment,
                write_path,
                tables.progress,
                waiters,
                stats,
                delay_requests,
                self.stalls,
                services.registrar.name_watch,
            ),
            recalls=RecallHandler(environment, tables.topics, write_path, delays, timers),
            delays=delay_requests,
            access=AccessHandler(access, settings),
            auditing=Auditing(self._audit_log(), environment, tables),
            store=StoreHandler(environment, store, services.maintenance, services.transaction_log, counters),
            members=members,
            member_tables=MemberTablesHandler(members.status, lambda: store.end_position),
        )
