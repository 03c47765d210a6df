"""The broker: one loop, one store, one table from request code to the function that answers it.

    async with Broker(settings, folder) as broker:      # opens the store, listens, registers
        print(broker.address)

Answers of most requests are plain values (a header, a body, both or nothing); sends and pulls answer by themselves,
later, because they wait for the disk or for a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from os import getpid
from pathlib import Path
from random import Random
from typing import Any, Self

from pyromq.broker.broker_requests import BrokerHandler
from pyromq.broker.client_requests import ClientHandler
from pyromq.broker.group_requests import GroupHandler
from pyromq.broker.groups import Groups
from pyromq.broker.locks import QueueLocks
from pyromq.broker.lookup_requests import LookupHandler
from pyromq.broker.members import Members
from pyromq.broker.offset_requests import OffsetHandler
from pyromq.broker.progress import Progress
from pyromq.broker.pull import PullHandler
from pyromq.broker.pull_waiters import PullWaiters, QueueKey
from pyromq.broker.refusals import refusal_of
from pyromq.broker.registration import Registrar
from pyromq.broker.send import SendHandler
from pyromq.broker.session import Session
from pyromq.broker.settings import VIP_PORT_DISTANCE, BrokerSettings
from pyromq.broker.stats import Stats
from pyromq.broker.topic_requests import TopicHandler
from pyromq.broker.topics import Topics
from pyromq.broker.turn import Turns
from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError
from pyromq.net import Address, Connection, Handler, Link, Server, open_connection
from pyromq.store.disk import Disk, RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.offsets import OffsetTable
from pyromq.store.tables import GroupTable, TopicTable
from pyromq.store.upkeep import Upkeep
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers import Header
from pyromq.wire.message_id import Host, UniqueIdGenerator
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

Answer = Header | bytes | tuple[Header, bytes] | None
Answering = Callable[[Connection, Received[Any]], Answer]
Later = Callable[[Connection, Received[Any]], None]

_TICK_S = 0.1
_SLOW_TICK_MS = 1_000
_PASSED_ON_TIMEOUT_MS = 10_000


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
        self.settings, self._folder = settings, folder
        self._clock, self._disk, self._rng = clock or SystemClock(), disk or RealDisk(), rng or Random()
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="pyromq-flush")
        self._tasks: list[asyncio.Task[None]] = []
        self._answering: dict[int, Answering] = {}
        self._later: dict[int, Later] = {}
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
        self._server = Server(self, listen, clock=self._clock)
        await (
            self._server.start()
        )  # first, since the port is part of message ids; nothing is read before the store is open
        self._advertised = Address(settings.advertised_host or settings.host, self.address.port)
        host = Host(ip_address(self._advertised.host).packed, self._advertised.port).encode()
        try:
            self.store = MessageStore.open(
                self._folder, settings.store, disk=self._disk, clock=self._clock, store_host=host
            )
        except MQError:
            await self._server.stop()
            raise
        self._assemble(host)
        self._tasks = [asyncio.create_task(self._tick_forever(), name="broker-tick")]
        if settings.nameservers:
            await self._registrar.register_now()
            self._tasks.append(asyncio.create_task(self._registrar.run(), name="broker-register"))
        logger.info("broker started: name=%s address=%s store=%s", settings.name, self._advertised, self._folder)

    def _assemble(self, host: bytes) -> None:
        """Build what the handlers share, then the handlers."""
        settings, clock, root = self.settings, self._clock, self.store.layout.root
        self.upkeep = Upkeep(self.store, self._disk, clock)
        self.stats = Stats(clock)
        self.topics = Topics(TopicTable.load(self._disk, root), settings, clock, self._on_topics_changed)
        self.groups = Groups(GroupTable.load(self._disk, root), settings, clock)
        self.progress = Progress(OffsetTable.load(self._disk, root), clock)
        self.topics.create_system_topics()
        self.groups.create_preset_groups()
        self.members: Members[Connection] = Members(clock, settings.client_expiry_ms)
        self.locks = QueueLocks(clock, settings.lock_expiry_ms)
        self.waiters = PullWaiters(clock, settings.held_pulls_max)
        self.turns = Turns(
            self.store,
            self._flusher,
            clock,
            self._on_visible,
            flush_timeout_ms=settings.sync_flush_timeout_ms,
            stuck_disk_ms=settings.stuck_disk_ms,
            waiting_max=settings.unflushed_sends_max,
        )
        self._registrar = Registrar(
            self.topics,
            settings,
            self._open_link,
            address=str(self._advertised),
            ha_address=str(Address(self._advertised.host, self._advertised.port + 1)),
        )
        counters, store = self.stats.counters, self.store
        self._sends = SendHandler(
            store,
            self.topics,
            self.groups,
            self.locks,
            self.turns,
            counters,
            settings,
            clock,
            self._rng,
            host_hex=host.hex().upper(),
            new_unique_key=self._unique_keys(host),
        )
        self._pulls = PullHandler(
            store, self.topics, self.groups, self.members, self.progress, self.waiters, counters, settings, clock
        )
        self._clients = ClientHandler(self.members, self.topics, self.groups, self.locks)
        self._groups_admin = GroupHandler(store, self.topics, self.groups, self.progress, self.members, settings)
        self._fill_tables()

    def _fill_tables(self) -> None:
        code, clients, groups = RequestCode, self._clients, self._groups_admin
        offsets = OffsetHandler(self.store, self.topics, self.groups, self.progress)
        lookups = LookupHandler(self.store)
        topics = TopicHandler(self.store, self.topics, self.progress, self.members, self.settings)
        whole = BrokerHandler(
            self.store,
            self.progress,
            self.turns,
            self.waiters,
            self.stats,
            self.settings,
            self._clock,
            self._disk,
        )
        self._later = {
            code.SEND_MESSAGE: self._sends.send,
            code.SEND_MESSAGE_V2: self._sends.send,
            code.SEND_BATCH_MESSAGE: self._sends.send_batch,
            code.PULL_MESSAGE: self._pulls.pull,
            code.LITE_PULL_MESSAGE: self._pulls.pull,
            code.GET_CONSUMER_RUNNING_INFO: self._pass_on,
        }
        self._answering = {
            code.HEART_BEAT: clients.heartbeat,
            code.UNREGISTER_CLIENT: clients.unregister,
            code.GET_CONSUMER_LIST_BY_GROUP: clients.members_of,
            code.LOCK_BATCH_MQ: clients.lock,
            code.UNLOCK_BATCH_MQ: clients.unlock,
            code.CHECK_CLIENT_CONFIG: clients.check_client,
            code.QUERY_CONSUMER_OFFSET: offsets.query,
            code.UPDATE_CONSUMER_OFFSET: offsets.update,
            code.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
            code.GET_MAX_OFFSET: offsets.maximum,
            code.GET_MIN_OFFSET: offsets.minimum,
            code.GET_EARLIEST_MSG_STORETIME: offsets.earliest,
            code.QUERY_MESSAGE: lookups.query,
            code.VIEW_MESSAGE_BY_ID: lookups.view,
            code.UPDATE_AND_CREATE_TOPIC: topics.create,
            code.UPDATE_AND_CREATE_TOPIC_LIST: topics.create_all,
            code.DELETE_TOPIC_IN_BROKER: topics.delete,
            code.GET_TOPIC_CONFIG: topics.get,
            code.GET_ALL_TOPIC_CONFIG: topics.get_all,
            code.GET_TOPIC_STATS_INFO: topics.stats,
            code.QUERY_TOPIC_CONSUME_BY_WHO: topics.who_consumes,
            code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.system_topics,
            code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update,
            code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.update_all,
            code.GET_SUBSCRIPTIONGROUP_CONFIG: groups.get,
            code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.get_all,
            code.DELETE_SUBSCRIPTIONGROUP: groups.delete,
            code.UPDATE_AND_GET_GROUP_FORBIDDEN: groups.forbidden,
            code.GET_CONSUMER_CONNECTION_LIST: groups.consumers,
            code.GET_PRODUCER_CONNECTION_LIST: groups.producers,
            code.GET_ALL_PRODUCER_INFO: groups.all_producers,
            code.QUERY_SUBSCRIPTION_BY_CONSUMER: groups.subscription,
            code.QUERY_TOPICS_BY_CONSUMER: groups.topics_of,
            code.GET_CONSUME_STATS: groups.consume_stats,
            code.QUERY_CONSUME_TIME_SPAN: groups.time_span,
            code.CLONE_GROUP_OFFSET: groups.clone,
            code.INVOKE_BROKER_TO_RESET_OFFSET: groups.reset,
            code.GET_BROKER_CONFIG: whole.config,
            code.GET_BROKER_RUNTIME_INFO: whole.runtime_info,
            code.GET_ALL_CONSUMER_OFFSET: whole.all_offsets,
        }

    async def stop(self) -> None:
        """Answer what is under way, leave the name servers, seal the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "_registrar"):
            await self._registrar.close()
            await self.turns.drain()
        await self._server.stop()
        if hasattr(self, "store"):
            self._save_offsets()
            self.store.close()
        self._flusher.shutdown()
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
                elif answer := answering.get(request.code):
                    self._send_answer(connection, request, answer(connection, request))
                else:
                    text = f" request type {request.code} not supported"
                    self._refuse(connection, request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
            except MQError as error:
                self._refuse(connection, request, *refusal_of(error))
            except Exception as error:  # a defect of ours must not take the connection, or other requests, with it
                logger.exception("request failed: code=%d peer=%s", request.code, connection.remote_text)
                text = f"the broker failed on this request: {type(error).__name__}: {error}"
                self._refuse(connection, request, ResponseCode.SYSTEM_ERROR, text)
        self.turns.end_early()

    def _send_answer(self, connection: Connection, request: Received[Any], answer: Answer) -> None:
        if request.is_oneway:
            return
        header: Header | None = None
        body = b""
        match answer:
            case (header, body):
                pass
            case bytes():
                body = answer
            case _:
                header = answer
        code, serialize_type = ResponseCode.SUCCESS, request.serialize_type
        connection.send(encode_response(code, request.correlation_id, header, body=body, serialize_type=serialize_type))

    def _refuse(self, connection: Connection, request: Received[Any], code: ResponseCode, remark: str) -> None:
        if not request.is_oneway:
            answer = encode_response(code, request.correlation_id, remark=remark, serialize_type=request.serialize_type)
            connection.send(answer)

    def _pass_on(self, connection: Connection, request: Received[Any]) -> None:
        """A question about a client, which the client itself has to answer."""
        target = self._groups_admin.client_of(request.header.consumer_group, request.header.client_id)
        future = target.request_nowait(request.code, request.header, request.body, timeout_ms=_PASSED_ON_TIMEOUT_MS)
        future.add_done_callback(partial(self._passed_on, connection, request))

    def _passed_on(self, connection: Connection, request: Received[Any], future: asyncio.Future[Received[Any]]) -> None:
        error = future.exception()
        if isinstance(error, MQError):
            self._refuse(connection, request, ResponseCode.CONSUME_MSG_TIMEOUT, str(error))
            return
        answer = future.result()
        connection.send(encode_response(answer.code, request.correlation_id, body=answer.body, remark=answer.remark))

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.waiters.drop_connection(connection)
        self._clients.disconnected(connection)

    # --- what happens by itself ---

    def _on_visible(self, queues: set[QueueKey]) -> None:
        if len(self.waiters):
            for queue in queues:
                self._pulls.wake(queue)

    def _on_topics_changed(self) -> None:
        if hasattr(self, "_registrar"):
            self._registrar.topics_changed()

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                self._tick()
            except (MQError, OSError) as error:  # the store has said so already, and says no to senders
                logger.error("upkeep failed: reason=%s", error)

    def _tick(self) -> None:
        now = self._clock.monotonic_ms()
        self._pulls.answer_due()
        self.turns.answer_overdue()
        self.upkeep.tick()
        if now - self._slow_ticked_ms >= _SLOW_TICK_MS:
            self._slow_ticked_ms = now
            self.stats.snapshot()
            for connection in self.members.drop_silent():
                connection.close("no heartbeat for too long")
        if now - self._offsets_saved_ms >= self.settings.offsets_save_ms:
            self._offsets_saved_ms = now
            self._save_offsets()

    def _save_offsets(self) -> None:
        try:
            self.progress.save()
        except OSError as error:
            logger.error("consumer offsets not saved: reason=%s", error)

    # --- helpers ---

    def _open_link(self, name: str) -> Link:
        address = Address.parse(name)
        connect = partial(open_connection, address, clock=self._clock)
        return Link(address, connect=connect, clock=self._clock, rng=self._rng)

    def _unique_keys(self, host: bytes) -> Callable[[], str]:
        """Ids for messages whose senders gave them none."""
        generator = UniqueIdGenerator(host[:-4], getpid())

        def new() -> str:
            now_ms = self._clock.now_ms()
            month = datetime.fromtimestamp(now_ms / 1000).astimezone().replace(day=1, hour=0, minute=0, second=0)
            return generator.next(now_ms, int(month.timestamp()) * 1000)

        return new
