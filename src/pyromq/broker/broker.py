"""The broker: one loop, one store, and everything that answers requests from it.

    async with Broker(settings, folder) as broker:      # opens the store, listens, registers
        print(broker.address)

``request_table`` says which function answers what.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from os import getpid
from pathlib import Path
from random import Random
from typing import Any, Self

from pyromq.broker.admin.assignment_requests import AssignmentHandler
from pyromq.broker.admin.cleaning_requests import CleaningHandler
from pyromq.broker.admin.client_relay import ClientRelay
from pyromq.broker.admin.client_requests import ClientHandler
from pyromq.broker.admin.config_requests import ConfigHandler
from pyromq.broker.admin.delay_requests import DelayHandler
from pyromq.broker.admin.group_requests import GroupHandler
from pyromq.broker.admin.lookup_requests import LookupHandler
from pyromq.broker.admin.offset_requests import OffsetHandler
from pyromq.broker.admin.progress_requests import ProgressHandler
from pyromq.broker.admin.reset_requests import ResetHandler
from pyromq.broker.admin.runtime_requests import RuntimeHandler
from pyromq.broker.admin.topic_requests import TopicHandler
from pyromq.broker.base.advertised import advertised_host, resolved
from pyromq.broker.base.refusals import RefusedError, refusal_of
from pyromq.broker.base.responses import Answering, Later, Response, send_refusal, send_response
from pyromq.broker.base.session import Session
from pyromq.broker.base.settings import VIP_PORT_DISTANCE, BrokerSettings
from pyromq.broker.base.stats import Stats
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.base.table_keeper import TableKeeper
from pyromq.broker.commit.group_commit import GroupCommit
from pyromq.broker.commit.internal_writes import InternalWrites
from pyromq.broker.commit.sealer import Sealer
from pyromq.broker.commit.send_gate import SendGate
from pyromq.broker.delays.delay_runner import DelayRunner
from pyromq.broker.delays.delays import Delays
from pyromq.broker.delays.due_messages import DueMessages
from pyromq.broker.delays.recall import RecallHandler
from pyromq.broker.delays.schedule import Schedule
from pyromq.broker.delays.timers import Timers
from pyromq.broker.pulling.pull import PullHandler
from pyromq.broker.pulling.pull_waiters import PullWaiters, QueueKey
from pyromq.broker.registration import Registrar
from pyromq.broker.request_table import Handlers
from pyromq.broker.sending.reply import ReplyHandler
from pyromq.broker.sending.send import SendHandler
from pyromq.broker.sending.send_back import SendBackHandler
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.groups import Groups
from pyromq.broker.state.locks import QueueLocks
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress
from pyromq.broker.state.topics import Topics
from pyromq.broker.transactions.transaction_checks import TransactionChecks
from pyromq.broker.transactions.transaction_log import TransactionLog
from pyromq.broker.transactions.transactions import TransactionHandler
from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError
from pyromq.model.names import TIMER_TOPIC
from pyromq.net import Address, Connection, Handler, Link, open_connection
from pyromq.net.nameserver_list import NameServerList
from pyromq.store.files.disk import Disk, RealDisk
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import QueueRange
from pyromq.store.tables.filter_table import FilterTable
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import DelayOffsets, OffsetTable
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.store.tables.topics import TopicTable
from pyromq.store.timers.files import TimerFiles
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.message_id import Host, UniqueIdGenerator
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_TICK_S = 0.1
_SLOW_TICK_MS = 1_000
_TOLD_FIRST = frozenset((RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST))
"""Answered when name servers know the topic: whoever made it may send at once, to the queues that it has."""


class Broker(Handler):
    """Everything a broker owns, between ``start`` and ``stop``."""

    def __init__(
        self,
        settings: BrokerSettings,
        folder: Path,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        rng: Random | None = None,
    ) -> None:
        # a copy, which may change while it runs
        self.settings = replace(settings)
        self._folder = folder
        self._clock = SteadyClock(clock or SystemClock())
        self._disk = disk or RealDisk()
        self._rng = rng or Random()
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="pyromq-flush")
        self._seal_worker = ThreadPoolExecutor(1, thread_name_prefix="pyromq-seal")
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="pyromq-save")  # a seal of many queues takes minutes
        self._tasks: list[asyncio.Task[None]] = []
        self._answering: dict[int, Answering] = {}
        self._later: dict[int, Later] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._slow_ticked_ms = self._offsets_saved_ms = 0

    # --- life ---

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    @property
    def address(self) -> Address:
        """Where clients reach it."""
        return self._server.addresses[0]

    async def start(self) -> None:
        """Listen, open and recover the store, register; raises StoreInUseError and other StoreErrors, OSError."""
        settings = self.settings
        listen = [Address(settings.host, settings.port)]
        if settings.vip_port and settings.port > VIP_PORT_DISTANCE:
            listen.append(Address(settings.host, settings.port - VIP_PORT_DISTANCE))
        advertised, tls = advertised_host(settings), settings.tls_to_nameservers
        ip = await resolved(advertised)
        self._nameserver_tls = tls.context() if tls else None
        self._server = settings.listener.server(self, listen, clock=self._clock)
        await self._server.start()  # first: the port is part of message ids. Nothing is read before the store is open.
        self._advertised = Address(advertised, self.address.port)
        host = Host(ip.packed, self._advertised.port).encode()
        try:
            self.store = MessageStore.open(
                self._folder, settings.store, disk=self._disk, clock=self._clock, store_host=host
            )
        except MQError:
            await self._server.stop()
            raise
        try:
            self._assemble(host)
        except BaseException:  # a table is damaged, perhaps: the folder must not stay locked; raised again
            self.store.close()
            await self._server.stop()
            raise
        self._tasks = [asyncio.create_task(self._tick_forever(), name="broker-tick")]
        if settings.nameservers:
            await self._registrar.register_now()
            self._tasks.append(asyncio.create_task(self._registrar.run(), name="broker-register"))
        logger.info("broker started: name=%s address=%s store=%s", settings.name, self._advertised, self._folder)

    def _assemble(self, host: bytes) -> None:
        """Build what the handlers share, then the handlers."""
        settings, clock, root = self.settings, self._clock, self.store.layout.root
        self.stats = Stats(clock)
        self.topics = Topics(TopicTable.load(self._disk, root), settings, clock, self._on_topics_changed)
        self.groups = Groups(GroupTable.load(self._disk, root), settings, clock)
        self.progress = Progress(OffsetTable.load(self._disk, root, clock.now_ms()), clock)
        self.filters = Filters(FilterTable.load(self._disk, root), clock)
        self.topics.create_system_topics()
        if not self.store.recovered.clean and (restored := self.topics.restore(self.store.queues)):
            logger.warning("topics restored from their queues: topics=%s", ", ".join(restored))
        if not self.store.recovered.clean and (ahead := self.progress.bring_back(self._end_of)):
            logger.warning("groups were ahead of queues that lost their end, brought back to it: queues=%d", ahead)
        self.groups.create_preset_groups()
        self._tables = TableKeeper([self.topics.table, self.groups.table, self.filters.table], self._saver, clock)
        self._offsets = TableKeeper([self.progress.table], self._saver, clock, interval_ms=0)
        self.members: Members[Connection] = Members(clock, settings.client_expiry_ms)
        self.locks = QueueLocks(clock, settings.lock_expiry_ms)
        self.waiters = PullWaiters(clock, settings.held_pulls_max)
        self.group_commit = GroupCommit(
            self.store,
            self._flusher,
            clock,
            self._on_visible,
            flush_timeout_ms=settings.sync_flush_timeout_ms,
            stuck_disk_ms=settings.stuck_disk_ms,
            waiting_max=settings.unflushed_sends_max,
        )
        self.gate = SendGate(self.group_commit, self.stats.counters, settings, clock, self.on_requests)
        self._sealer = Sealer(self.store, self._seal_worker, self.group_commit.flush_soon)
        self.maintenance = Maintenance(
            self.store,
            self._disk,
            clock,
            flush=self.group_commit.flush_soon,
            seal=self._sealer.start,
            elsewhere=self._run_elsewhere,
            needed_from=self._needed_from,
        )
        self._registrar = Registrar(
            self.topics,
            settings,
            self._open_link,
            address=str(self._advertised),
            ha_address=str(Address(self._advertised.host, self._advertised.port + 1)),
            known=NameServerList(settings.nameservers, clock=clock),
        )
        self._handlers = self._build_handlers(host)
        self._later, self._answering = self._handlers.later(), self._handlers.answering()

    def _build_handlers(self, host: bytes) -> Handlers:
        settings, clock, store, stats, group_commit = (
            self.settings,
            self._clock,
            self.store,
            self.stats,
            self.group_commit,
        )
        topics, groups, members, progress, locks = self.topics, self.groups, self.members, self.progress, self.locks
        new_key, host_hex, store_host = self._unique_keys(host), host.hex().upper(), Host.decode(host)
        delays, gate = Delays(settings, clock), self.gate
        modes = RequestModeTable.load(self._disk, store.layout.root)
        find_queues = self._registrar.find_queues if settings.nameservers else None
        writes = InternalWrites(store, group_commit)
        self._delay_runner = self._build_releases(writes)
        waits = DelayHandler(store, self._delay_runner, stats, self._disk, clock.now_ms())
        transaction_log = TransactionLog(store, writes, group_commit, progress, clock)
        transactions = TransactionHandler(
            store, topics, group_commit, writes, transaction_log, delays, gate, stats.counters, settings, clock
        )
        self._checks = TransactionChecks(store, topics, members, writes, transaction_log, settings, clock)
        return Handlers(
            sends=SendHandler(
                store, topics, groups, locks, delays, transactions.prepare, gate, group_commit, stats.counters,
                settings, clock, self._rng, host_hex=host_hex, new_unique_key=new_key,
            ),
            transactions=transactions,
            returns=SendBackHandler(
                store, topics, groups, delays, gate, group_commit, stats.counters, settings, self._rng
            ),
            replies=ReplyHandler(store, topics, members, group_commit, settings, clock, store_host),
            pulls=PullHandler(
                store, topics, groups, members, progress, self.filters, self.waiters, stats.counters, settings, clock
            ),
            clients=ClientHandler(members, topics, groups, locks, self.filters, settings),
            questions=ClientRelay(store, topics, groups, members, settings),
            assignments=AssignmentHandler(topics, members, modes, settings, find_queues),
            offsets=OffsetHandler(store, topics, groups, progress),
            lookups=LookupHandler(store, topics, members, self.filters),
            topics=TopicHandler(store, topics, progress, members, stats, group_commit, settings),
            groups=GroupHandler(topics, groups, progress, members, str(self._advertised)),
            progress=ProgressHandler(
                store, topics, groups, progress, members, stats, settings, clock, str(self._advertised)
            ),
            resets=ResetHandler(store, topics, groups, progress, members, settings),
            config=ConfigHandler(settings, store, topics, clock, self._advertised),
            cleaning=CleaningHandler(store, topics, progress, group_commit, self.maintenance),
            whole=RuntimeHandler(
                store, progress, group_commit, self.waiters, stats, settings, clock, self._disk, waits
            ),
            recalls=RecallHandler(store, topics, delays, self._delay_runner.timers, writes.put, settings, clock),
            delays=waits,
        )  # fmt: skip

    def _end_of(self, topic: str, queue_id: int) -> int:
        known = self.store.reader.range_of(topic, queue_id)
        return known.end if known else 0

    def _build_releases(self, writes: InternalWrites) -> DelayRunner:
        """What lets delayed messages go."""
        store, clock, disk, counters = self.store, self._clock, self._disk, self.stats.counters
        root, due = store.layout.root, DueMessages(store.records, self.topics)
        now_ms = clock.now_ms()
        offsets, metrics = DelayOffsets.load(disk, root, now_ms), TimerMetrics.load(disk, root, now_ms)
        waiting = store.reader.range_of(TIMER_TOPIC, 0) or QueueRange(0, 0)
        files = TimerFiles.open(disk, root, store.settings, store.records, waiting, now_ms)
        return DelayRunner(
            store,
            Schedule(store, offsets, due, writes.put, counters, clock),
            Timers(store, files, due, writes.put, counters, clock, metrics),
            offsets,
            files,
            self._saver,
            self.group_commit.flush_soon,
            clock,
        )

    async def stop(self) -> None:
        """Answer what is under way, leave the name servers, seal the store."""
        tasks = [*self._tasks, *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if hasattr(self, "_registrar"):
            self._delay_runner.halt()
            self._handlers.assignments.close()
            await self._registrar.close()
            self._later = dict.fromkeys(self._later, _refuse)  # else the last turn might never come
            await self.group_commit.drain()
            while self._sealer.busy:
                self._sealer.advance()
                await asyncio.sleep(0.005)
            await self.group_commit.drain()
            await self._delay_runner.close()
        await self._server.stop()
        for worker in (self._flusher, self._seal_worker, self._saver):
            worker.shutdown()  # what they do with files of the store must be over before it is closed
        if hasattr(self, "store"):
            self._offsets.save_now()
            self._tables.save_now()
            self.store.close()
        logger.info("broker stopped: name=%s", self.settings.name)

    # --- requests ---

    def on_connected(self, connection: Connection) -> None:
        remote = connection.remote
        connection.session = Session(Host(ip_address(remote.host).packed, remote.port).encode())

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        later, answering = self._later, self._answering
        for request in requests:
            try:
                if handle := later.get(request.code):
                    handle(connection, request)
                elif response := answering.get(request.code):
                    self._respond(connection, request, response(connection, request))
                else:
                    text = f" request type {request.code} not supported"
                    send_refusal(connection, request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
            except RefusedError as error:
                send_refusal(connection, request, error.code, error.remark, error.ext)
            except MQError as error:
                send_refusal(connection, request, *refusal_of(error))
            except Exception as error:  # a defect of ours must not take the connection, or other requests, with it
                logger.exception("request failed: code=%d peer=%s", request.code, connection.remote_text)
                text = f"the broker failed on this request: {type(error).__name__}: {error}"
                send_refusal(connection, request, ResponseCode.SYSTEM_ERROR, text)
        self.group_commit.end_early()

    def _respond(self, connection: Connection, request: Received[Any], response: Response) -> None:
        if request.code not in _TOLD_FIRST or not self.settings.nameservers:
            send_response(connection, request, response)
            return
        task = asyncio.get_running_loop().create_task(self._registrar.told(), name="tell name servers")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        task.add_done_callback(lambda _: send_response(connection, request, response))

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.waiters.drop_connection(connection)
        self._handlers.clients.disconnected(connection)

    # --- what happens by itself ---

    def _on_visible(self, queues: set[QueueKey]) -> None:
        self._delay_runner.on_visible(queues)
        if len(self.waiters):
            wake = self._handlers.pulls.wake
            for queue in queues:
                wake(queue)

    def _on_topics_changed(self) -> None:
        if hasattr(self, "_registrar"):
            self._registrar.topics_changed()

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._tick()

    def _tick(self) -> None:
        now = self._clock.monotonic_ms()
        duties = [
            self._handlers.pulls.respond_due,
            self.group_commit.respond_overdue,
            self._sealer.advance,
            self._tables.tick,
            self.maintenance.tick,
            self._checks.tick,
            self._delay_runner.tick,
        ]
        if now - self._slow_ticked_ms >= _SLOW_TICK_MS:
            self._slow_ticked_ms = now
            duties += [self.stats.snapshot, self._drop_silent]
        if now - self._offsets_saved_ms >= self.settings.offsets_save_ms:
            self._offsets_saved_ms = now
            duties.append(self._offsets.tick)
        for duty in duties:
            try:
                duty()
            except (MQError, OSError) as error:  # the store has said so already, and says no to senders
                logger.error("upkeep failed: reason=%s", error)
            except Exception:  # a defect of one duty must not keep the others from being done
                logger.exception("upkeep failed")

    def _drop_silent(self) -> None:
        silent, changed = self.members.drop_silent()
        for connection in silent:
            connection.close("no heartbeat for too long")
        self._handlers.clients.notify(changed)
        self.filters.tick(self.members.subscription)

    # --- helpers ---

    def _run_elsewhere(self, job: Callable[[], None]) -> None:
        """For jobs of upkeep that take a disk long and can be repeated."""
        future = asyncio.get_running_loop().run_in_executor(self._saver, job)
        future.add_done_callback(_log_failure)

    def _needed_from(self) -> int:
        """Where the log begins that retention has to keep: at the oldest message that waits for its level."""
        return self._delay_runner.schedule.waiting_from()

    def _open_link(self, name: str) -> Link:
        address = Address.parse(name)
        connect = partial(open_connection, address, clock=self._clock, tls_context=self._nameserver_tls)
        return Link(address, connect=connect, clock=self._clock, rng=self._rng)

    def _unique_keys(self, host: bytes) -> Callable[[], str]:
        """Ids for messages whose senders gave them none."""
        generator = UniqueIdGenerator(host[:-4], getpid())

        def new() -> str:
            now_ms = self._clock.now_ms()
            month = datetime.fromtimestamp(now_ms / 1000).astimezone().replace(day=1, hour=0, minute=0, second=0)
            return generator.next(now_ms, int(month.timestamp()) * 1000)

        return new


def _refuse(connection: Connection, request: Received[Any]) -> None:
    send_refusal(connection, request, ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; ask another one")


def _log_failure(future: asyncio.Future[None]) -> None:
    if (error := future.exception()) is not None:
        logger.error("upkeep failed: reason=%s", error)
