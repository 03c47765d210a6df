"""What push and pull consumers share: a life, subscriptions, and the part of a group member towards brokers.

GroupMember ──┬─ Rebalancer ── QueueShare      which queues are ours
              ├─ Puller                        one loop per queue
              └─ OffsetKeeper                  how far we are
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeAlias

from pyromq.client.consumer.assigning.group_view import RebalanceView, Subscriptions
from pyromq.client.consumer.assigning.owned_queues import OwnedQueues, QueueCallbacks
from pyromq.client.consumer.assigning.rebalancer import Rebalancer
from pyromq.client.consumer.base.admission import Admission
from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.consume_stats import SAMPLE_MS, ConsumeStats
from pyromq.client.consumer.base.expression_check import ExpressionCheck
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.rebalance_listener import RebalanceListener
from pyromq.client.consumer.base.running_info import RunningInfo, encode_running_info, queue_info
from pyromq.client.consumer.base.settings import ConsumerOptions, MemberSettings
from pyromq.client.consumer.offsets.offset_keeper import BrokerOffsets, FileOffsets, OffsetKeeper
from pyromq.client.consumer.offsets.offsets_file import OffsetsFile, default_folder, offsets_path
from pyromq.client.consumer.offsets.user_offsets import UserOffsets
from pyromq.client.consumer.pulling.puller import PullChoices, Puller, PullTarget
from pyromq.client.consumer.rules.flow_control import FlowControl, FlowDecision, Hold, HoldOff
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.start_offset import StartPlan, Stored, plan_start
from pyromq.client.core.client import Client
from pyromq.client.core.identity import client_id
from pyromq.client.core.options import check_callable
from pyromq.client.core.roles import ConsumerRole
from pyromq.client.core.stack_dump import dump_stacks
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import (
    BrokerError,
    ClientClosedError,
    ConfigError,
    InvalidExpressionError,
    MQError,
    NoPermissionError,
)
from pyromq.model.names import RETRY_PREFIX, validate_topic
from pyromq.model.queue import Offset, QueueId
from pyromq.model.route import TopicRoute
from pyromq.waiting import set_within
from pyromq.wire.headers.shared import ConsumerRunningInfoHeader, ResetOffsetHeader
from pyromq.wire.json.heartbeat import ConsumerData, ConsumeType, MessageModel, Subscription

logger = logging.getLogger(__name__)

Topics: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""What to subscribe: a topic, several topics, or topics with their tag expressions (``{"orders": "new || paid"}``)."""


_VERSION_NAME: Final = "V5_3_3"  # what wire.codes.VERSION stands for
_LASTING_INSTANCE: Final = "DEFAULT"  # RocketMQ's: the file of a broadcasting group must be found again


def expressions_of(topics: Topics) -> Mapping[str, str]:
    """The tag expression of each topic. Raises ConfigError."""
    if isinstance(topics, str):
        topics = [topics]
    if not isinstance(topics, Mapping | Iterable):
        raise ConfigError(f"topics must be a topic, several, or topics with tag expressions, not {topics!r}")
    return topics if isinstance(topics, Mapping) else dict.fromkeys(topics, "*")


