"""The client: what the producers, consumers and admin tools of a process share.

    Client ──┬─ NameServers ── Routes      where topics live
             ├─ Brokers ── Heartbeats      one link per address, and what brokers hear of us
             ├─ Callbacks                  what brokers ask of us
             └─ roles                      producers and consumers, for heartbeats (``roles`` says how to join)

One client is one member of each of its groups: two consumers of the same group need two clients. ``async with`` opens
and closes it. Everything here belongs to one event loop, and a coroutine that blocks the loop holds up heartbeats: the
sync face has a loop of its own for that reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from pyromq.client.core.brokers import Brokers
from pyromq.client.core.callbacks import Callbacks
from pyromq.client.core.errors import error_of
from pyromq.client.core.heartbeats import HeartbeatResult, Heartbeats
from pyromq.client.core.identity import MessageIds, client_id, instance_name
from pyromq.client.core.master_watch import MasterWatch
from pyromq.client.core.nameservers import NameServers
from pyromq.client.core.roles import ClientRole, ConsumerRole, ProducerRole
from pyromq.client.core.routes import Routes
from pyromq.client.core.settings import ClientSettings, client_settings_of
from pyromq.client.core.signing import Signer
from pyromq.client.core.silence_watch import SilenceWatch
from pyromq.client.core.tasks import TaskOwner
from pyromq.clock import Clock, default_clock
from pyromq.errors import ClientClosedError, ConfigError, ConnectFailedError, MQError
from pyromq.model.namespaces import unwrap, wrap
from pyromq.model.route import TopicRoute
from pyromq.net import Address, Connection, Handler, Link, open_connection
from pyromq.net.idle import IdleWatch
from pyromq.net.nameserver_list import REFRESH_MS, NameServerList, host_of
from pyromq.net.own_ip import own_ip
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.consumer import UnregisterClientHeader
from pyromq.wire.received import Received

if TYPE_CHECKING:
    from pyromq.client.schemas.topic_schemas import TopicSchemas

logger = logging.getLogger(__name__)

_OK: Final = frozenset((int(ResponseCode.SUCCESS),))


class Client:
    """``async with Client("10.0.0.1:9876") as client: …``, or with ClientSettings instead of the address."""

    def __init__(
        self,
        settings: ClientSettings | str | Sequence[str] = (),
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        self.settings = settings if isinstance(settings, ClientSettings) else client_settings_of(settings, None)
        self.clock = clock or default_clock()
        self.rng = rng or Random()
        ip = self.settings.client_ip or own_ip([host_of(text) for text in self.settings.nameservers])
        unlike_others = time.time_ns()  # not a time: two clients with one clock must not have one name
        name = self.settings.instance_name or instance_name(os.getpid(), unlike_others)
        self.id = client_id(ip, name, self.settings.unit_name)
        self.message_ids = MessageIds(ip, os.getpid(), self.rng.getrandbits(32))
        self.signer = Signer(self.settings.credentials)
        self._roles: list[ClientRole] = []
        self._schemas: TopicSchemas | None = None
        self._is_open = False
        self._is_closed = False  # for good

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def open(self) -> Self:
        """Quiet: nothing is connected before it is needed. Raises ConfigError, ClientClosedError."""
        if self._is_open or self._is_closed:
            raise ClientClosedError("a client cannot be opened twice; make a new one")
        settings = self.settings
        self._tls_context = settings.tls_settings.context() if settings.tls_settings else None
        self._watch: IdleWatch[Connection] = IdleWatch(self.clock, settings.connection.idle_ms)
        self.tasks = TaskOwner(f"client {self.id}")
        self.callbacks = Callbacks(lambda: self._roles, self.tasks, self.clock, settings.namespace)
        known = NameServerList(tuple(settings.nameservers), clock=self.clock, unit_name=settings.unit_name)
        self.nameservers = NameServers(known, self._link_to_nameserver, self.signer, self.clock, self.rng)
        self.brokers = Brokers(lambda text: self._link(Address.parse(text), self._connect_to_broker))
        timeout_ms = settings.request_timeout_ms
        self._heartbeats = Heartbeats(self.id, self._roles, self.brokers, self.signer, timeout_ms=timeout_ms)
        ask = partial(self.nameservers.route, timeout_ms=timeout_ms)
        self.routes = Routes(ask, self._route_changed, self.tasks)
        self.silence = SilenceWatch(
            *(self.brokers, self._heartbeats.probe, self._find_masters, self.clock, self.tasks),
            probe_ms=settings.probe_ms,
        )
        self._master_watch = MasterWatch(
            self.routes, self.tasks, self.rng, timeout_ms=timeout_ms, is_silent=self.silence.is_silent
        )
        self._is_open = True
        self.tasks.start(self._poll_routes(), name="routes")
        self.tasks.start(self._beat(), name="heartbeats")
        if known.url:
            self.tasks.start(self._poll_nameservers(), name="name servers")
        logger.info("client opened: id=%s nameservers=%s", self.id, ";".join(settings.nameservers))
        return self

    async def close(self) -> None:
        """Leaves every group, then closes all connections, also when it is cancelled on the way."""
        if not self._is_open:
            self._is_closed = True
            return
        self._is_open, self._is_closed = False, True
        async with AsyncExitStack() as stack:  # what stays open goes on telling brokers that we are there
            stack.push_async_callback(self.nameservers.close)
            stack.push_async_callback(self.brokers.close)
            stack.push_async_callback(self.tasks.close)
            stack.callback(self.silence.close)
            for role in list(self._roles):
                await self.leave(role)
        logger.info("client closed: id=%s", self.id)

    # --- roles ---

    def join(self, role: ClientRole) -> None:
        """A producer or consumer is there; brokers that are connected hear of it at once, others when they are.

        Raises ClientClosedError, and ConfigError for a second role of the same kind in the same group.
        """
        self.require_open()
        kind = ProducerRole if isinstance(role, ProducerRole) else ConsumerRole
        if kind is ConsumerRole and any(isinstance(other, kind) and other.group == role.group for other in self._roles):
            raise ConfigError(f"this client is a consumer in group {role.group} already; use another client")
        self._roles.append(role)
        for link in self.brokers.ready_links():
            if (connection := link.ready) is not None:
                self._heartbeats.greet(connection)

    async def leave(self, role: ClientRole) -> None:
        """Tells the brokers that are connected, and waits a little for them to hear it."""
        if role not in self._roles:
            return
        self._roles.remove(role)
        if isinstance(role, ProducerRole):
            if any(isinstance(other, ProducerRole) and other.group == role.group for other in self._roles):
                return
            header = UnregisterClientHeader(client_id=self.id, producer_group=role.group)
        else:
            header = UnregisterClientHeader(client_id=self.id, consumer_group=role.group)
        timeout_ms = min(self.settings.request_timeout_ms, self.settings.close_timeout_ms)
        farewells = [
            self.ask(link, RequestCode.UNREGISTER_CLIENT, header, timeout_ms=timeout_ms)
            for link in self.brokers.ready_links()
        ]
        for outcome in await asyncio.gather(*farewells, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.info("a broker did not hear us leave: group=%s error=%s", role.group, outcome)

    async def takes_stories(self, link: Link) -> bool:
        """Whether the broker behind it takes the story of a failure with a send-back. Raises TransportError."""
        return await self._heartbeats.ask_whether_it_takes_stories(link)

    @property
    def schemas(self) -> TopicSchemas:
        """Schemas of topics, for who sends values or reads by schema; nothing is loaded or asked for before."""
        if self._schemas is None:
            from pyromq.client.schemas.topic_schemas import NAMESPACE, TopicSchemas

            ask = partial(self.nameservers.kv, NAMESPACE, timeout_ms=self.settings.request_timeout_ms)
            self._schemas = TopicSchemas(self.settings.schemas, ask, self.wire_name, self.clock)
        return self._schemas

    # --- names ---

    def wire_name(self, name: str) -> str:
        """A topic or group as servers know it: with the namespace, if there is one."""
        return wrap(self.settings.namespace, name)

    def plain_name(self, name: str) -> str:
        return unwrap(self.settings.namespace, name)

    # --- asking ---

    async def ask(
        self,
        link: Link,
        code: RequestCode,
        header: Ext = None,
        body: bytes = b"",
        *,
        timeout_ms: int = 0,
        expect: Collection[int] = _OK,
    ) -> Received[Any]:
        """A response with one of the expected codes. Raises TransportError, and BrokerError for any other code."""
        self.require_open_or_closing()
        timeout_ms = timeout_ms or self.settings.request_timeout_ms
        response = await link.request(code, self.signer.signed(header, body), body, timeout_ms=timeout_ms)
        if response.code not in expect:
            raise error_of(response)
        return response

    def master_link(self, broker: str) -> Link:
        """To the master of a broker that a route has reported. Raises ConnectFailedError if it has none."""
        address = self.brokers.address(broker)
        if address is None:
            raise ConnectFailedError(f"no master of broker {broker} is known: it is down, or did not register")
        return self.brokers.link(address)

    def require_open(self) -> None:
        if not self._is_open:
            text = "was closed; make a new one" if self._is_closed else "is not open: use it inside async with"
            raise ClientClosedError(f"the client {text}")

    def require_open_or_closing(self) -> None:
        if not self._is_open and not self._is_closed:
            self.require_open()

    # --- heartbeats ---

    async def heartbeat_now(self) -> HeartbeatResult:
        """Tells all known brokers, connecting if need be; those that cannot be reached are logged."""
        return await self._heartbeats.send_all()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_ms / 1000)
            try:
                for link in self.brokers.forget_unrouted(self.routes.all()):
                    logger.info("broker is in no route any more: address=%s", link.address)
                    await link.close(gone="is in no route any more")
                await self.heartbeat_now()
            except Exception:  # a mistake of ours must not end it: a client that is not heard loses its queues
                logger.exception("heartbeats failed, trying again: client=%s", self.id)

    # --- routes ---

    async def _poll_nameservers(self) -> None:
        while True:
            try:
                await self.nameservers.refresh()
            except ConnectFailedError as error:  # a request to a name server tries again, and its caller is informed
                logger.warning("no list of name servers: error=%s", error)
            await asyncio.sleep(REFRESH_MS / 1000)

    async def _poll_routes(self) -> None:
        while True:
            await asyncio.sleep(self.settings.route_poll_ms / 1000)
            wanted = {topic for role in self._roles for topic in role.topics()}
            for topic in sorted(wanted | set(self.routes.topics())):
                try:
                    await self.routes.refresh(topic, timeout_ms=self.settings.request_timeout_ms)
                except Exception as error:  # also a mistake of ours: the next topic, or the next time, may do
                    expected = isinstance(error, MQError)
                    logger.info("route not renewed: topic=%s error=%s", topic, error, exc_info=not expected)
            if self._schemas is not None:
                await self._schemas.renew()

    def _find_masters(self) -> None:
        self._master_watch.look()

    def _route_changed(self, topic: str, route: TopicRoute) -> None:
        self.brokers.learn(route)
        self._find_masters()
        for role in list(self._roles):
            role.route_changed(topic, route)

    # --- connections ---

    def _link(self, address: Address, connect: Any) -> Link:
        return Link(
            address,
            connect=partial(connect, address),
            clock=self.clock,
            rng=self.rng,
            backoff=self.settings.backoff,
        )

    def _link_to_nameserver(self, text: str) -> Link:
        return self._link(Address.parse(text), self._connect_to_nameserver)

    async def _connect_to_nameserver(self, address: Address) -> Connection:
        return await self._connect(address, None)

    async def _connect_to_broker(self, address: Address) -> Connection:
        connection = await self._connect(address, self.callbacks)
        await self.silence.admit(str(address), connection)
        self._heartbeats.greet(connection)
        return connection

    async def _connect(self, address: Address, handler: Handler | None) -> Connection:
        settings = self.settings
        return await open_connection(
            address,
            clock=self.clock,
            handler=handler,
            settings=settings.connection,
            connect_timeout_ms=settings.connect_timeout_ms,
            tls_context=self._tls_context,
            tls_hostname=(settings.tls_settings.hostname or None) if settings.tls_settings else None,
            watch=self._watch,
        )
