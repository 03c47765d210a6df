"""Requests of popping consumers: to the masters, which know what is in flight.

A pop that nobody waits for any more (its task was cancelled) is still answered: what comes is released, uncounted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyromq.client.consumer.base.settings import POP_BATCH_MAX
from pyromq.client.consumer.popping.leases import LeasedMessage, LeaseHolder, Until, give_leases, real_topic
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.received_message import split_as
from pyromq.errors import BrokerError, ClientClosedError, LeaseLostError, MQError
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.pop import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationHeader,
    NotificationResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from pyromq.wire.json.batch_ack import BatchAck, bits_of, encode_batch_ack
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_ANY_QUEUE: Final = -1
_OLDEST, _NEWEST = 0, 1
_ON_ARRIVAL: Final = 0  # the broker's clock counts: by ours it may seem to be too late, and get nothing for ever
_OK: Final = int(ResponseCode.SUCCESS)
_NONE_FOUND: Final = frozenset(
    map(int, (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND))
)
_LOST: Final = frozenset(map(int, (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)))


class PopTarget(NamedTuple):
    """Where to pop: all queues of a topic (as servers know it) on one broker."""

    broker: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PopTerms:
    """Terms of a pop: counts, times and filters."""

    count: int
    invisible_ms: int
    poll_ms: int = 0
    newest: bool = True
    order: bool = False


class PopCalls:
    """In the name of one group. What waits raises TransportError and BrokerError; LeaseLostError for a receipt that
    counts no more."""

    def __init__(self, client: Client, group: str, holder: LeaseHolder | None = None) -> None:
        self._client = client
        self._clock = client.clock
        self._group = group
        self.holder = holder

    # --- receiving ---

    async def pop(self, target: PopTarget, subscription: Subscription, terms: PopTerms) -> list[LeasedMessage]:
        """Messages, at once or within ``poll_ms``; none when none came."""
        pending = asyncio.ensure_future(self._ask_pop(target, subscription, terms))
        try:
            response = await asyncio.shield(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(lambda done: self._unwanted(target, done))
            raise
        return self._messages(target, response)

    async def _ask_pop(self, target: PopTarget, subscription: Subscription, terms: PopTerms) -> Received[Any]:
        header = PopHeader(
            consumer_group=self._group,
            topic=target.topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=min(terms.count, POP_BATCH_MAX),
            invisible_time=terms.invisible_ms,
            poll_time=terms.poll_ms,
            born_time=_ON_ARRIVAL,
            init_mode=_NEWEST if terms.newest else _OLDEST,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            order=terms.order,
        )
        self._client.silence.expect()
        return await self._request(target, RequestCode.POP_MESSAGE, header, terms.poll_ms)

    def _messages(self, target: PopTarget, response: Received[Any]) -> list[LeasedMessage]:
        if response.code in _NONE_FOUND:
            return []
        if response.code != _OK:
            raise error_of(response, topic=self._client.plain_name(target.topic))
        namespace = self._client.settings.namespace
        messages = split_as(LeasedMessage, response.body, target.broker, namespace)
        header = response.header_as(PopResponseHeader)
        give_leases(messages, header, Until.after(self._clock, header.invisible_time), holder=self.holder)
        return messages

    def _unwanted(self, target: PopTarget, done: asyncio.Future[Received[Any]]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        try:
            messages = self._messages(target, done.result())
            if messages:
                self._client.tasks.start(self.release_all(messages), name="release")
        except MQError as error:
            logger.info("messages that nobody waits for come again later: group=%s error=%s", self._group, error)

    async def release_all(self, messages: Sequence[LeasedMessage]) -> None:
        """Visible again at once, and the delivery does not count; what fails comes again when its time is over."""
        changes = (self.change(message, 0, suspend=True) for message in messages)
        for outcome in await asyncio.gather(*changes, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.info("not released, comes again later: group=%s error=%s", self._group, outcome)

    async def has_some(
        self, target: PopTarget, subscription: Subscription, *, poll_ms: int, order: bool = False
    ) -> bool:
        """Whether a pop would find something, now or within ``poll_ms``."""
        header = NotificationHeader(
            consumer_group=self._group,
            topic=target.topic,
            queue_id=_ANY_QUEUE,
            poll_time=poll_ms,
            born_time=_ON_ARRIVAL,
            order=order,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
        )
        response = await self._request(target, RequestCode.NOTIFICATION, header, poll_ms)
        if response.code != _OK:
            raise error_of(response, topic=self._client.plain_name(target.topic))
        return response.header_as(NotificationResponseHeader).has_msg

    async def _request(self, target: PopTarget, code: RequestCode, header: Any, poll_ms: int) -> Received[Any]:
        link = self._client.master_link(target.broker)
        timeout_ms = poll_ms + self._client.settings.request_timeout_ms
        return await link.request(code, self._client.signer.signed(header), timeout_ms=timeout_ms)

    # --- settling ---

    async def ack(self, message: LeasedMessage) -> None:
        """Returns when the acknowledgement is as safe as the broker promises for messages."""
        await message.held.unchanging()
        header = AckHeader(
            consumer_group=self._group,
            topic=real_topic(message, self._group),
            queue_id=message.queue_id,
            extra_info=message.receipt,
            offset=message.offset,
        )
        await self._ask(message.broker, RequestCode.ACK_MESSAGE, header)
        message.held.is_settled = True

    async def ack_all(self, broker: str, messages: Sequence[LeasedMessage]) -> None:
        """Acknowledge several messages of one broker in one request. Raises LeaseLostError when some are not ours."""
        if len(messages) == 1:
            await self.ack(messages[0])
            return
        for message in messages:
            await message.held.unchanging()
        await self._ask(broker, RequestCode.BATCH_ACK_MESSAGE, None, encode_batch_ack(self._batches(messages), broker))
        for message in messages:
            message.held.is_settled = True

    def _batches(self, messages: Sequence[LeasedMessage]) -> list[BatchAck]:
        by_hand_out: dict[tuple[str, ...], list[LeasedMessage]] = {}
        for message in messages:
            start, popped_ms, invisible_ms, number, kind, _, queue, *_ = message.held.words
            key = start, popped_ms, invisible_ms, number, kind, queue, message.stored_topic
            by_hand_out.setdefault(key, []).append(message)
        return [
            BatchAck(
                group=self._group,
                topic=key[6],
                kind=key[4],
                start=int(key[0]),
                queue_id=int(key[5]),
                number=int(key[3]),
                popped_ms=int(key[1]),
                invisible_ms=int(key[2]),
                bits=bits_of(int(key[0]), [message.offset for message in same]),
            )
            for key, same in by_hand_out.items()
        ]

    async def change(self, message: LeasedMessage, invisible_ms: int, *, suspend: bool = False) -> None:
        """Another invisible time from now on; 0 makes the message visible now. ``suspend``: this delivery does not
        count, where the broker knows that."""
        lease = message.held
        await lease.unchanging()
        lease.changing = asyncio.get_running_loop().create_future()
        try:
            await self._change(message, invisible_ms, suspend)
        finally:
            lease.changing.set_result(None)
            lease.changing = None

    async def _change(self, message: LeasedMessage, invisible_ms: int, suspend: bool) -> None:
        until = Until.after(self._clock, invisible_ms)
        header = ChangeInvisibleTimeHeader(
            consumer_group=self._group,
            topic=real_topic(message, self._group),
            queue_id=message.queue_id,
            extra_info=message.receipt,
            offset=message.offset,
            invisible_time=invisible_ms,
            suspend=suspend or None,
        )
        response = await self._ask(message.broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        changed = response.header_as(ChangeInvisibleTimeResponseHeader)
        message.held.renewed(changed, message.offset, until)

    async def _ask(self, broker: str, code: RequestCode, header: Any, body: bytes = b"") -> Received[Any]:
        try:
            return await self._client.ask(self._client.master_link(broker), code, header, body)
        except ClientClosedError:
            raise
        except BrokerError as error:
            if error.code in _LOST:
                raise LeaseLostError(code=error.code, remark=error.remark) from error
            raise
