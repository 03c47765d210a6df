"""A consumer that hands out messages one by one and is informed about each, in any order, what became of it.

    take ──▶ message ──┬─ ack        it is done
                       ├─ retry      a copy of it comes again later (send-back), counted; too often: a dead letter
                       ├─ dead       it is a dead letter (%DLQ%group)
                       └─ release    it waits again, as if it had never been handed out

Task frameworks need this: a task runs for as long as it takes, on whatever thread or process, and tasks end in another
order than they began. The offset of a queue is committed up to its smallest unfinished message, a moment after each
word. So whatever was handed out and not finished when a process dies is delivered again, to another member or to the
next one; and with it those behind it in the same queue that were finished already.

A queue moves to another member when members come or go. The one that has it hands out nothing more of it and finishes
what is out; the next one waits as long (``handover_ms``) before it begins. What takes longer is delivered there, too,
and what is said about it here counts for nothing: ``ack`` and the others return False, and a warning is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.dispatch.concurrent_service import ConcurrentService
from pyromq.client.consumer.dispatch.orderly_service import OrderlyService
from pyromq.client.consumer.dispatch.runners import ListenerRunner, Work
from pyromq.client.consumer.group_member import Topics
from pyromq.client.consumer.offsets.offset_keeper import BrokerOffsets, OffsetKeeper
from pyromq.client.consumer.popping.pop_service import PopService
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.consumer.rules.outcome import (
    BROKER_CHOOSES,
    DEAD_LETTER_LEVEL,
    BatchResult,
    ConsumeStatus,
)
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.sync.consumers import ConsumerFace
from pyromq.client.sync.faces import blocking, on_loop
from pyromq.client.sync.loop_thread import loop_thread
from pyromq.errors import ConfigError
from pyromq.model.delay_levels import level_after, level_before
from pyromq.model.property_names import TIMER_DELIVER_MS
from pyromq.model.queue import QueueId

logger = logging.getLogger(__name__)

COMMIT_MS: Final = 50
"""Until the broker hears that messages are done: what a crash repeats of them."""
EARLY_MS: Final = 1_000
"""How much before its time a delayed message may come: Apache RocketMQ's timers know whole seconds."""
HANDOVER_MS: Final = 3_000
"""How long a queue that moves to another member may take: for tasks that are shorter none runs twice."""
_FINISH_PERCENT: Final = 80  # of that time, to finish; the rest is for the last commit, and for news that travel
REQUEUED: Final = "requeued"
REJECTED: Final = "rejected"
"""What messages tell in place of the class of an error, where a framework gives none."""
Why: TypeAlias = BaseException | str | None
"""Why a task failed, as far as its framework says so."""
NO_TIMEOUT_MS: Final = 365 * 86_400_000
"""Messages stay out for as long as their tasks take; the framework has time limits of its own."""


def _tasks_only(message: ReceivedMessage) -> None:
    raise ConfigError("this group runs tasks of a framework: a message cannot be consumed directly")


