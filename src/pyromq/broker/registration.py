"""Registering with name servers: at the start, every half minute, when topics change, when a connection ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.name_watch import NameWatch
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.topics import Topics
from pyromq.errors import ConnectFailedError, MQError, quoted
from pyromq.model.limits import problem_of_topic
from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion, Perm, TopicConfig
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.net.link import Link
from pyromq.net.nameserver_list import NameServerList
from pyromq.wire.codes import VERSION, RequestCode, ResponseCode
from pyromq.wire.headers.nameserver import (
    BrokerIdentityHeader,
    GetRouteHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
)
from pyromq.wire.json.registration import BrokerRegistration, RegisteredTopics, body_checksum, encode_registration
from pyromq.wire.json.route import decode_route
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_FIRST_RETRY_S = 1.0
_REPORTED_S = 3.0
_ROUTE_TIMEOUT_MS = 3_000
_INHERIT = int(Perm.INHERIT)
TOPICS_PER_PART: Final = 5_000  # of one registration: about a megabyte, and ten milliseconds of a name server
T = TypeVar("T")


class Registrar:
    """Keeps every name server informed. They do not talk to each other, so each gets everything."""

    def __init__(
        self,
        topics: Topics,
        settings: BrokerSettings,
        open_link: Callable[[str], Link],
        *,
        address: str,
        ha_address: str,
        known: NameServerList,
        lease: Lease | None = None,
    ) -> None:
        """``lease``: a master under a failover agent registers while it lasts, with its number as state version."""
        self.topics = topics
        self._settings = settings
        self._address = address
        self.ha_address = ha_address  # where replicas connect
        self.on_registered: Callable[[str | None, str | None], None] = lambda master, replication: None
        self._known = known
        self._open_link = open_link
        self._links = {name: open_link(name) for name in known.addresses}  # by address of the name server
        self._has_list = True  # of an address server; its failures are logged once
        self._left_out: set[str] = set()  # topics that are not registered; each is logged once
        self._changed = asyncio.Event()  # topics changed since the last round began
        self._everything = False  # and the next round tells all of them
        self._round = asyncio.Lock()  # held while one is under way
        self._rounds: set[asyncio.Future[None]] = set()  # those that ``told`` has begun
        self._registered: dict[str, bool] = {}  # how the last attempt ended, by address
        self._registered_all: dict[
            str, Connection | None
        ] = {}  # the connection over which a name server got everything
        self._watched: dict[str, Connection] = {}  # the connection whose end brings about a registration, by address
        self._reported_version: dict[str, DataVersion] = {}  # what the last complete registration said, by address
        self._remarks: dict[str, str] = {}  # the last one of each name server
        self.name_watch = NameWatch(settings, address)
        self._writable = True  # False: routes offer no queue of this broker to producers any more
        self._lease = lease

    @property
    def host(self) -> str:
        """Host of this broker as name servers give it to clients."""
        return Address.parse(self._address).host

    @property
    def registered_with(self) -> list[str]:
        return [name for name, registered in self._registered.items() if registered]

    def topics_changed(self) -> None:
        self._changed.set()

    def register_soon(self) -> None:
        """Everything, at once: this broker may have its name from now on."""
        self._everything = True
        self._changed.set()

    async def leave_routes(self) -> None:
        """From now on producers are not sent here; whoever still comes is served."""
        self._writable = False
        await self.register_now()

    async def register_now(self, *, everything: bool = True) -> None:
        """One round, of what changed if not of everything; name servers out of reach are logged and tried again."""
        async with self._round:  # one at a time: the second round waits for what the first one says
            self._changed.clear()
            await self._look_for_others()
            if self._lease is not None and not self._lease.is_open:  # another broker may have the name by now
                return
            changed = self.topics.take_changes()
            if everything:
                changed = None
            if changed != frozenset():
                await asyncio.gather(*(self._register(name, link, changed) for name, link in self._links.items()))

    async def told(self) -> None:
        """Until name servers know what changed up to now, a few seconds at most: then clients can use it."""
        round_ = asyncio.ensure_future(self.register_now(everything=False))
        self._rounds.add(round_)  # it goes on when no response waits for it any more
        round_.add_done_callback(self._rounds.discard)
        await asyncio.wait((round_,), timeout=_REPORTED_S)

    async def run(self) -> None:
        """Until cancelled: a round every interval, at once after a change, and soon after a failure."""
        everything = True
        while True:
            try:
                await self.register_now(everything=everything)
                failed = len(self.registered_with) < len(self._links) or not self._links
            except Exception:  # a defect must not let the broker vanish from its name servers for good
                logger.exception("registration failed, will be tried again")
                failed = True
            wait_s = _FIRST_RETRY_S if failed else self._settings.register_interval_ms / 1000
            try:
                async with asyncio.timeout(wait_s):  # wait_for of 3.11 loses a cancellation that comes with the event
                    await self._changed.wait()
                everything, self._everything = self._everything, False
            except TimeoutError:
                everything = True

    async def _look_for_others(self) -> None:
        """Ask the address server, if there is one, and follow its list: brokers leave name servers that it drops."""
        try:
            if not await self._known.refresh():
                return
        except ConnectFailedError as error:
            if self._has_list:
                logger.warning("not registered, no list of name servers: error=%s", error)
            self._has_list = False
            return
        self._has_list = True
        wanted = self._known.addresses
        for name in [name for name in self._links if name not in wanted]:
            await self._leave(name, self._links.pop(name))
        self._links |= {name: self._open_link(name) for name in wanted if name not in self._links}

    async def find_queues(self, topic: str) -> list[QueueId] | None:
        """The readable queues of a topic on all brokers, as the first name server that answers knows them.

        None when it knows none. Raises TransportError when no name server answers, RemoteProtocolError.
        """
        lost: MQError | None = None
        for link in self._links.values():
            code, header = RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic)
            try:
                response = await link.request(code, header, timeout_ms=_ROUTE_TIMEOUT_MS)
            except MQError as error:
                lost = error
                continue
            found = response.code == ResponseCode.SUCCESS
            return decode_route(response.body).readable_queues(topic) if found else None
        if lost is not None:
            raise lost
        return None

    async def _register(self, name: str, link: Link, changed: frozenset[str] | None) -> None:
        before = self._registered_all.pop(name, None)
        if before is None or before is not link.ready:  # it may have been started anew since, and know nothing
            changed = None
        try:
            if changed is None and self._registered.get(name):
                await self.name_watch.is_taken(name, link)  # the registration that follows outranks who has it
            response = await self._send(name, link, changed)
            if response.code == ResponseCode.SUCCESS and response.remark:
                self._note_remark(name, response.remark)
                if await self.name_watch.is_taken(name, link):
                    response = await self._send(name, link, None)
        except Exception as error:  # what is wrong with one name server does not keep the others from being informed
            self._note(name, False, f"{type(error).__name__}: {error}")
            return
        if response.code == ResponseCode.SUCCESS:
            self._registered_all[name] = before if changed is not None else link.ready
            self._watch(name, link.ready)
            if self._settings.broker_id:
                answer = response.header_as(RegisterBrokerResponseHeader)
                self.on_registered(answer.master_addr, answer.ha_server_addr)
        self._note(name, response.code == ResponseCode.SUCCESS, response.remark or f"code {response.code}")

    def _watch(self, name: str, connection: Connection | None) -> None:
        """Register again when this connection ends: a name server that restarts knows no broker, and clients wait."""
        if connection is not None and self._watched.get(name) is not connection:
            self._watched[name] = connection
            connection.call_when_closed(self._connection_ended)

    def _connection_ended(self, _connection: Connection) -> None:
        # Not at once: a name server that closes every connection must not be registered with in a busy loop.
        asyncio.get_running_loop().call_later(_FIRST_RETRY_S, self.register_soon)

    async def _send(self, name: str, link: Link, changed: frozenset[str] | None) -> Received[Any]:
        """All parts of a registration; the response to the last, or to the one that was refused."""
        version = self._version()
        response: Received[Any] | None = None
        for body in self._bodies(changed, is_known=self._reported_version.get(name) == version):
            header = RegisterBrokerHeader(
                broker_name=self._settings.name,
                broker_addr=self._address,
                cluster_name=self._settings.cluster,
                ha_server_addr=self.ha_address,
                broker_id=self._settings.broker_id,
                compressed=False,
                body_crc32=body_checksum(body),
            )
            timeout_ms = self._settings.register_timeout_ms
            self._reported_version.pop(name, None)
            response = await link.request(RequestCode.REGISTER_BROKER, header, body, timeout_ms=timeout_ms)
            if response.code != ResponseCode.SUCCESS:
                return response
        assert response is not None
        self._reported_version[name] = version
        return response

    def _note_remark(self, name: str, remark: str) -> None:
        """What a name server did not take, once."""
        if self._remarks.get(name) != remark:
            logger.warning("name server has something to say: address=%s remark=%s", name, quoted(remark, 1_000))
        self._remarks[name] = remark

    def _note(self, name: str, registered: bool, reason: str) -> None:
        """Log what changed, once."""
        if self._registered.get(name) != registered:
            if registered:
                logger.info("registered with name server: address=%s", name)
            else:
                logger.warning("not registered with name server: address=%s reason=%s", name, reason)
        self._registered[name] = registered

    def _version(self) -> DataVersion:
        version = self.topics.table.version
        lease_number = self._lease.state.number if self._lease is not None else 0
        state_version = max(version.state_version, self.name_watch.state_version, lease_number)
        timestamp = version.timestamp + (not self._writable)  # another version: name servers take all topics anew
        return msgspec.structs.replace(version, state_version=state_version, timestamp=timestamp)

    def _bodies(self, changed: frozenset[str] | None, *, is_known: bool) -> Iterator[bytes]:
        """A registration in parts that name servers take in one turn each; nearly always one.

        They put a part beside what they have, and overwrite topics when the version is another than before: so each
        part but the last has a version of its own, unless the name server knows this one already.
        """
        configs, version = self.topics.table.snapshot().topic_config_table, self._version()
        if changed is not None:
            configs = {name: configs[name] for name in changed if name in configs}
        parts = list(batched(configs.values(), TOPICS_PER_PART))
        permission = self._settings.permission | _INHERIT
        if not self._writable:
            permission &= ~int(Perm.WRITE)
        for number, part in enumerate(parts or [()]):
            to_come = max(0, len(parts) - 1 - number)
            table = {
                each.topic_name: msgspec.structs.replace(each, perm=each.perm & permission)
                for each in part
                if not self._is_beyond_limits(each)
            }
            timestamp = version.timestamp if is_known else version.timestamp - to_come
            topics = RegisteredTopics(
                data_version=msgspec.structs.replace(version, timestamp=timestamp), topic_config_table=table
            )
            yield encode_registration(BrokerRegistration(topics=topics), version=VERSION)

    def _is_beyond_limits(self, config: TopicConfig) -> bool:
        """A topic of an older table that name servers would refuse, and all others with it."""
        problem = problem_of_topic(config)
        if problem is not None and config.topic_name not in self._left_out:
            self._left_out.add(config.topic_name)
            logger.error("topic not registered, change or delete it: reason=%s", problem)
        return problem is not None

    async def close(self) -> None:
        """Leave every name server that can be reached."""
        for round_ in self._rounds:
            round_.cancel()
        await asyncio.gather(*self._rounds, return_exceptions=True)
        for name, link in self._links.items():
            await self._leave(name, link)

    async def _leave(self, name: str, link: Link) -> None:
        header = BrokerIdentityHeader(
            broker_name=self._settings.name,
            broker_addr=self._address,
            cluster_name=self._settings.cluster,
            broker_id=self._settings.broker_id,
        )
        if self._registered.pop(name, False):
            try:
                await link.request(RequestCode.UNREGISTER_BROKER, header, timeout_ms=3_000)
            except MQError as error:
                logger.info("could not unregister: address=%s reason=%s", name, error)
        await link.close()


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most that many, in order."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
