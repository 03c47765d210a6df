"""The pull consumer on asyncio: the application asks for messages when it wants some.

    async with PullConsumer("10.0.0.1:9876", group="reports", topics="orders") as consumer:
        async for message in consumer: ...           # or: await consumer.poll()

The queues of ``topics`` are shared with the other members of the group. ``assign`` takes queues by hand instead; then
the consumer is no member of the group, and only stores its offsets there.

Messages are fetched ahead, within bounds. A message counts as dealt with when the next one is asked for: that is what
automatic commits go by, so a crash repeats what was being worked on rather than skip it. A block that ends without an
exception commits everything that was handed out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self, Unpack

from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.settings import PullConsumerOptions, PullConsumerSettings, Start
from pyromq.client.consumer.group_member import GroupMember, Topics
from pyromq.client.consumer.pulling.poll_queue import PollQueue
from pyromq.client.consumer.rules.flow_control import FlowDecision, GoOn, Hold, HoldOff
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.start_offset import SeekTo, Stored
from pyromq.client.consumer.rules.subscription import subscribe_sql, subscribe_tags
from pyromq.client.core.client import Client
from pyromq.client.core.hooks import ConsumeHook, with_installed
from pyromq.client.core.options import check_options, checked_group, client_for, with_given
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, ConfigError, NoPermissionError, OffsetOutOfRangeError
from pyromq.model.queue import Offset, QueueId
from pyromq.model.times import Span, given_ms
from pyromq.wire.json.heartbeat import ConsumeType, Subscription

logger = logging.getLogger(__name__)

_ASSIGN_AGAIN_MS: Final = 1_000
_YIELD_S: Final = 0.005  # a loop around ``poll`` must not keep heartbeats from leaving


class PullConsumer(GroupMember):
    """Hands out messages when it is asked for them: ``poll``, ``async for``; ``seek`` and ``commit`` move it.

    Arguments are those of PushConsumer, without a listener; ``broadcast``, ``auto_commit``, ``poll_batch`` and
    ``poll_timeout_ms`` are its own options, ``PullConsumerSettings`` has the rest.

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
        settings: PullConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> None:
        check_options("PullConsumer", options, PullConsumerOptions, PullConsumerSettings)
        wait_ms = given_ms("poll_timeout", options.get("poll_timeout_ms"), options.get("poll_timeout"))
        given = {**options, "start": start, "poll_timeout_ms": wait_ms}
        self.settings = settings = with_given(PullConsumerSettings, settings, given)
        super().__init__(
            client_for(nameservers, client, options),
            checked_group(group),
            settings,
            owns_client=client is None,
            options=options,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            pull=PullSettings(error_wait_ms=settings.error_wait_ms, drop_when_illegal=False),
        )
        self._hooks = with_installed(ConsumeHook, options.get("hooks", ()))
        self._group_name = group
        self._assigned: frozenset[QueueId] | None = None
        self._hand_out = PollQueue(settings.limits.messages_max)
        self._yielded = 0.0  # when other tasks last ran on the loop
        self._refusals: dict[Subscription, BrokerError] = {}  # expressions that brokers cannot use
        self._subscribe_all(topics)

    # --- life ---

    async def __aexit__(self, *exc_info: object) -> None:
        if exc_info[0] is not None:
            self.repeat_last()
        await self.close()

    def _join(self) -> None:
        if self._subscriptions.wanted and self._assigned is None and self._rebalancing is None:
            super()._join()

    async def _finish(self) -> None:
        self._settle()
        self._hand_out.news.set()

    async def _persist(self) -> None:
        if self.settings.auto_commit:
            await super()._persist()

    # --- which queues ---

    def subscribe(self, topic: str, expression: str = "*", *, sql: bool = False) -> None:
        """Shares the topic's queues with the group. Raises ConfigError after ``assign``."""
        if self._assigned is not None:
            raise ConfigError("this consumer has its queues by assign(); a consumer does either that or subscribe()")
        super().subscribe(topic, expression, sql=sql)
        if self._is_open:
            self._join()

    def _refused(self, subscription: Subscription, error: BrokerError) -> None:
        self._refusals[subscription] = error
        self._hand_out.news.set()

    def _require_queues(self) -> None:
        if not self._subscriptions.wanted and self._assigned is None:
            raise ConfigError("no topic is subscribed: say topics=…, call subscribe(), or assign() queues by hand")

    def _on_refusal(self, error: NoPermissionError) -> None:
        self._hand_out.news.set()  # ``poll`` raises it

    def _require_usable(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        for subscription in self._subscriptions.wanted.values() if self._refusals else ():
            if subscription in self._refusals:
                raise self._refusals[subscription]

    async def assign(self, queues: Iterable[QueueId], expression: str = "*", *, sql: bool = False) -> None:
        """Takes exactly these queues, whether other consumers read them or not; again for others.

        Raises ConfigError, NoRouteError, InvalidExpressionError, ExpressionRefusedError.
        """
        self._require_open()
        if self._rebalancing is not None or (self._subscriptions.wanted and self._assigned is None):
            raise ConfigError("this consumer has its queues by subscribe(); a consumer does either that or assign()")
        wanted = frozenset(queues)
        for topic in sorted({queue.topic for queue in wanted}):
            await self.client.routes.get(topic, timeout_ms=self.client.settings.request_timeout_ms)
        subscribe = subscribe_sql if sql else subscribe_tags
        filters = {topic: subscribe(topic, expression, 0) for topic in sorted({queue.topic for queue in wanted})}
        await self._check.require(filters.values())
        is_first, self._assigned = self._assigned is None, wanted
        self._subscriptions.wanted = self._subscriptions.effective = filters
        self._view.round_begins()
        await self._share.release(self._share.owned.keys() - wanted)
        await self._take_missing()
        self._view.round_over()
        if is_first:
            self._every(_ASSIGN_AGAIN_MS, self._take_missing)

    async def _keep_start(self, queue: QueueId, offset: Offset) -> None:
        """A reader of assigned queues that commits by hand, or never, leaves nothing at the broker by itself."""
        if self._assigned is None or self.settings.auto_commit:
            await super()._keep_start(queue, offset)

    async def _take_missing(self) -> None:
        """A broker that was not there when a queue was assigned may be there now."""
        if missing := (self._assigned or frozenset()) - self._share.owned.keys():
            await self._share.take(missing)

    async def queues(self, topic: str) -> list[QueueId]:
        """All queues of a topic. Raises NoRouteError."""
        name = self.client.wire_name(topic)
        route = await self.client.routes.get(name, timeout_ms=self.client.settings.request_timeout_ms)
        return route.readable_queues(name)

    # --- messages ---

    async def poll(
        self, timeout_ms: int | None = None, *, timeout: Span | None = None, count_max: int | None = None
    ) -> list[ReceivedMessage]:
        """The next messages, all of one queue; empty when none came in time. Those before count as dealt with.

        Without ``timeout_ms`` or ``timeout`` (a timedelta, or seconds) it is ``poll_timeout_ms`` of the settings; 0
        asks for what is there already. ``count_max`` None means ``poll_batch``. Raises ConfigError when nothing is
        subscribed or assigned, ExpressionRefusedError when brokers cannot use the SQL expression of a subscription,
        NoPermissionError when access control lets the consumer read nothing.
        """
        if timeout is not None:
            timeout_ms = given_ms("timeout", timeout_ms, timeout)
        self._require_open()
        self._require_usable()
        self._settle()
        if self._clock.monotonic_s() - self._yielded > _YIELD_S:
            await asyncio.sleep(0)
            self._yielded = self._clock.monotonic_s()
        began_ms = self._clock.monotonic_ms() if self._hooks else 0
        batch = self._hand_out.next(count_max or self.settings.poll_batch)
        if not batch:
            batch = await self._next_in_time(timeout_ms, count_max or self.settings.poll_batch)
        if batch and self._hooks:
            self._call_hooks(batch, began_ms)
        return batch

    async def _next_in_time(self, timeout_ms: int | None, count_max: int) -> list[ReceivedMessage]:
        batch: list[ReceivedMessage] = []
        self._require_queues()
        timeout_ms = self.settings.poll_timeout_ms if timeout_ms is None else timeout_ms
        if timeout_ms <= 0:
            return batch
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while not batch and self._is_open:
                    self._hand_out.news.clear()
                    await self._hand_out.news.wait()
                    self._require_usable()
                    batch = self._hand_out.next(count_max)
        return batch

    def _call_hooks(self, batch: list[ReceivedMessage], began_ms: int) -> None:
        elapsed_ms = self._clock.monotonic_ms() - began_ms
        for hook in self._hooks:
            try:
                hook.after_poll(batch, self._group_name, elapsed_ms)
            except Exception:  # a hook's mistake must not cost a message
                logger.exception("hook failed after a poll, going on without it")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Ends when the consumer is closed."""
        while self._is_open:
            if not self._hooks and not self._refusals and self._clock.monotonic_s() - self._yielded <= _YIELD_S:
                self._settle()  # as ``poll`` does for what is there already, without a coroutine for each message
                if batch := self._hand_out.next(1):
                    return batch[0]
            if batch := await self.poll(count_max=1):
                return batch[0]
        raise StopAsyncIteration

    def _settle(self) -> None:
        """What was handed out is dealt with."""
        self._note_done(self._hand_out.settle())

    def _note_done(self, done: Mapping[QueueId, int]) -> None:
        for queue, offset in done.items() if self.settings.auto_commit else ():
            self._keeper.table.update(queue, offset)

    def repeat_last(self) -> None:
        """What was handed out last is not done: closing does not commit it."""
        self._hand_out.repeat_all()

    def repeat_from(self, message: ReceivedMessage) -> None:
        """Go back to this message of the last ``poll``, so that the next one begins with it."""
        owned = self._share.owned.get(message.queue)
        if owned is not None and owned.done <= message.offset < owned.position:
            self._hand_out.repeat(owned, message.offset)

    # --- positions ---

    async def seek(self, queue: QueueId, target: int | SeekTo) -> None:
        """Goes on at an offset, or at an end of the queue. Raises OffsetOutOfRangeError; ConfigError if not ours."""
        self._ours(queue)
        first, end = await self._calls.begin(queue), await self._calls.end(queue)
        offset = Offset(target) if isinstance(target, int) else first if target is SeekTo.BEGIN else end
        if not first <= offset <= end:
            raise OffsetOutOfRangeError(requested=offset, first=first, end=end)
        self._go_to(self._ours(queue), offset)

    async def seek_to_time(self, queue: QueueId, time_ms: int) -> None:
        """Goes on at the first message stored at that time or later."""
        self._ours(queue)
        self._go_to(self._ours(queue), await self._calls.offset_at(queue, time_ms))

    def _go_to(self, owned: OwnedQueue, offset: Offset) -> None:
        self._hand_out.forget(owned)
        self._share.seek(owned, offset)
        if self.settings.auto_commit:
            self._keeper.table.reset(owned.queue, offset)

    def position(self, queue: QueueId) -> int:
        """The offset of the next message that ``poll`` will return."""
        return self._ours(queue).position

    async def offset_at(self, queue: QueueId, time_ms: int) -> int:
        """The offset of the first message stored at that time or later."""
        return await self._calls.offset_at(queue, time_ms)

    # --- commits ---

    async def commit(self, offsets: Mapping[QueueId, int] | None = None) -> None:
        """Everything that was handed out, or these offsets; the broker has it when this returns."""
        self._require_open()
        if offsets is None:
            self._hand_out.settle()
            offsets = {queue: owned.position for queue, owned in self._share.owned.items()}
        for queue, offset in offsets.items():
            self._keeper.table.reset(queue, offset)
            if self._commits_to_broker:
                await self._calls.commit_surely(queue, offset)
        if not self._commits_to_broker:
            await self._keeper.persist(offsets)

    async def committed(self, queue: QueueId) -> int | None:
        """How far the group is, as the broker (or the file) has it; None when nothing was ever committed."""
        to_broker = self._commits_to_broker
        stored = await self._calls.stored_offset(queue) if to_broker else await self._keeper.stored(queue)
        return None if isinstance(stored, Stored) else stored

    # --- pausing ---

    def pause(self, queues: Iterable[QueueId] | None = None) -> None:
        """Nothing of these queues (of all, when none are given) is fetched or handed out."""
        for owned in self._chosen(queues):
            owned.pause()

    def resume(self, queues: Iterable[QueueId] | None = None) -> None:
        """Undoes ``pause``, for the same queues; for all when none are given."""
        for owned in self._chosen(queues):
            owned.resume()
            self._hand_out.listed(owned)

    def _chosen(self, queues: Iterable[QueueId] | None) -> list[OwnedQueue]:
        self._require_open()
        return list(self._share.owned.values()) if queues is None else [self._ours(queue) for queue in queues]

    def _ours(self, queue: QueueId) -> OwnedQueue:
        self._require_open()
        owned = self._share.owned.get(queue)
        if owned is None:
            raise ConfigError(f"{queue} is not among the queues of this consumer at the moment")
        return owned

    # --- what pull loops ask and tell ---

    def flow(self, owned: OwnedQueue) -> FlowDecision:
        decision = super().flow(owned)
        if isinstance(decision, GoOn):
            held = sum(len(each.buffer) for each in self._share.owned.values())
            if held >= self.settings.messages_max:
                return HoldOff(self._flow.limits.full_wait_ms, Hold.MESSAGES)
        return decision

    def committable(self, owned: OwnedQueue) -> Offset | None:
        return super().committable(owned) if self.settings.auto_commit else None

    def offset_moved(self, owned: OwnedQueue, offset: Offset) -> None:
        logger.warning("offset moved: queue=%s from=%d to=%d", owned.queue, owned.pull.offset, offset)
        self._go_to(owned, offset)

    def arrived(self, owned: OwnedQueue, messages: int, reached: Offset) -> None:
        if len(owned.buffer):
            self._hand_out.listed(owned)
        elif not owned.is_released and self._hand_out.reached(owned, reached):
            self._note_done({owned.queue: reached})
