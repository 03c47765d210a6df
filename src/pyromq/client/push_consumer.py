"""The push consumer on asyncio: messages come to a listener.

    async def handle(message: ReceivedMessage) -> None: ...

    consumer = PushConsumer("10.0.0.1:9876", group="billing", listener=handle)
    consumer.subscribe("orders", "new || changed")
    async with consumer: ...

    pull loops ──▶ QueueBuffer ──▶ ConcurrentService or OrderlyService ──▶ listener ──▶ offsets, or back to the broker

A message counts as consumed when its listener returned; what it raises makes it a failed one, which comes again later.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pyromq.client.client import Client
from pyromq.client.concurrent_service import ConcurrentService
from pyromq.client.consume_stats import Totals
from pyromq.client.consumer_settings import PushConsumerSettings, require
from pyromq.client.group_member import GroupMember
from pyromq.client.listeners import BatchListener, Listener, MessageListener
from pyromq.client.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.orderly_service import OrderlyService
from pyromq.client.outcome import BatchResult, ConsumeStatus, attempts_max
from pyromq.client.owned_queue import OwnedQueue
from pyromq.client.producer import client_settings_of
from pyromq.client.pull_state import PullSettings
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.returns import Returns
from pyromq.client.running_info import QueueInfo, RunningInfo, dump_stacks, encode_running_info, queue_info
from pyromq.client.settings import ClientSettings
from pyromq.model.queue import Offset, QueueId
from pyromq.wire import java_json
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from pyromq.wire.heartbeat import ConsumeType

_VERSION_NAME: Final = "V5_3_3"  # what wire.codes.VERSION stands for


class PushConsumer(GroupMember):
    """Consumes as a member of a group: with ``listener`` message by message, with ``batch_listener`` several at once.

    ``client`` is what it shares with producers and consumers of other groups; without one it has its own, made from
    ``nameservers`` or ``client_settings``. Raises ConfigError, InvalidNameError.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str = "",
        listener: MessageListener | None = None,
        batch_listener: BatchListener | None = None,
        settings: PushConsumerSettings | None = None,
        client_settings: ClientSettings | None = None,
        client: Client | None = None,
    ) -> None:
        settings = settings or PushConsumerSettings()
        self.settings = settings = replace(settings, group=group) if group else settings
        require(batch_listener is not None or settings.batch_max == 1, "batch_max is for a batch_listener")
        super().__init__(
            client or Client(client_settings_of(nameservers, client_settings)),
            settings,
            owns_client=client is None,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            pull=PullSettings(pull_interval_ms=settings.pull_interval_ms, error_wait_ms=settings.error_wait_ms),
            send_expression=False,
            retries=True,
            orderly=settings.orderly,
        )
        self._listener = Listener(listener, batch_listener, threads=settings.threads, name=settings.group)
        self._started_ms = 0

    # --- life ---

    async def open(self) -> None:
        """Connects to nobody yet; consuming begins in the background. Raises ConfigError, ClientClosedError."""
        await super().open()
        self._started_ms = self._clock.now_ms()
        self._service = self._make_service()
        self._tasks.start(self._service.watch(self._share.owned.values), name="consume timeouts")
        if self._uses_locks:
            self._every(self.settings.lock_ms, self._share.renew_locks)

    def _make_service(self) -> ConcurrentService | OrderlyService:
        limit = attempts_max(self.settings.attempts_max, orderly=self.settings.orderly)
        returns = Returns(self.client, self._calls, self.group, limit)
        parts = (self._listener, self.settings, self._tasks, returns)
        if self.settings.orderly:
            return OrderlyService(*parts, self._share.abandon_soon if self._uses_locks else None)
        return ConcurrentService(*parts)

    async def _finish(self) -> None:
        await self._service.close(self.settings.close_timeout_ms)
        self._listener.close()

    async def _quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        await self._service.quiesce(queues, timeout_ms)

    # --- pausing ---

    def pause(self, queues: Iterable[QueueId] | None = None) -> None:
        """No listener is called any more, for all queues or for some of ours; those that run go on."""
        self._require_open()
        if queues is None:
            self._service.is_paused = self._flow.paused = True
        for owned in self._ours(queues or ()):
            owned.paused = True

    def resume(self, queues: Iterable[QueueId] | None = None) -> None:
        """Undoes ``pause``, for the same queues; for all when none are given."""
        self._require_open()
        chosen = self._ours(self._share.owned if queues is None else queues)
        if queues is None:
            self._service.is_paused = self._flow.paused = False
        for owned in chosen:
            owned.paused = False
            owned.changed()
        self._service.resumed(chosen)

    def _ours(self, queues: Iterable[QueueId]) -> list[OwnedQueue]:
        return [owned for queue in queues if (owned := self._share.owned.get(queue))]

    # --- progress ---

    def _note(self, owned: OwnedQueue) -> Offset | None:
        offset = owned.buffer.commit_offset()
        if offset is not None:
            self._keeper.table.update(owned.queue, offset)
        return super()._note(owned)

    def arrived(self, owned: OwnedQueue, messages: int, reached: Offset) -> None:
        if len(owned.buffer):
            self._service.arrived(owned)
        else:
            self._keeper.table.update(owned.queue, reached)

    # --- what brokers ask ---

    @property
    def counts(self) -> Totals:
        """What was pulled, consumed and failed since the consumer was made."""
        return self._stats.totals()

    async def consume_directly(self, header: ConsumeDirectlyHeader, message: ReceivedMessage) -> bytes:
        """An operator wants to see what the listener makes of a message; no offset changes."""
        began, remark = time.perf_counter(), None
        try:
            verdict = _word(await self._listener.invoke([message]))
        except Exception as error:
            verdict, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        answer = {
            "autoCommit": self.settings.auto_commit,
            "consumeResult": verdict,
            "order": self.settings.orderly,
            "remark": remark,
            "spentTimeMills": int((time.perf_counter() - began) * 1000),
        }
        return java_json.dumps(answer)

    def running_info(self, header: ConsumerRunningInfoHeader) -> bytes:
        settings = self.settings
        options = {
            "consumeMessageBatchMaxSize": settings.batch_max,
            "pullBatchSize": settings.pull_batch,
            "pullThresholdForQueue": settings.limits.messages_max,
            "maxReconsumeTimes": settings.attempts_max,
            "messageModel": settings.model.name,
            "consumeFromWhere": settings.from_where.name,
            "consumeTimeout": settings.consume_timeout_ms // 60_000,
        }
        info = RunningInfo(
            name_servers=";".join(self.client.settings.nameservers),
            consume_type=self._consume_type,
            orderly=settings.orderly,
            threads=settings.concurrency_max if self._listener.is_coroutine else settings.threads,
            client_version=_VERSION_NAME,
            started_ms=self._started_ms,
            subscriptions=self._subscriptions.effective.values(),
            queues={queue: self._queue_info(owned) for queue, owned in self._share.owned.items()},
            rates=self._stats.rates(),
            options={name: str(value) for name, value in options.items()},
            stacks=dump_stacks() if header.jstack_enable else None,
        )
        return encode_running_info(info)

    def _queue_info(self, owned: OwnedQueue) -> QueueInfo:
        buffer = owned.buffer
        return queue_info(
            buffer.state(),
            commit_offset=self._note(owned),
            orderly=self.settings.orderly,
            locked=buffer.lock.locked,
            unlocks_tried=buffer.lock.unlocks_tried,
            dropped=buffer.dropped,
            locked_ms=buffer.lock.granted_ms,
            pulled_ms=owned.pull.last_pull_ms,
            consumed_ms=buffer.last_consumed_ms,
            wall_minus_monotonic_ms=self._clock.now_ms() - self._clock.monotonic_ms(),
        )


def _word(result: object) -> str:
    """A listener's result as RocketMQ's tools call it."""
    match result:
        case BatchResult(status) | OrderlyResult(status):
            return _word(status)
        case None | ConsumeStatus.SUCCESS | OrderlyStatus.SUCCESS:
            return "CR_SUCCESS"
        case OrderlyStatus.COMMIT:
            return "CR_COMMIT"
        case OrderlyStatus.ROLLBACK:
            return "CR_ROLLBACK"
        case _:
            return "CR_LATER"
