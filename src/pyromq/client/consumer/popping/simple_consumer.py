"""The simple consumer on asyncio: the application receives messages for a time, and settles each by itself.

    async with SimpleConsumer("10.0.0.1:9876", group="billing", topics="orders") as consumer:
        for message in await consumer.receive():
            async with message:                  # acknowledged at the end, released when the block raises
                await bill(message.body)

Any number of consumers share a topic, message by message: none owns a queue, and none waits for a rebalance. A message
that nobody acknowledges comes again when its invisible time is over, with one attempt more; the broker makes it a dead
letter when its group's attempts are used up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, Self, Unpack

from pyromq.client.consumer.assigning.group_view import Subscriptions
from pyromq.client.consumer.base.expression_check import ExpressionCheck
from pyromq.client.consumer.base.settings import (
    POP_BATCH_MAX,
    SimpleConsumerOptions,
    SimpleConsumerSettings,
    Start,
)
from pyromq.client.consumer.group_member import Topics, expressions_of
from pyromq.client.consumer.popping.leases import LeasedMessage, LeaseHolder
from pyromq.client.consumer.popping.pop_calls import PopCalls, PopTarget, PopTerms
from pyromq.client.consumer.popping.renewals import LeaseRenewals
from pyromq.client.core.client import Client
from pyromq.client.core.options import check_options, checked_group, client_for, with_given
from pyromq.client.core.roles import ConsumerRole
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError, ConfigError, InvalidExpressionError, MQError, NoRouteError, require
from pyromq.model.names import validate_topic
from pyromq.model.times import Span, given_ms, span_ms
from pyromq.wire.json.heartbeat import ConsumerData, ConsumeType, Subscription

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 200  # after a target failed, or had less than it said


class SimpleConsumer(ConsumerRole):
    """Receives messages that are invisible to others for a time: ``receive``, ``ack``, ``release``.

    ``topics`` is a topic, several topics, or topics with their tags. ``start`` is ``"earliest"`` or ``"latest"``, for a
    group that never received. ``invisible`` (60 s) is how long a message is this consumer's, ``wait`` (15 s) how long
    ``receive`` waits for one; ``orderly=True`` gets no message before the one ahead of it in its message group
    (``sharding_key``) is settled. ``SimpleConsumerSettings`` has the rest.

    Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError for an unknown option. What asks a
    broker raises TransportError or BrokerError; what needs an open consumer raises ClientClosedError.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: Topics = (),
        start: Start | None = None,
        settings: SimpleConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[SimpleConsumerOptions],
    ) -> None:
        check_options("SimpleConsumer", options, SimpleConsumerOptions, SimpleConsumerSettings)
        times = {
            "invisible_ms": given_ms("invisible", options.get("invisible_ms"), options.get("invisible")),
            "wait_ms": given_ms("wait", options.get("wait_ms"), options.get("wait")),
        }
        self.settings = with_given(SimpleConsumerSettings, settings, {**options, **times, "start": start})
        self.client = client_for(nameservers, client, options)
        super().__init__(self.client.wire_name(checked_group(group)))
        self._owns_client = client is None
        self._clock = self.client.clock
        self._subscriptions = Subscriptions()
        self._calls = PopCalls(self.client, self.group, self)
        self._renewals = LeaseRenewals(self._calls, self._clock, self._lost)
        self._check = ExpressionCheck(self.client, self.group)
        self._turn = 0  # where the next receive begins
        self._is_open = self._was_open = False
        for topic, expression in expressions_of(topics).items():
            self.subscribe(topic, expression)

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Nothing is received before ``receive``. Raises ClientClosedError, ExpressionRefusedError."""
        if self._was_open:
            raise ClientClosedError("a consumer cannot be opened twice; make a new one")
        self._was_open = True
        if self._owns_client:
            await self.client.open()
        self._tasks = TaskOwner(f"consumer {self.group}")
        try:
            await self._check.require(self._subscriptions.wanted.values())
            self._subscriptions.take_effect()
            self.client.join(self)
        except BaseException:  # close() does nothing for what was never open; raised again
            await self._tasks.close()
            if self._owns_client:
                await self.client.close()
            raise
        self._tasks.start(self._renewals.run(), name="renewals")
        self._is_open = True
        return self

    async def close(self) -> None:
        """Leaves the group. What was received and not settled comes again when its invisible time is over."""
        if not self._is_open:
            return
        self._is_open = False
        async with AsyncExitStack() as stack:  # from the last to the first, also when this is cancelled on the way
            if self._owns_client:
                stack.push_async_callback(self.client.close)
            stack.push_async_callback(self.client.leave, self)
            stack.push_async_callback(self._tasks.close)

    def _require_open(self) -> None:
        if not self._is_open:
            state = "was closed; make a new one" if self._was_open else "is not open: use it inside its with block"
            raise ClientClosedError(f"the SimpleConsumer {state}")

    # --- which messages ---

    def subscribe(self, topic: str, expression: str = "*", *, sql: bool = False) -> None:
        """``"TagA || TagB"``, ``"*"`` for all messages; with ``sql`` an SQL92 expression over properties.

        Raises InvalidNameError, InvalidExpressionError.
        """
        if not isinstance(expression, str):
            raise InvalidExpressionError(f"an expression is text such as 'new || paid', not {expression!r}")
        name = self.client.wire_name(validate_topic(topic))
        self._subscriptions.add(name, expression, sql=sql, now_ms=self._clock.now_ms())
        self._subscriptions.take_effect()

    def unsubscribe(self, topic: str) -> None:
        """Receives nothing of the topic any more; does nothing for a topic that is not subscribed."""
        self._subscriptions.remove(self.client.wire_name(topic))
        self._subscriptions.take_effect()

    def topics(self) -> Collection[str]:
        return list(self._subscriptions.wanted)

    def heartbeat_data(self) -> ConsumerData:
        effective = self._subscriptions.effective
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_POP,
            consume_from_where=self.settings.from_where,
            subscription_data_set=tuple(effective[topic] for topic in sorted(effective)),
        )

    # --- receiving ---

    async def receive(
        self, count_max: int | None = None, *, wait: Span | None = None, invisible: Span | None = None
    ) -> list[LeasedMessage]:
        """Up to ``count_max`` messages (32), as soon as there are some; none when none came within ``wait``.

        ``wait`` and ``invisible`` are timedeltas or seconds, those of the settings by default. Raises NoRouteError when
        no broker has the topics, ExpressionRefusedError, NoPermissionError; TransportError when no broker answered.
        """
        self._require_open()
        settings = self.settings
        terms = PopTerms(
            count=require_count(settings.receive_batch if count_max is None else count_max),
            invisible_ms=settings.invisible_ms if invisible is None else span_ms("invisible", invisible),
            newest=settings.start == "latest",
            order=settings.orderly,
        )
        require(terms.invisible_ms > 0, "invisible must be longer than nothing")
        wait_ms = settings.wait_ms if wait is None else span_ms("wait", wait)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            targets = await self._targets()
            left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            poll_ms = left_ms if len(targets) == 1 else 0
            found, error = await self._receive_once(targets, replace(terms, poll_ms=poll_ms))
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if found or left_ms <= 0 or not self._is_open:
                if error is not None and not found:
                    raise error
                return found
            if error is not None:
                await asyncio.sleep(min(_AGAIN_MS, left_ms) / 1000)
            elif len(targets) > 1:
                await self._notified(targets, left_ms)

    async def _targets(self) -> list[PopTarget]:
        """Every broker of every topic, each time beginning with another one."""
        require(bool(self._subscriptions.effective), "no topic is subscribed: say topics=… or call subscribe()")
        found: list[PopTarget] = []
        error: MQError | None = None
        for topic in self._subscriptions.effective:
            try:
                found += await targets_of(self.client, topic)
            except MQError as failure:
                error = failure
        if not found:
            raise error or NoRouteError(f"no broker has queues of {', '.join(self.topics())} that can be read")
        self._turn += 1
        start = self._turn % len(found)
        return found[start:] + found[:start]

    async def _receive_once(
        self, targets: Sequence[PopTarget], terms: PopTerms
    ) -> tuple[list[LeasedMessage], MQError | None]:
        """What the first target that has something gives; the error is that of the last one, if all failed."""
        errors: list[MQError] = []
        for target in targets:
            try:
                if found := await self._calls.pop(target, self._subscription(target), terms):
                    return found, None
            except MQError as error:
                logger.info("not received: group=%s target=%s error=%s", self.group, target, error)
                errors.append(error)
        return [], errors[-1] if len(errors) == len(targets) else None

    async def _notified(self, targets: Sequence[PopTarget], wait_ms: int) -> None:
        """Wait until one of them has something."""
        order = self.settings.orderly
        asked = [
            asyncio.ensure_future(
                self._calls.has_some(target, self._subscription(target), poll_ms=wait_ms, order=order)
            )
            for target in targets
        ]
        try:
            for each in asyncio.as_completed(asked):
                try:
                    if await each:
                        return
                except MQError as error:
                    logger.info("not notified: group=%s error=%s", self.group, error)
            await asyncio.sleep(_AGAIN_MS / 1000)
        finally:
            for request in asked:
                request.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _subscription(self, target: PopTarget) -> Subscription:
        return self._subscriptions.effective[target.topic]

    # --- settling ---

    async def ack(self, *messages: LeasedMessage) -> None:
        """They never come again; returns when that is as safe as the broker promises for messages.

        Raises LeaseLostError when one of them is not this consumer's any more; the others are acknowledged.
        """
        self._require_open()
        by_broker: dict[str, list[LeasedMessage]] = {}
        for message in messages:
            self._renewals.discard(message)
            by_broker.setdefault(message.broker, []).append(message)
        acks = (self._calls.ack_all(broker, given) for broker, given in by_broker.items())
        for outcome in await asyncio.gather(*acks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def change_invisible(self, message: LeasedMessage, invisible: Span) -> None:
        """From now on it is this consumer's for so long (a timedelta, or seconds). Raises LeaseLostError."""
        self._require_open()
        await self._calls.change(message, span_ms("invisible", invisible))

    async def release(self, message: LeasedMessage, *, delay: Span = 0, counted: bool = True) -> None:
        """Others may have it, at once or after ``delay``; the delivery counts as an attempt unless ``counted=False``.

        Apache's brokers count it in any case. Raises LeaseLostError.
        """
        self._require_open()
        self._renewals.discard(message)
        await self._calls.change(message, span_ms("delay", delay), suspend=not counted)

    # --- ``with message:`` ---

    def entered(self, message: LeasedMessage) -> None:
        """Keep it ours while the block runs."""
        self._require_open()
        if self.settings.renew:
            self._renewals.add(message)

    async def left(self, message: LeasedMessage, *, failed: bool) -> None:
        """Acknowledge it, or release it: what ``async with message:`` does at its end."""
        self._renewals.discard(message)
        if not failed:
            await self._calls.ack(message)
            return
        try:
            await self._calls.change(message, self.settings.release_ms)
        except MQError as error:  # the block's own error is what counts; the message comes again either way
            logger.info("not released, comes again later: id=%s error=%s", message.message_id, error)

    def call(self, message: LeasedMessage, *, failed: bool | None) -> None:
        raise ConfigError("messages of pyromq.aio.SimpleConsumer are for async with message: …")

    def hand_to(self, holder: LeaseHolder) -> None:
        """Messages are held by a face of this consumer: what ``with message:`` does goes there."""
        self._calls.holder = holder

    def _lost(self, message: LeasedMessage) -> None:
        text = "received message belongs to somebody else by now: group=%s id=%s"
        logger.warning(text, self.group, message.message_id)


async def targets_of(client: Client, topic: str) -> list[PopTarget]:
    """The brokers that have queues of a topic. Raises NoRouteError, TransportError."""
    route = await client.routes.get(topic, timeout_ms=client.settings.request_timeout_ms)
    brokers = sorted({queue.broker for queue in route.readable_queues(topic)})
    return [PopTarget(broker, topic) for broker in brokers]


def require_count(count: int) -> int:
    """Check a number of messages. Raises ConfigError."""
    require(
        isinstance(count, int) and 1 <= count <= POP_BATCH_MAX,
        f"a receive asks for 1 to {POP_BATCH_MAX} messages, not {count!r}",
    )
    return count
