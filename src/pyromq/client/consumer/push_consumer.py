"""The push consumer on asyncio: messages come to a listener.

    async def handle(message: ReceivedMessage) -> None: ...

    consumer = PushConsumer("10.0.0.1:9876", group="billing", listener=handle, topics={"orders": "new || changed"})
    await consumer.run()              # until Ctrl-C or SIGTERM; or: async with consumer: ...

    pull loops ──▶ QueueBuffer ──▶ ConcurrentService or OrderlyService ──▶ listener ──▶ offsets, or back to the broker

A message counts as consumed when its listener returned; one whose listener raised has failed, and comes again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self, Unpack

from pyromq.client.consumer.base.consume_stats import Totals
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.hook_runner import HookRunner
from pyromq.client.consumer.base.listeners import Listener, MessageListener
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.running_info import HeadOfLine, RunningInfo, head_of_line
from pyromq.client.consumer.base.settings import PushConsumerOptions, PushConsumerSettings, Start
from pyromq.client.consumer.dispatch.concurrent_service import ConcurrentService
from pyromq.client.consumer.dispatch.consume_timeouts import ConsumeTimeouts
from pyromq.client.consumer.dispatch.direct_consume import consume_directly
from pyromq.client.consumer.dispatch.orderly_service import OrderlyService
from pyromq.client.consumer.dispatch.runners import ServiceParts
from pyromq.client.consumer.dispatch.send_back import SendBacks
from pyromq.client.consumer.group_member import GroupMember, Topics
from pyromq.client.consumer.popping.pop_calls import PopCalls
from pyromq.client.consumer.popping.pop_loops import PopLoops
from pyromq.client.consumer.popping.pop_service import PopService
from pyromq.client.consumer.rules.buffer_state import Stage
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.client.consumer.rules.outcome import attempts_max
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.core.client import Client
from pyromq.client.core.hooks import ConsumeHook, with_installed
from pyromq.client.core.options import check_options, checked_group, client_for, with_given
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.stop_signals import stop_signals
from pyromq.client.producer.producer import trace_dispatcher
from pyromq.client.producer.trace import ConsumerTrace, TraceDispatcher, trace_topic_of
from pyromq.errors import NoPermissionError, require
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import Offset, QueueId
from pyromq.model.times import Span, given_ms, given_timeout_ms
from pyromq.waiting import set_within
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from pyromq.wire.json.heartbeat import ConsumeType

_STACKS_MAX: Final = 32  # stacks of listeners, and stories, in a response to an operator
_COUNT_S: Final = 0.02  # how often ``run`` compares what was consumed with what it waits for


class PushConsumer(GroupMember):
    """Consumes as a member of a group: ``listener`` is called with every message, ``batch_listener`` with several.

    ``topics`` is a topic, several topics, or topics with their tags (``{"orders": "new || changed"}``); ``subscribe``
    adds others, and SQL filters. ``start`` says where a group begins that has no offset yet: ``"earliest"``,
    ``"latest"``, or a datetime with time zone. ``orderly=True`` keeps the order of every queue, ``broadcast=True``
    gives every member every message, ``threads`` is for listeners that are functions: see ``PushConsumerOptions``, and
    ``PushConsumerSettings`` for the rest. A keyword wins over ``settings``; None means what ``settings`` or the default
    says. ``client`` is shared with producers and consumers of other groups; without one the consumer has its own.

    A listener whose parameter is annotated with another type than ReceivedMessage gets the body decoded as that
    (``def bill(order: Order)``), with the message as second parameter if it has one. What does not decode is a dead
    letter at once, and so is what a listener raises DeadLetterError for.

    Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        listener: MessageListener | None = None,
        topics: Topics = (),
        start: Start | None = None,
        settings: PushConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        check_options("PushConsumer", options, PushConsumerOptions, PushConsumerSettings)
        limit_ms = given_timeout_ms(
            options.get("consume_timeout_ms"), options.get("consume_timeout"), "consume_timeout"
        )
        invisible_ms = given_ms("invisible", options.get("invisible_ms"), options.get("invisible"))
        given = {**options, "start": start, "consume_timeout_ms": limit_ms, "invisible_ms": invisible_ms}
        self.settings = settings = with_given(PushConsumerSettings, settings, given)
        batch_listener = options.get("batch_listener")
        hooks = with_installed(ConsumeHook, options.get("hooks", ()))
        require(batch_listener is not None or settings.batch_max == 1, "batch_max is for a batch_listener")
        name = checked_group(group)
        self._listener = Listener(
            listener, batch_listener, threads=settings.threads, name=name, exit_wait_s=settings.exit_timeout_ms / 1000
        )
        super().__init__(
            client_for(nameservers, client, options),
            name,
            settings,
            owns_client=client is None,
            options=options,
            consume_type=ConsumeType.CONSUME_POP if settings.mode == "pop" else ConsumeType.CONSUME_PASSIVELY,
            pull=PullSettings(
                pull_interval_ms=settings.pull_interval_ms,
                error_wait_ms=settings.error_wait_ms,
                skip_when_behind=settings.skip_when_behind,
            ),
            orderly=settings.orderly,
        )
        self._consume_timeout_ms = settings.consume_timeout_ms
        self._timeouts: ConsumeTimeouts | PopService | None = None  # while a concurrent consumer is open
        self._pop_loops: PopLoops | None = None  # in pop mode
        self._tracing: TraceDispatcher | None = None
        if topic := trace_topic_of(options.get("trace", False)):
            self._tracing = trace_dispatcher(self.client, name, topic)
            hooks = (*hooks, ConsumerTrace(self._tracing, self.client, name))
        self._hook_runner = HookRunner(hooks, lambda: self._consume_timeout_ms)
        self._hook_runner.wrap(self._listener, name, self._clock)
        self._stop = asyncio.Event()  # what ``run`` waits for
        self._is_run = False  # somebody waits in ``run``
        self._subscribe_all(topics)

    # --- life ---

    async def open(self) -> Self:
        """Consuming begins in the background.

        Raises ConfigError when no topic is subscribed, ClientClosedError; ExpressionRefusedError for an SQL expression
        that brokers cannot use.
        """
        subscribed = [topic for topic in self._subscriptions.wanted if not topic.startswith(RETRY_PREFIX)]
        require(bool(subscribed), "no topic is subscribed: say topics=… or call subscribe() before the consumer opens")
        return await super().open()

    async def _get_ready(self) -> None:
        if self._tracing is not None:
            await self._tracing.open()
        self._service = self._make_service()
        if self._listener.watch is not None:
            self._tasks.start(self._listener.watch.run(), name="loop watch")
        if isinstance(self._service, PopService):
            self._timeouts = self._service
        elif isinstance(self._service, ConcurrentService):  # a slow orderly listener holds its queue: none may overtake
            self._timeouts = ConsumeTimeouts(self._clock, self._consume_timeout_ms, self._service.give_up_on)
            self._tasks.start(self._timeouts.run(self._share.owned.values), name="consume timeouts")
        if self._uses_locks:
            self._every(self.settings.lock_ms, self._share.renew_locks)

    async def run(
        self, *, messages: int | None = None, timeout_ms: int | None = None, timeout: Span | None = None
    ) -> int:
        """Consumes until Ctrl-C, SIGTERM or ``close()``; then finishes what runs, commits and leaves the group.

        With ``messages`` it also ends when listeners have succeeded with that many, with ``timeout`` (a timedelta, or
        seconds) or ``timeout_ms`` when that time is over. Opens the consumer unless it is open. Returns how many
        messages listeners have succeeded with since the consumer was made. Signals are heard on the main thread only.
        Raises what ``open`` raises, and NoPermissionError when access control lets the consumer read nothing.
        """
        timeout_ms = given_ms("timeout", timeout_ms, timeout)
        if not self._is_open:
            await self.open()
        loop = asyncio.get_running_loop()
        try:
            with stop_signals(lambda: loop.call_soon_threadsafe(self._stop.set)):
                await self.run_open(messages, timeout_ms)
        finally:
            await self.close()
        return self.counts.ok

    async def run_open(self, messages: int | None, timeout_ms: int | None) -> None:
        """Waits for what ends ``run``, without signals. Raises NoPermissionError."""
        self._is_run = True
        with suppress(TimeoutError):
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._until_stopped(messages)
        if self.refusal is not None:
            raise self.refusal

    async def _until_stopped(self, messages: int | None) -> None:
        while not self._stop.is_set() and self.refusal is None and (messages is None or self.counts.ok < messages):
            await set_within(self._stop, None if messages is None else _COUNT_S)

    def _on_refusal(self, error: NoPermissionError) -> None:
        if self._is_run:
            self._stop.set()
        else:
            super()._on_refusal(error)

    def stop(self) -> None:
        """Ends ``run``; to be called on the consumer's loop."""
        self._stop.set()

    async def close(self) -> None:
        """Waits for listeners (``close_timeout_ms``), commits, leaves the group, ends ``run``; once is enough."""
        self._stop.set()
        await super().close()

    def _pop_service(self, *parts: Any) -> PopService:
        return PopService(*parts)

    def _make_service(self) -> ConcurrentService | OrderlyService | PopService:
        parts = self._service_parts()
        if self.settings.mode == "pop":
            calls = PopCalls(self.client, self.group)
            service = self._pop_service(parts, calls, self._stats.of)
            wanted = lambda: list(self._subscriptions.effective.values())  # noqa: E731
            self._pop_loops = PopLoops(self.client, calls, self.settings, wanted, service, self._admission.refuse)
            return service
        if self.settings.orderly:
            return OrderlyService(parts, self._share.abandon_soon if self._uses_locks else None)
        return ConcurrentService(parts)

    def _service_parts(self) -> ServiceParts:
        settings = self.settings
        recorder = FailureRecorder(
            self._clock,
            self._hook_runner.masks,
            settings.code_version,
            is_on=settings.failure_stories,
            traceback_bytes=settings.traceback_bytes,
        )
        send_backs = SendBacks(self.client, self._calls, self.group, attempts_max(settings.attempts_max), recorder)
        return ServiceParts(self._listener, settings, self._tasks, send_backs, self._hook_runner, self._clock)

    def _join(self) -> None:
        if self._pop_loops is None:
            super()._join()
            return
        self._subscriptions.take_effect()
        self.client.join(self)
        self._rebalancing = self._tasks.start(self._pop_loops.run(), name="pop")

    async def _settle_in(self) -> None:
        if self._pop_loops is None:
            await super()._settle_in()
            return
        await set_within(self._pop_loops.first_round, self.client.settings.request_timeout_ms / 1000)

    async def _finish(self) -> None:
        try:
            await self._service.close(self.settings.close_timeout_ms)
        finally:
            self._listener.close()
            if self._tracing is not None:
                await self._tracing.close()

    async def _quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        await self._service.quiesce(queues, timeout_ms)

    def _kept(self, owned: OwnedQueue) -> None:
        self._service.arrived(owned)

    # --- settings that may change while it runs ---

    @property
    def consume_timeout_ms(self) -> int:
        """How long a listener may take before its message is given back; a change counts for those that run, too."""
        return self._consume_timeout_ms

    @consume_timeout_ms.setter
    def consume_timeout_ms(self, timeout_ms: int) -> None:
        require(timeout_ms > 0, "consume_timeout_ms must be positive")
        self._consume_timeout_ms = timeout_ms
        if self._timeouts is not None:
            self._timeouts.timeout_ms = timeout_ms

    # --- pausing ---

    def pause(self, queues: Iterable[QueueId] | None = None) -> None:
        """No listener is called any more, for all queues or for some of ours; those that run go on."""
        self._require_open()
        if queues is None:
            self._service.is_paused = self._flow.paused = True
        for owned in self._ours(queues or ()):
            owned.pause()

    def resume(self, queues: Iterable[QueueId] | None = None) -> None:
        """Undoes ``pause``, for the same queues; for all when none are given."""
        self._require_open()
        chosen = self._ours(self._share.owned if queues is None else queues)
        if queues is None:
            self._service.is_paused = self._flow.paused = False
        for owned in chosen:
            owned.resume()
        self._service.resumed(chosen)

    def _ours(self, queues: Iterable[QueueId]) -> list[OwnedQueue]:
        return [owned for queue in queues if (owned := self._share.owned.get(queue))]

    # --- progress ---

    def _note(self, owned: OwnedQueue) -> Offset | None:
        offset = owned.settle().commit_offset()
        if offset is not None:
            self._keeper.table.update(owned.queue, offset)
        return super()._note(owned)

    def arrived(self, owned: OwnedQueue, messages: int, reached: Offset) -> None:
        if len(owned.settle()):
            self._service.arrived(owned)
        else:
            self._keeper.table.update(owned.queue, reached)

    # --- what brokers ask ---

    @property
    def counts(self) -> Totals:
        """What was pulled, consumed and failed since the consumer was made."""
        return self._stats.totals()

    @property
    def flow_counts(self) -> Mapping[Hold, int]:
        """How often each rule of flow control held a pull back since the consumer was made."""
        return self._flow.counts

    @property
    def heads(self) -> list[HeadOfLine]:
        """For each of our queues with messages the one that holds up its offset, and what its listener does."""
        found = [(owned.queue, head) for owned in self._share.owned.values() if (head := owned.settle().head())]
        running = [head for _, head in found if head.stage is Stage.CONSUMING]
        with_stack = {id(head.message) for head in sorted(running, key=lambda head: head.taken_ms)[:_STACKS_MAX]}
        failed = [id(head.message) for _, head in found if head.message.delivery_attempt]
        with_story, now_ms = frozenset(failed[:_STACKS_MAX]), self._clock.now_ms()
        return [
            head_of_line(
                queue,
                head,
                now_ms=now_ms,
                wall_minus_monotonic_ms=now_ms - self._clock.monotonic_ms(),
                stack=self._listener.stack_of(head.message) if id(head.message) in with_stack else None,
                has_story=id(head.message) in with_story,
            )
            for queue, head in found
        ]

    async def consume_directly(self, header: ConsumeDirectlyHeader, message: ReceivedMessage) -> bytes:
        """An operator wants to see what the listener makes of a message; no offset changes."""
        settings = self.settings
        return await consume_directly(
            self._listener, message, self._clock, orderly=settings.orderly, auto_commit=settings.auto_commit
        )

    def _running(self, header: ConsumerRunningInfoHeader) -> RunningInfo:
        settings = self.settings
        options = {
            "consumeMessageBatchMaxSize": settings.batch_max,
            "pullBatchSize": settings.pull_batch,
            "pullThresholdForQueue": settings.limits.messages_max,
            "maxReconsumeTimes": settings.attempts_max,
            "messageModel": settings.model.name,
            "consumeFromWhere": settings.from_where.name,
            "consumeTimeout": self._consume_timeout_ms // 60_000,
            "pyromq.consumeTimeoutMs": self._consume_timeout_ms,
            "pyromq.timedOut": self.counts.timed_out,
            "pyromq.lateVerdicts": self.counts.late,
        }
        return replace(
            super()._running(header),
            orderly=settings.orderly,
            threads=settings.concurrency_max if self._listener.is_coroutine else settings.threads,
            options={name: str(value) for name, value in options.items()},
            heads=self.heads,
        )
