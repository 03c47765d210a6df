"""Tasks that are popped: workers share messages instead of queues, so there may be more workers than queues.

    popped ──▶ line (a few) ──▶ take ──▶ out, renewed for as long as its task runs ──▶ ack, retry, dead, release

No queue moves when workers come and go, and a task that was finished is not repeated because one ahead of it was not.
What a worker had when it died comes again when its invisible time is over, which is renewed in small steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.settings import POP_BATCH_MAX, PushConsumerSettings
from pyromq.client.consumer.dispatch.concurrent_service import ConcurrentService
from pyromq.client.consumer.dispatch.orderly_service import OrderlyService
from pyromq.client.consumer.dispatch.runners import Work
from pyromq.client.consumer.group_member import Topics
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.popping.pop_service import PopService
from pyromq.client.consumer.popping.settlements import Settlements
from pyromq.client.consumer.rules.outcome import BatchResult, Outcome, SendBack, decide
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.integrations.acknowledging import NO_TIMEOUT_MS, AcknowledgingConsumer, NoRunner

AHEAD: Final = 4
"""Messages that a worker has popped and not begun: others could begin them at once."""


class PoppedTasks(AcknowledgingConsumer):
    """Consumer of a framework's tasks in pop mode, with the methods of the other one."""

    def __init__(
        self, client: Client, *, group: str, topics: Topics, arrived: Callable[[], object] = lambda: None
    ) -> None:
        settings = PushConsumerSettings(start="earliest", consume_timeout_ms=NO_TIMEOUT_MS, mode="pop")
        super().__init__(client, group=group, topics=topics, arrived=arrived, settings=settings)

    def _make_service(self) -> ConcurrentService | OrderlyService | PopService:
        return super(AcknowledgingConsumer, self)._make_service()

    def _pop_service(self, *parts: Any) -> PopService:
        self._pops = _TaskPops(*parts)
        self._pops.connect(arrived=self._wake, lost=self._lost)
        return self._pops

    def _next_work(self) -> Work[Any] | None:
        return self._pops.next_work()

    def _failures(self) -> FailureRecorder:
        return self._pops.recorder

    def _lost(self, message: LeasedMessage) -> None:
        """What is said of it from now on counts for nothing."""
        self._take_back(message)

    def release(self, message: ReceivedMessage) -> bool:
        """It is visible to every worker again; no attempt is counted. False as ``ack``."""
        if self._take_back(message) is None or not isinstance(message, LeasedMessage):
            return False
        return self._pops.release(message)

    def _end(self, message: ReceivedMessage, verdict: BatchResult | None) -> bool:
        handed_out = self._take_back(message)
        if handed_out is None:
            return False
        self._pops.end(handed_out.owned, handed_out.batch, verdict, self._clock.monotonic_s() - handed_out.since_s)
        return True


class _TaskPops(PopService):
    """Hands out messages when it is asked for them, instead of calling listeners."""

    def connect(self, *, arrived: Callable[[], object], lost: Callable[[LeasedMessage], object]) -> None:
        self._runner = NoRunner(arrived)
        self._on_lost = lost

    @property
    def recorder(self) -> FailureRecorder:
        return self._recorder

    async def room(self) -> int:
        """How many more messages may come; waits until some may."""
        while (free := AHEAD - len(self._line)) <= 0 or self._is_paused:
            self._has_room.clear()
            await self._has_room.wait()
        return min(free, POP_BATCH_MAX)

    def next_work(self) -> Work[Any] | None:
        work = self._next()
        if work is not None:
            self._has_room.set()
        return work

    def end(self, counts: Any, batch: list[ReceivedMessage], verdict: BatchResult | None, seconds: float) -> None:
        self._over(counts, batch, verdict, None, seconds)

    def _outcome(self, batch: list[LeasedMessage], result: Any, error: Exception | None) -> Outcome[LeasedMessage]:
        """Whoever ended the message has said why."""
        if result is None:
            return Outcome(finished=batch)
        return decide(batch, result, model=self._settings.model, ladder=self._settings.retry_levels)

    def release(self, message: LeasedMessage) -> bool:
        if self._running.pop(message, None) is None:
            return False
        self._renewals.discard(message)
        self._settlements.failed(SendBack(message, Settlements.AT_ONCE))
        return True

    def _lost(self, message: LeasedMessage) -> None:
        super()._lost(message)
        self._on_lost(message)

    async def close(self, timeout_ms: int) -> None:
        """What is out is released as well: its tasks have ended, or are ended with this process."""
        self._line += self._running
        self._running.clear()
        await super().close(timeout_ms)
