"""The pull loop: one task per queue that asks for messages and hands them on, as ``pull_state`` decides.

The next pull leaves as soon as the messages of the one before are in the buffer, so the way to the broker and back is
covered while listeners work; flow control is what holds it back.

A queue may be shorter than what was read of it: without synchronous flush a power failure costs a log its end. The
broker says only where the queue ends now, and what was sent since then lies before that. So the loop goes back to the
first message that was stored after all those it has seen, with a margin for clocks; some may come twice, none is
skipped. (Once the queue has grown beyond where we are, nothing says that there was a cut.)
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.rules.flow_control import FlowDecision
from pyromq.client.consumer.rules.pull_state import Accept, DropQueue, Pull, Stop, Wait
from pyromq.client.consumer.rules.subscription import wanted_messages
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.received_message import PullFacts, ReceivedMessage, split_messages
from pyromq.errors import BrokerError, CorruptRecordError, NoPermissionError, ProtocolError, TransportError
from pyromq.model.queue import Offset
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import PullResponseHeader
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

CLOCKS_APART_MS: Final = 10_000  # of the broker after its restart and before, or of the broker and us

_FOUND: Final = int(ResponseCode.SUCCESS)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_LEVELS: Final = {
    int(ResponseCode.SUBSCRIPTION_NOT_EXIST): logging.INFO,
    int(ResponseCode.SUBSCRIPTION_NOT_LATEST): logging.INFO,
    int(ResponseCode.FLOW_CONTROL): logging.DEBUG,  # repeated after 20 ms
}
"""How loud the refusal of a pull is, where it is no warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullChoices:
    """Settings of a consumer's pulls."""

    count: int
    suspend_ms: int
    timeout_ms: int
    send_expression: bool  # pull consumers need no heartbeat that says what they want


class PullTarget(ABC):
    """What a pull loop needs of its consumer."""

    @abstractmethod
    def flow(self, owned: OwnedQueue) -> FlowDecision: ...

    @abstractmethod
    def subscription(self, topic: str) -> Subscription | None: ...

    @abstractmethod
    def committable(self, owned: OwnedQueue) -> Offset | None:
        """What a pull may commit on its way."""

    @abstractmethod
    def arrived(self, owned: OwnedQueue, messages: int, reached: Offset) -> None:
        """Messages are in the buffer; where there are none at all, everything before ``reached`` was filtered out."""

    @abstractmethod
    def offset_moved(self, owned: OwnedQueue, offset: Offset) -> None:
        """The queue does not have the offset that was asked for: give it up and go on there."""

    @abstractmethod
    def pull_refused(self, error: NoPermissionError) -> bool:
        """Access control refused a pull; whether that is final, and reported already."""


