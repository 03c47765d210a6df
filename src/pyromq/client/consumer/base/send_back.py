"""Send-back: a failed message on its way back to a broker, or a copy of it to the group's retry topic.

    rules.send_back_plan ──steps──▶ SendBackCarrier ──36, or a copy──▶ kept (``send_statuses``): it may be finished
                                        │ no step was taken
                                        ├─ consumers (dispatch.send_back)            kept, and tried again here
                                        └─ Spark (pipeline.consuming.send_back)      once more, within ``retryTimeout``

The two carriers differ in where a copy goes and in what makes them take the next step. A group of Spark has no members,
so its retry topic may not exist: brokers create it with the first copy, which therefore goes to the broker of the row.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyromq.client.consumer.base.broker_calls import SEND_BACK_MS, BrokerCalls
from pyromq.client.consumer.rules.retry_copy import FailedMessage, copy_properties, send_back_header
from pyromq.client.consumer.rules.send_back_plan import Fate, SendBackForm, Step, send_back_steps
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.raw_send import send_raw
from pyromq.errors import MQError
from pyromq.model.names import DEFAULT_TOPIC, retry_topic
from pyromq.model.queue import QueueId
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import STORED_CODES, UNSURE_CODES

logger = logging.getLogger(__name__)

FailedT = TypeVar("FailedT", bound=FailedMessage)
Begun = asyncio.Future[Received[Any]]
"""A message that was sent back and waits for the response."""

BODY_FLAGS: Final = SysFlag.COMPRESSED | COMPRESSION_MASK
"""What of a message's flags says how its body is compressed."""
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TAKEN_CODES: Final = STORED_CODES - UNSURE_CODES  # what the next master may lack is not let go of


def is_taken(begun: Begun) -> bool:
    """Whether the response says so; ``send_back`` finds out why not."""
    return not begun.cancelled() and begun.exception() is None and begun.result().code in _TAKEN_CODES


class Content(NamedTuple):
    """What a copy of a failed message is made of."""

    properties: str  # of the original
    origin_id: str  # by which its broker finds the original
    body: bytes
    sys_flag: int = 0  # how the body is compressed
    born_ms: int | None = None  # None: now


class SendBackCarrier(ABC, Generic[FailedT]):
    """Carries messages of one group; ``attempts_max`` None means that of the group, as the broker knows it."""

    next_step_after: type[MQError] = MQError
    """The next step is taken after this error; others end the attempt."""

    def __init__(self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None) -> None:
        self._client = client
        self._calls = calls
        self.group = group
        self._attempts_max = attempts_max
        self.retry_topic = retry_topic(group)

    # --- what differs ---

    @abstractmethod
    async def _content(self, message: FailedT) -> Content:
        """Find what a copy of the message is made of. Raises MQError."""

    @abstractmethod
    async def _send_copies(self, copy: OutgoingMessage, message: FailedT, step: Step) -> None:
        """Send the copy to a queue that takes it. Raises MQError."""

    def _has_body(self, message: FailedT) -> bool:
        return True

    # --- what is the same ---

    def begin(self, message: FailedT, delay_level: int) -> Begun | None:
        """The fast path: a request without a task. None when there is no connection that would take it at once."""
        return self._calls.begin_send_back(message.broker, self._header(message, delay_level))

    async def carry(self, message: FailedT, fate: Fate, begun: Begun | None = None) -> None:
        """Hand the message to a broker, step by step. Raises the MQError of the last step if none is taken.

        ``begun`` is the send-back that the fast path ended with.
        """
        failed: MQError | None = None
        for step in await self._steps(message, fate, is_begun=begun is not None):
            try:
                if step.form is SendBackForm.SEND_BACK:
                    await self._send_back(message, step.delay_level, begun)
                else:
                    await self._send_copies(await self._copy_of(message, step), message, step)
                return
            except self.next_step_after as error:
                failed = error
                logger.info("not taken as %s: id=%s error=%s", step.form.name, message.message_id, error)
        assert failed is not None, "there is at least one step"
        raise failed

    async def _steps(self, message: FailedT, fate: Fate, *, is_begun: bool) -> tuple[Step, ...]:
        steps_of = partial(send_back_steps, message, fate, self._attempts_max, has_body=self._has_body(message))
        steps = steps_of(takes_story=True)
        if (
            is_begun
            or message.unreported_story is None
            or [step.form for step in steps] != [SendBackForm.SEND_BACK, SendBackForm.COPY]
        ):
            return steps
        try:
            return steps_of(takes_story=await self._calls.takes_stories(message.broker))
        except self.next_step_after:  # who cannot be asked takes no send-back, either
            return steps[1:]

    async def _send_back(self, message: FailedT, delay_level: int, begun: Begun | None) -> None:
        response = await (begun or self._calls.send_back(message.broker, self._header(message, delay_level)))
        _check_taken(response)

    def _header(self, message: FailedT, delay_level: int) -> SendBackHeader:
        topic = self._client.wire_name(message.stored_topic)
        return send_back_header(message, self.group, delay_level, topic=topic, attempts_max=self._attempts_max)

    async def _copy_of(self, message: FailedT, step: Step) -> OutgoingMessage:
        content = await self._content(message)
        properties = copy_properties(
            content.properties,
            topic=message.stored_topic,
            message_id=content.origin_id,
            delay_level=step.delay_level,
            story=message.unreported_story,
            more=step.facts,
        )
        return OutgoingMessage(
            code=SEND,
            topic=self.retry_topic,
            body=content.body,
            properties=properties,
            unique_ids="",
            born_ms=self._client.clock.now_ms() if content.born_ms is None else content.born_ms,
            deadline_ms=0,
            flag=message.flag,
            sys_flag=content.sys_flag,
        )

    async def _send_copy(self, copy: OutgoingMessage, queue: QueueId, message: FailedT, step: Step) -> None:
        """The copy counts this failure: with more than ``attempts_max`` then, it is a dead letter. Raises MQError."""
        more = {"j": str(message.delivery_attempt + 1)}
        if step.attempts_max is not None:
            more["l"] = str(step.attempts_max)
        template = (DEFAULT_TOPIC, 1)
        response = await send_raw(
            self._client, copy, queue, group=_INNER_PRODUCER, template=template, more=more, timeout_ms=SEND_BACK_MS
        )
        _check_taken(response)


def _check_taken(response: Received[Any]) -> None:
    """Make sure that it is kept: a second copy is better than none. Raises BrokerError."""
    if response.code not in _TAKEN_CODES:
        raise error_of(response)