class GroupMember(ConsumerRole, PullTarget):
    """A consumer in a group; one that pushes also reads the group's retry topic, an ``orderly`` one locks its queues.

    ``subscribe`` and ``unsubscribe`` say what it reads, ``assignment`` which queues are its own at the moment.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        settings: MemberSettings,
        *,
        owns_client: bool,
        consume_type: ConsumeType,
        pull: PullSettings,
        options: ConsumerOptions,
        orderly: bool = False,
    ) -> None:
        super().__init__(client.wire_name(group))
        self.client = client
        self._owns_client = owns_client
        self._clock = client.clock
        self._common = settings
        self._consume_type = consume_type
        self._is_clustering = settings.model is MessageModel.CLUSTERING
        self._is_orderly = orderly
        self._uses_locks = orderly and self._is_clustering
        self._commits_to_broker = self._is_clustering and settings.offset_store is None
        self._subscriptions = Subscriptions()
        is_push = consume_type is ConsumeType.CONSUME_PASSIVELY
        if is_push and self._is_clustering:
            self._subscriptions.add_retries(self.group, self._clock.now_ms())
        self._started_ms = 0
        self._is_open = False
        self._was_open = False
        self._rebalancing: asyncio.Task[None] | None = None
        self._admission = Admission(self._on_refusal)
        self._calls = BrokerCalls(client, self.group, on_refusal=self._admission.refuse)
        self._check = ExpressionCheck(client, self.group)
        self._keeper = self._offset_keeper()
        self._stats = ConsumeStats(self._clock)
        self._flow = FlowControl(settings.limits, orderly=orderly)
        choices = PullChoices(
            count=settings.pull_batch,
            suspend_ms=settings.suspend_ms,
            timeout_ms=settings.pull_timeout_ms,
            send_expression=not is_push,  # a push consumer tells brokers its expressions in heartbeats
        )
        self._share = OwnedQueues(
            self._calls,
            self._keeper,
            self._clock,
            pull,
            self._stats,
            QueueCallbacks(
                plan=self._plan_start,
                keep_start=self._keep_start,
                pull=Puller(client, self._calls, self, choices).run,
                quiesce=self._quiesce,
                note=self._note,
                kept=self._kept,
                lost=lambda queue: self._rebalancer.lost(queue),
                listener=_rebalance_listener(group, options, settings.close_timeout_ms),
            ),
            uses_locks=self._uses_locks,
        )
        self._view = RebalanceView(client, self._calls, self._subscriptions, self._share, self._flow, self._admission)
        self._rebalancer = Rebalancer(
            self._view, self._share, client.id, settings.assign, settings.model, period_ms=settings.rebalance_ms
        )

    def _offset_keeper(self) -> OffsetKeeper:
        if self._common.offset_store is not None:
            return UserOffsets(self._common.offset_store)
        if self._is_clustering:
            return BrokerOffsets(self._calls)
        settings = self.client.settings
        ip = self.client.id.partition("@")[0]
        lasting_id = client_id(ip, settings.instance_name or _LASTING_INSTANCE, settings.unit_name)
        home = self._common.offsets_folder or default_folder()
        return FileOffsets(OffsetsFile(offsets_path(home, lasting_id, self.group)))

    def _plan_start(self, topic: str, stored: int | Stored) -> StartPlan:
        settings = self._common
        return plan_start(topic, stored, settings.from_where, settings.from_ms, self._view.subscribed(topic))

    async def _keep_start(self, queue: QueueId, offset: Offset) -> None:
        await self._keeper.keep_start(queue, offset)

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Consuming begins in the background; SQL expressions are asked about first.

        One that starts with the newest messages is open when it knows where its queues end, or ``request_timeout_ms``
        is over: what is sent from then on is its own.
        Raises ConfigError, ClientClosedError; ExpressionRefusedError, or the BrokerError of one that knows no SQL.
        """
        if self._was_open:
            raise ClientClosedError("a consumer cannot be opened twice; make a new one")
        self._was_open = True
        self._started_ms = self._clock.now_ms()
        if self._owns_client:
            await self.client.open()
        self._tasks = self._share.tasks = TaskOwner(f"consumer {self.group}")
        try:
            await self._keeper.open()
            await self._check.require(self._subscriptions.wanted.values())
            await self._get_ready()
        except BaseException:  # close() does nothing for what was never open; raised again
            await self._tasks.close()
            await self._keeper.close()
            if self._owns_client:
                await self.client.close()
            raise
        self._join()
        self._every(self._common.persist_ms, self._persist)
        self._every(SAMPLE_MS, self._sample)
        self._is_open = True
        if self._rebalancing is not None and (self._common.start == "latest" or not self._is_clustering):
            try:
                await self._settle_in()
            except BaseException:  # cancelled: who never got it open closes nothing; raised again
                await self.close()
                raise
        return self

    async def _get_ready(self) -> None:
        """What must be there before messages come."""

    async def _settle_in(self) -> None:
        await set_within(self._rebalancer.first_round, self.client.settings.request_timeout_ms / 1000)
        self._view.round_over()

    def _join(self) -> None:
        """Become a member of the group."""
        self._subscriptions.take_effect()
        self.client.join(self)
        self._rebalancing = self._tasks.start(self._rebalancer.run(), name="rebalance")

    async def close(self) -> None:
        """Finishes what runs, commits, unlocks, leaves the group. Does nothing the second time."""
        if not self._is_open:
            return
        self._is_open = False
        async with AsyncExitStack() as stack:  # from the last to the first, also when this is cancelled on the way
            if self._owns_client:
                stack.push_async_callback(self.client.close)
            stack.push_async_callback(self._keeper.close)
            stack.push_async_callback(self.client.leave, self)
            stack.push_async_callback(self._tasks.close)
            stack.callback(self._share.drop_all)
            if self._rebalancing is not None:
                self._rebalancing.cancel()
                await asyncio.gather(self._rebalancing, return_exceptions=True)
            self._share.stop_pulling()
            await self._finish()
            await self._share.notify_all_revoked()
            await self._persist()

    async def _finish(self) -> None:
        """Hand out nothing more, and wait for what was handed out."""

    async def _quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        """Wait until no listener works on these queues, where that matters."""

    def _kept(self, owned: OwnedQueue) -> None:
        """Its messages may be handed out again."""

    def _require_open(self) -> None:
        if not self._is_open:
            state = "was closed; make a new one" if self._was_open else "is not open: use it inside its with block"
            raise ClientClosedError(f"the {type(self).__name__} {state}")

    def _every(self, period_ms: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(period_ms / 1000)
                try:
                    await work()
                except Exception as error:  # next time it may do
                    facts = (self.group, error)
                    expected = isinstance(error, MQError)
                    logger.warning("periodic work failed: group=%s error=%r", *facts, exc_info=not expected)

        self._tasks.start(repeat(), name=getattr(work, "__name__", "periodic"))

    def _note(self, owned: OwnedQueue) -> Offset | None:
        """Bring the offset table up to date with a queue; returns what it says."""
        return self._keeper.table.read(owned.queue)

    async def _persist(self) -> None:
        mine = [owned for owned in self._share.owned.values() if self._share.may_commit(owned)]
        for owned in mine:
            self._note(owned)
        await self._keeper.persist([owned.queue for owned in mine])

    async def _sample(self) -> None:
        self._stats.sample()

    # --- subscriptions ---

    def subscribe(self, topic: str, expression: str = "*", *, sql: bool = False) -> None:
        """``"TagA || TagB"``, ``"*"`` for all messages; again for another expression. ``topics=`` is the short way.

        Best called before the consumer is opened; of an open one the queues are shared out anew.

        With ``sql`` the expression is SQL92 over properties: ``"price > 10 AND region IN ('eu', 'us')"``. Brokers are
        asked about it when the consumer is opened; of an open one a refusal is logged (``poll`` raises it).
        Raises InvalidNameError, InvalidExpressionError.
        """
        if not isinstance(expression, str):
            raise InvalidExpressionError(f"an expression is text such as 'new || paid', not {expression!r}")
        name = self.client.wire_name(validate_topic(topic))
        self._subscriptions.add(name, expression, sql=sql, now_ms=self._clock.now_ms())
        self._rebalancer.wake()
        if self._is_open and sql:
            self._tasks.start(self._check_now(self._subscriptions.wanted[name]), name="check expression")

    def _subscribe_all(self, topics: Topics) -> None:
        """What ``topics=`` of a constructor says. Raises ConfigError, InvalidNameError, InvalidExpressionError."""
        for topic, expression in expressions_of(topics).items():
            self.subscribe(topic, expression)

    async def _check_now(self, subscription: Subscription) -> None:
        try:
            await self._check.require([subscription])
        except BrokerError as error:
            if self._subscriptions.wanted.get(subscription.topic) == subscription:
                self._refused(subscription, error)

    def _refused(self, subscription: Subscription, error: BrokerError) -> None:
        """Brokers cannot use an expression of ours."""
        logger.error("expression refused: topic=%s error=%s", subscription.topic, error)

    def unsubscribe(self, topic: str) -> None:
        """Gives the topic's queues up; does nothing for a topic that is not subscribed."""
        self._subscriptions.remove(self.client.wire_name(topic))
        self._rebalancer.wake()
        if self._is_open and not any(not each.startswith(RETRY_PREFIX) for each in self._subscriptions.wanted):
            logger.warning("no topic is subscribed any more, nothing is consumed: group=%s", self.group)

    @property
    def assignment(self) -> frozenset[QueueId]:
        """The queues that are ours at the moment, with names as servers know them."""
        return frozenset(self._share.owned)

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why access control lets this consumer read nothing; None once a broker has let it in."""
        return self._admission.refusal

    def _on_refusal(self, error: NoPermissionError) -> None:
        """Access control lets this consumer read nothing."""
        logger.error("consumer refused, going on trying: group=%s error=%s", self.group, error)

    # --- as a role of the client ---

    def topics(self) -> Collection[str]:
        return list(self._subscriptions.wanted)

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        self._share.follow_routes()
        if topic in self._subscriptions.wanted:
            self._rebalancer.wake()

    def heartbeat_data(self) -> ConsumerData:
        effective = self._subscriptions.effective
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=self._common.model,
            consume_from_where=self._common.from_where,
            subscription_data_set=tuple(effective[topic] for topic in sorted(effective)),
        )

    def members_changed(self) -> None:
        self._rebalancer.wake()

    def reset_offsets(self, header: ResetOffsetHeader, offsets: Mapping[QueueId, int]) -> None:
        for queue, offset in offsets.items():
            if queue.topic == header.topic and offset >= 0:
                self._share.move(queue, Offset(offset))

    def offsets(self, topic: str) -> Mapping[QueueId, int]:
        for owned in self._share.owned.values():
            self._note(owned)
        return self._keeper.table.of_topic(topic)

    def running_info(self, header: ConsumerRunningInfoHeader) -> bytes:
        return encode_running_info(self._running(header))

    def _running(self, header: ConsumerRunningInfoHeader) -> RunningInfo:
        """Everything a member knows about itself; push consumers add what their listeners do."""
        ahead_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        return RunningInfo(
            name_servers=";".join(self.client.settings.nameservers),
            consume_type=self._consume_type,
            orderly=False,
            threads=0,
            client_version=_VERSION_NAME,
            started_ms=self._started_ms,
            subscriptions=self._subscriptions.effective.values(),
            queues={
                queue: queue_info(
                    owned,
                    commit_offset=self._note(owned),
                    orderly=self._is_orderly,
                    wall_minus_monotonic_ms=ahead_ms,
                )
                for queue, owned in self._share.owned.items()
            },
            rates=self._stats.rates(),
            flow=self._flow.counts,
            stacks=dump_stacks(asyncio.get_running_loop()) if header.jstack_enable else None,
        )

    # --- what pull loops ask and tell ---

    def flow(self, owned: OwnedQueue) -> FlowDecision:
        if not owned.may_hand_out:
            return HoldOff(self._flow.limits.paused_wait_ms, Hold.PAUSED)
        decision = self._flow.check(owned.settle(), locked=not self._uses_locks or owned.lock.held)
        if isinstance(decision, HoldOff) and self._flow.is_worth_a_line(decision.reason):
            state = owned.buffer.state()
            facts = (owned.queue, decision.reason.value, state.message_count, state.size_bytes, owned.buffer.span)
            logger.warning("pulls held back: queue=%s reason=%s messages=%d bytes=%d span=%d", *facts)
        return decision

    def subscription(self, topic: str) -> Subscription | None:
        return self._subscriptions.effective.get(topic)

    def committable(self, owned: OwnedQueue) -> Offset | None:
        return self._note(owned) if self._is_clustering and self._share.may_commit(owned) else None

    def offset_moved(self, owned: OwnedQueue, offset: Offset) -> None:
        logger.warning("offset moved: queue=%s from=%d to=%d", owned.queue, owned.pull.offset, offset)
        self._share.abandon_soon(owned, offset)

    def pull_refused(self, error: NoPermissionError) -> bool:
        return self._admission.refuse(error)


def _rebalance_listener(group: str, options: ConsumerOptions, timeout_ms: int) -> RebalanceListener:
    """Build the rebalance listener from options. Raises ConfigError for what cannot be called with queues."""
    on_assigned, on_revoked = options.get("on_assigned"), options.get("on_revoked")
    for name, given in (("on_assigned", on_assigned), ("on_revoked", on_revoked)):
        if given is not None:
            check_callable(name, given, "a set of queues")
    return RebalanceListener(group, on_assigned, on_revoked, timeout_ms)