class AcknowledgingConsumer(PushConsumer):
    """A member of a group without a listener; ``arrived`` is called on the loop when there may be messages.

    A group without offsets begins with the oldest messages. Methods belong to the loop; ``SyncAcknowledgingConsumer``
    is for threads. Raises what PushConsumer raises.
    """

    def __init__(
        self,
        client: Client,
        *,
        group: str,
        topics: Topics,
        arrived: Callable[[], object] = lambda: None,
        handover_ms: int = HANDOVER_MS,
        settings: PushConsumerSettings | None = None,
    ) -> None:
        self._handover_ms = handover_ms
        settings = settings or PushConsumerSettings(start="earliest", consume_timeout_ms=NO_TIMEOUT_MS)
        super().__init__(client=client, group=group, topics=topics, listener=_tasks_only, settings=settings)
        self._arrived = arrived
        self._news = asyncio.Event()
        self._ended = asyncio.Event()  # a message is not out any more
        self._out: dict[ReceivedMessage, _HandedOut] = {}
        self._commit_at: asyncio.TimerHandle | None = None  # when what is done will be committed
        self._committed: dict[QueueId, int] = {}  # what was said then; all of it is said again every few seconds

    # --- life ---

    def _make_service(self) -> ConcurrentService | OrderlyService | PopService:
        self._acknowledging = _AcknowledgingService(self._service_parts())
        self._acknowledging.connect(arrived=self._wake, finished=self._commit_soon)
        return self._acknowledging

    def _wake(self) -> None:
        self._news.set()
        self._arrived()

    async def _finish(self) -> None:
        self._news.set()
        await super()._finish()
        if self._commit_at is not None:
            self._commit_at.cancel()
        if self._out:
            logger.info(
                "closed with unfinished messages, they come again: group=%s count=%d", self.group, len(self._out)
            )
        self._out.clear()

    def _offset_keeper(self) -> OffsetKeeper:
        return _LateOffsets(self._calls, self._others_finish)

    async def _others_finish(self, queue: QueueId) -> None:
        """Another member may have had the queue until now, and may be at work on it."""
        if self._handover_ms and (route := self.client.routes.known(queue.topic)) is not None:
            members = await self._calls.members(route)
            if members is None or len(members) > 1:
                await asyncio.sleep(self._handover_ms / 1000)

    async def _quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        leaving = set(queues)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._handover_ms * _FINISH_PERCENT / 100_000):
                while self._counts_of(leaving):
                    self._ended.clear()
                    await self._ended.wait()
        for owned, count in self._counts_of(leaving).items():
            text = "queue goes to another member while its tasks run, they may run again there: queue=%s tasks=%d"
            logger.warning(text, owned.queue, count)

    def _counts_of(self, queues: Collection[OwnedQueue]) -> Counter[OwnedQueue]:
        """How many messages of these are out; those without are left out."""
        return Counter(handed_out.owned for handed_out in self._out.values() if handed_out.owned in queues)

    # --- messages ---

    async def take(self, count_max: int = 1, timeout_ms: int | None = None) -> list[ReceivedMessage]:
        """The next messages, at least one unless the time is up or the consumer is closed; None waits for ever."""
        self._require_open()
        batch = self.take_nowait(count_max)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not batch and self._is_open:
                    self._news.clear()
                    await self._news.wait()
                    batch = self.take_nowait(count_max) if self._is_open else []
        return batch

    def take_nowait(self, count_max: int = 1) -> list[ReceivedMessage]:
        """Take messages that are there already."""
        batch: list[ReceivedMessage] = []
        while len(batch) < count_max and (work := self._next_work()) is not None:
            owned, messages = work
            message = messages[0]
            self._out[message] = _HandedOut(owned, messages, self._clock.monotonic_s())
            if (early_ms := self._early_ms(message)) > EARLY_MS:  # the broker knows no timers
                self._end(message, BatchResult(ConsumeStatus.RETRY, delay_level=level_before(early_ms)))
            else:
                batch.append(message)
        return batch

    def _next_work(self) -> Work[Any] | None:
        return self._acknowledging.next_work()

    def _failures(self) -> FailureRecorder:
        return self._acknowledging.recorder

    def _early_ms(self, message: ReceivedMessage) -> int:
        due = message.get(TIMER_DELIVER_MS)
        return int(due) - self._clock.now_ms() if due is not None and due.isdigit() else 0

    @property
    def out(self) -> int:
        """How many messages are handed out."""
        return len(self._out)

    def ack(self, message: ReceivedMessage) -> bool:
        """It is done; False when that does not count: its queue is another member's, or it was ended before."""
        return self._end(message, None)

    def retry(self, message: ReceivedMessage, delay_ms: int | None = None, *, error: Why = None) -> bool:
        """It comes again, to any member, after at least this time (rounded up to a delay level) or as the broker says.

        A broker that cannot be reached hears of it later. Too many failures make it a dead letter. ``error`` is why,
        and travels with it. False as ``ack``.
        """
        level = BROKER_CHOOSES if delay_ms is None else level_after(delay_ms)
        self._report(message, error, REQUEUED)
        return self._end(message, BatchResult(ConsumeStatus.RETRY, delay_level=level))

    def dead(self, message: ReceivedMessage, *, error: Why = None) -> bool:
        """It is a dead letter, with the error if there is one. False as ``ack``."""
        self._report(message, error, REJECTED)
        return self._end(message, BatchResult(ConsumeStatus.RETRY, delay_level=DEAD_LETTER_LEVEL))

    def _report(self, message: ReceivedMessage, error: Why, word: str) -> None:
        if message not in self._out:
            return
        recorder = self._failures()
        if isinstance(error, BaseException):
            recorder.raised([message], error)
        else:
            recorder.said([message], word, error or "")

    def release(self, message: ReceivedMessage) -> bool:
        """It waits again, before those behind it; no attempt is counted. False as ``ack``."""
        handed_out = self._take_back(message)
        if handed_out is None or handed_out.owned.is_released:
            return False
        handed_out.owned.settle().put_back([message], failed=False)
        self._acknowledging.arrived(handed_out.owned)
        return True

    def _take_back(self, message: ReceivedMessage) -> _HandedOut | None:
        self._ended.set()
        return self._out.pop(message, None)

    def _end(self, message: ReceivedMessage, verdict: BatchResult | None) -> bool:
        handed_out = self._take_back(message)
        if handed_out is None:
            return False
        owned = handed_out.owned
        seconds = self._clock.monotonic_s() - handed_out.since_s
        self._acknowledging.end(owned, handed_out.batch, verdict, seconds)
        if owned.is_released:
            text = "task ended after its queue went to another member, where it may run again: queue=%s offset=%d id=%s"
            logger.warning(text, owned.queue, message.offset, message.message_id)
            return False
        return True

    # --- progress ---

    def _commit_soon(self) -> None:
        if self._commit_at is None and self._is_open:
            self._commit_at = asyncio.get_running_loop().call_later(COMMIT_MS / 1000, self._commit_now)

    def _commit_now(self) -> None:
        self._commit_at = None
        if self._is_open:
            found = {queue: self._note(owned) for queue, owned in self._share.owned.items()}
            offsets = {queue: offset for queue, offset in found.items() if offset is not None}
            self._calls.commit(
                {queue: offset for queue, offset in offsets.items() if offset != self._committed.get(queue)}
            )
            self._committed = dict(offsets)


