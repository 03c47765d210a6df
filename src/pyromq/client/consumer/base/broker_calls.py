"""Requests of a consumer to brokers: members, offsets, locks, messages.

Each queue's requests go to the broker that has it: to its master, or to a replica when there is no master; locks and
send-backs go to the master alone, for a replica's word would mean nothing to the master that comes back. Offsets are
committed one-way, on a connection that is there already: what got lost is said again five seconds later. Commits and
unlocks that follow each other take the same connection, so the next owner of a queue finds the offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from pyromq.client.consumer.rules.pull_state import Pull, pull_flags
from pyromq.client.consumer.rules.start_offset import AskBegin, AskByTime, AskEnd, NotNow, StartAt, StartPlan, Stored
from pyromq.client.core.client import Client
from pyromq.client.core.heartbeats import takes_stories
from pyromq.errors import BrokerError, ConnectFailedError, MQError, NoPermissionError, TransportError
from pyromq.model.queue import Offset, QueueId
from pyromq.model.route import MASTER_ID, TopicRoute
from pyromq.net import Connection, Link
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.consumer import (
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    PullHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    SendBackHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SEND_BACK_MS: Final = 5_000
_UNKNOWN_TIMES: Final = 2  # the first time a heartbeat may have been on its way
_SEND_BACK: Final = RequestCode.CONSUMER_SEND_MSG_BACK
_OK: Final = (int(ResponseCode.SUCCESS),)
_OK_OR_NONE: Final = (*_OK, int(ResponseCode.QUERY_NOT_FOUND))


def _hear_nothing(_: NoPermissionError) -> None:
    """Who asks for offsets hears of a refusal by itself."""


class BrokerCalls:
    """In the name of one group; what waits raises TransportError and BrokerError unless it says otherwise."""

    def __init__(
        self, client: Client, group: str, *, on_refusal: Callable[[NoPermissionError], object] = _hear_nothing
    ) -> None:
        self._client = client
        self._group = group
        self._on_refusal = on_refusal  # access control lets nobody read a queue's offsets
        self._unknown: dict[str, int] = {}  # how often a broker, by address, did not know the group's members

    # --- members ---

    async def members(self, route: TopicRoute) -> list[str] | None:
        """The members of the group, as a broker of the topic knows them; None when none can know now."""
        addresses = [address for broker in route.broker_datas if (address := broker.readable_addr())]
        self._client.rng.shuffle(addresses)
        addresses.sort(key=self._client.silence.is_silent)  # those last
        for address in addresses:
            header = ConsumerGroupHeader(consumer_group=self._group)
            try:
                link = self._client.brokers.link(address)
                response = await self._client.ask(link, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
                return bodies.decode(response.body, bodies.GroupMemberIds).consumer_id_list
            except BrokerError as error:
                self._unknown_at(address, error)
            except MQError as error:
                logger.info("members not known: group=%s broker=%s error=%s", self._group, address, error)
        return None

    def _unknown_at(self, broker: str, error: BrokerError) -> None:
        """A broker that creates no groups takes our heartbeat and forgets it; said when it lasts, once."""
        self._unknown[broker] = times = self._unknown.get(broker, 0) + 1
        logger.info("members not known: group=%s broker=%s error=%s", self._group, broker, error)
        if times == _UNKNOWN_TIMES and not isinstance(error, NoPermissionError):  # heartbeats report that
            logger.warning(
                "group %r: broker %s does not know its members, nothing is consumed; waiting. If the group does not "
                "exist, create it (pyromq group create): error=%s",
                self._group,
                broker,
                error,
            )

    # --- offsets ---

    async def stored_offset(self, queue: QueueId) -> int | Stored:
        """What the broker has stored for the group; not 0 for a queue that lost no message yet (``start_offset``)."""
        header = QueryConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.number, set_zero_if_not_found=False
        )
        response = await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header, expect=_OK_OR_NONE)
        return response.header_as(OffsetResponseHeader).offset if response.code == ResponseCode.SUCCESS else Stored.NONE

    async def carry_out(self, plan: StartPlan, queue: QueueId) -> Offset | None:
        """The offset that a plan leads to; None for ``NotNow``."""
        match plan:
            case StartAt(offset):
                return offset
            case AskEnd():
                return await self.end(queue)
            case AskBegin():
                return await self.begin(queue)
            case AskByTime(time_ms):
                return await self.offset_at(queue, time_ms)
            case NotNow():
                return None

    async def end(self, queue: QueueId) -> Offset:
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.number)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def begin(self, queue: QueueId) -> Offset:
        header = QueueHeader(topic=queue.topic, queue_id=queue.number)
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, header)

    async def offset_at(self, queue: QueueId, time_ms: int) -> Offset:
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.number, timestamp=time_ms)
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def _offset(self, queue: QueueId, code: RequestCode, header: Ext) -> Offset:
        response = await self._ask(queue, code, header)
        return Offset(max(0, response.header_as(OffsetResponseHeader).offset))

    async def _ask(
        self, queue: QueueId, code: RequestCode, header: Ext, *, expect: Collection[int] = _OK
    ) -> Received[Any]:
        try:
            return await self._client.ask(self._link(queue.broker), code, header, expect=expect)
        except NoPermissionError as error:
            self._on_refusal(error)
            raise

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        """One-way; a broker that is not connected hears it next time."""
        for queue, offset in offsets.items():
            header = UpdateConsumerOffsetHeader(
                consumer_group=self._group, topic=queue.topic, queue_id=queue.number, commit_offset=offset
            )
            self._say(queue.broker, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def commit_surely(self, queue: QueueId, offset: int) -> None:
        """Waits for the broker's word."""
        header = UpdateConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.number, commit_offset=offset
        )
        await self._client.ask(self._link(queue.broker), RequestCode.UPDATE_CONSUMER_OFFSET, header)

    # --- locks ---

    async def lock(self, queues: Iterable[QueueId]) -> tuple[set[QueueId], set[QueueId]]:
        """Take or renew; returns those granted and those refused. Where a broker does not answer, neither."""
        by_broker = _by_broker(queues)  # all at once: one that is silent must not make the others' locks run out
        responses = await asyncio.gather(*(self._lock_at(broker, wanted) for broker, wanted in by_broker.items()))
        granted, refused = set[QueueId](), set[QueueId]()
        for wanted, found in zip(by_broker.values(), responses, strict=True):
            if found is not None:
                granted |= found & set(wanted)
                refused |= set(wanted) - found
        return granted, refused

    async def _lock_at(self, broker: str, queues: list[QueueId]) -> set[QueueId] | None:
        try:
            link = self._master(broker)
            response = await self._client.ask(link, RequestCode.LOCK_BATCH_MQ, None, self._lock_body(queues))
            return set(bodies.decode(response.body, bodies.LockResponse).granted)
        except MQError as error:
            logger.warning("locks not renewed: group=%s broker=%s error=%s", self._group, broker, error)
            return None

    def unlock(self, queues: Iterable[QueueId]) -> None:
        """One-way, behind the commits of these queues."""
        for broker, given in _by_broker(queues).items():
            self._say(broker, RequestCode.UNLOCK_BATCH_MQ, None, self._lock_body(given))

    def _lock_body(self, queues: list[QueueId]) -> bytes:
        return bodies.encode(
            bodies.LockRequest(consumer_group=self._group, client_id=self._client.id, mq_set=tuple(queues))
        )

    # --- messages ---

    async def pull(
        self, queue: QueueId, step: Pull, subscription: Subscription, *, count: int, suspend_ms: int, timeout_ms: int,
        send_expression: bool,
    ) -> Received[Any]:  # fmt: skip
        """The response, whatever its code. Raises TransportError."""
        flags = pull_flags(commit=step.commit_offset is not None, subscription=send_expression)
        header = PullHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.number,
            queue_offset=step.offset,
            max_msg_nums=count,
            sys_flag=flags,
            commit_offset=step.commit_offset or 0,
            suspend_timeout_millis=suspend_ms,
            subscription=subscription.sub_string if send_expression else None,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
        )
        link = self._link(queue.broker, step.broker_id)
        self._client.silence.expect()
        return await link.request(RequestCode.PULL_MESSAGE, self._client.signer.signed(header), timeout_ms=timeout_ms)

    def read_address(self, broker: str, broker_id: int) -> str | None:
        """Where a pull goes now: as routes are, to the member of that id, or else to one that can be read."""
        brokers = self._client.brokers
        return brokers.address(broker, broker_id) or brokers.readable_address(broker)

    async def send_back(self, broker: str, header: SendBackHeader) -> Received[Any]:
        """36: the broker delivers the message again later, or it is a dead letter; the response, whatever its code."""
        signed = self._client.signer.signed(header)
        return await self._master(broker).request(_SEND_BACK, signed, timeout_ms=SEND_BACK_MS)

    async def takes_stories(self, broker: str) -> bool:
        """Whether ``send_back`` may say why a message failed."""
        return await self._client.takes_stories(self._master(broker))

    def begin_send_back(self, broker: str, header: SendBackHeader) -> asyncio.Future[Received[Any]] | None:
        """Begin a send-back without waiting and return its future; None when the connection is missing or congested, or
        when the broker is not known to take the failure story of the header.
        """
        if self._client.brokers.address(broker, MASTER_ID) is None:
            return None
        connection = self._master(broker).ready
        if connection is None or connection.is_congested:
            return None
        if header.failure_story is not None and not takes_stories(connection):
            return None
        return connection.request_nowait(_SEND_BACK, self._client.signer.signed(header), timeout_ms=SEND_BACK_MS)

    # --- links ---

    def _link(self, broker: str, broker_id: int = 0) -> Link:
        address = self.read_address(broker, broker_id)
        if address is None:
            raise ConnectFailedError(f"no address of broker {broker} is known: it is down, or did not register")
        return self._client.brokers.link(address)

    def _master(self, broker: str) -> Link:
        address = self._client.brokers.address(broker, MASTER_ID)
        if address is None:
            raise ConnectFailedError(f"broker {broker} has no master at the moment: it is down, or did not register")
        return self._client.brokers.link(address)

    def _say(self, broker: str, code: RequestCode, header: Ext, body: bytes = b"") -> None:
        try:
            connection: Connection | None = self._link(broker).ready
            if connection is None:
                raise ConnectFailedError(f"broker {broker} is not connected")
            connection.request_oneway(code, self._client.signer.signed(header, body), body)
        except TransportError as error:
            logger.info("not said: group=%s code=%d broker=%s error=%s", self._group, code, broker, error)


def _by_broker(queues: Iterable[QueueId]) -> dict[str, list[QueueId]]:
    found: dict[str, list[QueueId]] = {}
    for queue in sorted(queues):
        found.setdefault(queue.broker, []).append(queue)
    return found