class Puller:
    """``run`` is one queue's loop; it ends when the queue is dropped or it is cancelled."""

    def __init__(
        self,
        client: Client,
        calls: BrokerCalls,
        target: PullTarget,
        choices: PullChoices,
    ) -> None:
        self._client = client
        self._calls = calls
        self._target = target
        self._choices = choices
        self._now_s = client.clock.monotonic_s

    async def run(self, owned: OwnedQueue) -> None:
        state, target = owned.pull, self._target
        while True:
            committable = target.committable(owned)
            step = state.next_step(target.flow(owned), dropped=owned.is_released, committable=committable)
            match step:
                case Pull():
                    if not await self._pull(owned, step):
                        return
                case Wait(wait_ms):
                    await owned.hold(wait_ms)
                case Stop():
                    return

    async def _pull(self, owned: OwnedQueue, step: Pull) -> bool:
        """False when there is nothing more to pull: the queue is going."""
        queue, state, choices = owned.queue, owned.pull, self._choices
        subscription = self._target.subscription(queue.topic)
        if subscription is None:  # unsubscribed a moment ago: the queue is about to go
            await owned.hold(state.failed().wait_ms)
            return True
        began = self._now_s()
        owned.pulled_at = self._calls.read_address(queue.broker, step.broker_id)
        try:
            response = await self._calls.pull(
                queue,
                step,
                subscription,
                count=choices.count,
                suspend_ms=choices.suspend_ms,
                timeout_ms=choices.timeout_ms,
                send_expression=choices.send_expression,
            )
            header = _header_of(response)
            messages = self._messages(owned, response, header) if header and response.code == _FOUND else []
            if response.code == _MOVED and header is not None and header.max_offset < step.offset:
                header = await self._behind_the_cut(owned, header)
        except (TransportError, BrokerError, ProtocolError, CorruptRecordError) as error:
            logger.info("pull failed: queue=%s offset=%d error=%s", queue, step.offset, error)
            self._client.routes.refresh_soon(queue.topic)
            await owned.hold(state.failed().wait_ms)
            return True
        return not owned.is_released and await self._take_in(owned, subscription, response, header, messages, began)

    async def _behind_the_cut(self, owned: OwnedQueue, header: PullResponseHeader) -> PullResponseHeader:
        """The queue lost its end: on with the first message that can be a new one."""
        found = await self._calls.offset_at(owned.queue, owned.newest_ms - CLOCKS_APART_MS)
        offset = max(header.min_offset, min(found, header.next_begin_offset))
        facts = (owned.queue, owned.pull.offset, header.max_offset, offset)
        logger.warning("queue lost its end: queue=%s read_up_to=%d end=%d going_on_at=%d", *facts)
        return msgspec.structs.replace(header, next_begin_offset=offset)

    async def _take_in(
        self,
        owned: OwnedQueue,
        subscription: Subscription,
        response: Received[Any],
        header: PullResponseHeader | None,
        messages: list[ReceivedMessage],
        began: float,
    ) -> bool:
        before = owned.pull.offset
        match owned.pull.answered(response.code, header):
            case Accept(reached, wait, skip_to):
                if messages:
                    owned.newest_ms = messages[-1].stored_ms
                    owned.counts.pulled_some(len(messages), self._now_s() - began)
                    if skip_to is not None:
                        messages = [message for message in messages if message.offset >= skip_to]
                    owned.settle().add(wanted_messages(subscription, messages))
                if skip_to is not None:
                    owned.counts.skipped += skip_to - before
                    logger.warning(
                        "messages skipped, too far behind: queue=%s from=%d to=%d", owned.queue, before, skip_to
                    )
                owned.buffer.reach(reached)
                self._target.arrived(owned, len(messages), reached)
                if wait is not None:
                    await owned.hold(wait.wait_ms)
            case Wait(wait_ms):
                self._refused(owned, response)
                await owned.hold(wait_ms)
            case DropQueue(offset):
                self._target.offset_moved(owned, offset)
                return False
        return True

    def _refused(self, owned: OwnedQueue, response: Received[Any]) -> None:
        error = error_of(response)
        if isinstance(error, NoPermissionError) and not _is_forbidden(response) and self._target.pull_refused(error):
            return
        level = _LEVELS.get(response.code, logging.WARNING)
        facts = (owned.queue, response.code, response.remark)
        logger.log(level, "pull refused: queue=%s code=%d remark=%s", *facts)
        if response.code in _ELSEWHERE:
            self._client.routes.refresh_soon(owned.queue.topic)

    def _messages(
        self, owned: OwnedQueue, response: Received[Any], header: PullResponseHeader
    ) -> list[ReceivedMessage]:
        clock = self._client.clock
        ahead_ms = clock.now_ms() - clock.monotonic_ms()
        facts = PullFacts(header.min_offset, header.max_offset, owned.buffer.taken_ms, ahead_ms)
        namespace = self._client.settings.namespace
        return split_messages(response.body, owned.queue.broker, namespace=namespace, pull=facts)


def _header_of(response: Received[Any]) -> PullResponseHeader | None:
    """None for codes without one. Raises ProtocolError."""
    if response.code in _WITH_HEADER:
        return response.header_as(PullResponseHeader)
    return None


def _is_forbidden(response: Received[Any]) -> bool:
    """Whether an operator has closed broker, topic or group: that passes, a missing right does not."""
    return isinstance(response.header, Mapping) and "forbiddenType" in response.header


_ELSEWHERE: Final = frozenset(
    (int(ResponseCode.TOPIC_NOT_EXIST), int(ResponseCode.SERVICE_NOT_AVAILABLE), int(ResponseCode.SYSTEM_BUSY))
)
"""Another broker may have become the master of that name."""

_WITH_HEADER: Final = frozenset(
    (
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    )
)