class _LateOffsets(BrokerOffsets):
    """Where a queue goes on is asked when its last member has had time to finish."""

    def __init__(self, calls: BrokerCalls, others_finish: Callable[[QueueId], Awaitable[None]]) -> None:
        super().__init__(calls)
        self._others_finish = others_finish

    async def stored(self, queue: QueueId) -> int | Stored:
        await self._others_finish(queue)
        return await super().stored(queue)


@dataclass(frozen=True, slots=True)
class _HandedOut:
    owned: Any  # an OwnedQueue; in pop mode the counters of the topic
    batch: list[ReceivedMessage]  # the message alone, in the list that hooks know
    since_s: float


class _AcknowledgingService(ConcurrentService):
    """Hands out messages when it is asked for them, instead of calling listeners."""

    @property
    def recorder(self) -> FailureRecorder:
        return self._recorder

    def _report(self, failed: list[ReceivedMessage], error: Exception | None) -> None:
        """Whoever ends a message says why."""

    def connect(self, *, arrived: Callable[[], object], finished: Callable[[], object]) -> None:
        self._finished = finished
        self._runner = NoRunner(arrived)

    def next_work(self) -> Work[OwnedQueue] | None:
        return self._next()

    def end(self, owned: OwnedQueue, batch: list[ReceivedMessage], verdict: BatchResult | None, seconds: float) -> None:
        self._over(owned, batch, verdict, None, seconds)
        owned.made_room(self._messages_max)
        self._finished()

    def _sent_back(self, owned: OwnedQueue, message: ReceivedMessage, is_sent: bool) -> None:
        super()._sent_back(owned, message, is_sent)
        self._finished()


class NoRunner(ListenerRunner[Any]):
    """Where others call listeners, this one says that there are messages."""

    def __init__(self, arrived: Callable[[], object]) -> None:
        self._arrived = arrived

    def wake(self) -> None:
        self._arrived()

    async def close(self, timeout_ms: int) -> bool:
        """Nothing runs here; the framework has ended its tasks, or they come again."""
        return True


class SyncAcknowledgingConsumer(ConsumerFace[AcknowledgingConsumer]):
    """``AcknowledgingConsumer`` for threads: acknowledgements are passed on to the loop and not waited for."""

    @classmethod
    def opened(cls, inner: AcknowledgingConsumer) -> Self:
        """The face of a consumer that is open, on the loop thread of this process."""
        face = cls(inner)
        face._thread = loop_thread()
        face._thread.acquire()
        face._was_open = True
        return face

    take = blocking(AcknowledgingConsumer.take)
    pause = on_loop(AcknowledgingConsumer.pause)
    resume = on_loop(AcknowledgingConsumer.resume)

    def ack(self, message: ReceivedMessage) -> None:
        """Acknowledge a message: it is done."""
        self._open_thread().soon(self.inner.ack, message)

    def retry(self, message: ReceivedMessage, delay_ms: int | None = None, *, error: Why = None) -> None:
        """It comes again, after at least this time."""
        self._open_thread().soon(partial(self.inner.retry, error=error), message, delay_ms)

    def dead(self, message: ReceivedMessage, *, error: Why = None) -> None:
        """It is a dead letter."""
        self._open_thread().soon(partial(self.inner.dead, error=error), message)

    def release(self, messages: Sequence[ReceivedMessage]) -> None:
        """They wait again, as if they had never been handed out."""
        for message in reversed(messages):
            self._open_thread().soon(self.inner.release, message)
