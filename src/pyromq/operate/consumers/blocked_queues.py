"""Blocked queues: the first unfinished message of each queue, and moving such a message out of the way."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.consumer.base.running_info import HeadOfLine
from pyromq.client.consumer.rules.outcome import DEAD_LETTER_LEVEL
from pyromq.client.consumer.rules.retry_copy import story_text
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, MQError
from pyromq.model import property_names as names
from pyromq.model.failure import FailureStory, failure_from_text, story_after
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.group_configs import require_group
from pyromq.operate.consumers.members import ClientState, MemberFacet
from pyromq.operate.offsets import OffsetFacet, OffsetMove
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.json.bodies import PoppedProgress, QueueProgress

HEADS_MAX: Final = 64  # queues whose first message is looked at, those that are furthest behind
_PARKED: Final = failure_from_text("parked", "an operator moved it out of the way")


class BlockedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands in a queue, and the message it stands at.

    Without a lag there is none (``offset`` is None). ``attempt``, ``stage``, ``since_ms`` and ``stack`` are known of
    members that tell; PyroMQ's do.
    """

    queue: QueueId
    committed: int
    end: int
    client_id: str = ""
    offset: int | None = None
    message_id: str = ""
    keys: tuple[str, ...] = ()
    age_ms: int = 0
    attempt: int = 0
    stage: str = ""
    since_ms: int = 0
    stack: str = ""
    story: FailureStory | None = None
    in_flight: int | None = None  # messages that are with consumers of a group that pops; None of one that pulls
    invisible_until_ms: int = 0  # of the message it stands at, in a group that pops; 0 when nobody has it

    @property
    def error(self) -> str:
        """The error that it failed with last, in one line; empty when it did not, or nobody told."""
        return "" if self.story is None else self.story.newest.line

    @property
    def lag(self) -> int:
        return self.end - self.committed


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was moved to the dead letters, and where its queue goes on."""

    move: OffsetMove
    message_id: str
    dead_letter_topic: str


class BlockedQueues:
    """Queues that hold groups up."""

    def __init__(
        self, requests: AdminRequests, members: MemberFacet, offsets: OffsetFacet, stored: StoredMessages
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._members = members
        self._offsets = offsets
        self._stored = stored

    async def worst(self, group: str, topic: str, states: list[ClientState]) -> tuple[BlockedQueue, ...]:
        """Return all queues; the first message of those that are furthest behind is looked at."""
        progress, now_ms = await self._offsets.progress(group, topic), self._client.clock.now_ms()
        behind = {queue: held.broker_offset - held.consumer_offset for queue, held in progress.items()}
        worst = sorted((queue for queue, lag in behind.items() if lag > 0), key=lambda queue: -behind[queue])[
            :HEADS_MAX
        ]
        first = await asyncio.gather(
            *[first_message(self._stored, queue, progress[queue].consumer_offset) for queue in worst]
        )
        messages = dict(zip(worst, first, strict=True))
        return tuple(
            head_of(queue, held, states, messages.get(queue), now_ms) for queue, held in sorted(progress.items())
        )

    async def plan_park(
        self, group: str, queue: QueueId, offset: int | None = None
    ) -> tuple[ReceivedMessage, OffsetMove]:
        """Return the message that ``park`` would move, and the move. Raises NotFoundError, ConfigError."""
        await require_group(self._requests, group)
        committed = await self._offsets.committed(group, queue)
        stands_at = (await self._offsets.range(queue)).min_offset if committed is None else committed
        if offset is not None and offset != stands_at:
            text = f"group {group} stands at offset {stands_at} of this queue, not at {offset}"
            raise ConfigError(f"{text}: only the message that holds the queue up can be parked")
        message = await self._stored.at(queue, stands_at)
        return message, OffsetMove(queue, committed, message.offset + 1)

    async def park(self, group: str, queue: QueueId, offset: int | None = None) -> Parked:
        """Move the message that a queue stands at to the dead letters, then the queue on to the next one."""
        message, move = await self.plan_park(group, queue, offset)
        name = self._client.wire_name(group)
        head = await self._reported_of(group, queue, message)
        attempt = max(message.delivery_attempt, head.attempt if head else 0)
        story = (head.story if head else None) or message.failure_story
        parked = msgspec.structs.replace(_PARKED, attempt=attempt + 1, time_ms=self._client.clock.now_ms())
        header = SendBackHeader(
            position=message.position,
            group=name,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message.get(names.ORIGIN_MESSAGE_ID) or message.offset_message_id,
            origin_topic=message.get(names.RETRY_TOPIC) or message.stored_topic,
            max_reconsume_times=message.delivery_attempt,
            failure_story=story_text(story_after(story, parked)),
        )
        await self._requests.brokers.send_back(queue.broker, header)
        await self._offsets.carry_out(group, [move])
        return Parked(move=move, message_id=message.message_id, dead_letter_topic=f"%DLQ%{name}")

    async def _reported_of(self, group: str, queue: QueueId, message: ReceivedMessage) -> HeadOfLine | None:
        """What the member that has the queue knows of the message: an orderly one counts failures that brokers miss."""
        states = await self._members.states(group)
        heads = (head for state in states for head in state.heads)
        return next((head for head in heads if _is_of(head, queue) and head.offset == message.offset), None)


async def first_message(stored: StoredMessages, queue: QueueId, offset: int) -> ReceivedMessage | None:
    """Return the first message from an offset on; None where there is none, or it cannot be read now."""
    try:
        stretch = await stored.read(queue, offset, count_max=1)
    except MQError:
        return None
    return stretch.messages[0] if stretch.messages else None


def head_of(
    queue: QueueId,
    progress: QueueProgress,
    states: list[ClientState],
    message: ReceivedMessage | None,
    now_ms: int,
) -> BlockedQueue:
    """From what the broker knows of a queue, and what its owner says."""
    owners = [state for state in states if queue in state.queues]  # several, where members broadcast
    slowest = min(owners, key=lambda state: state.queues[queue].commit_offset, default=None)
    owner = slowest.client_id if slowest else ""
    reported = next((head for state in owners for head in state.heads if _is_of(head, queue)), None)
    head = BlockedQueue(queue=queue, committed=progress.consumer_offset, end=progress.broker_offset, client_id=owner)
    if isinstance(popped := progress.popped, PoppedProgress):
        head = msgspec.structs.replace(
            head, in_flight=popped.in_flight, invisible_until_ms=popped.invisible_until, stage=_stage(popped)
        )
    if message is not None:
        counted = popped.attempts - 1 if isinstance(popped, PoppedProgress) else 0
        head = msgspec.structs.replace(
            head,
            offset=message.offset,
            message_id=message.message_id,
            keys=message.keys,
            age_ms=max(0, now_ms - message.stored_ms),
            attempt=max(message.delivery_attempt, counted),
            story=message.failure_story,
        )
    if reported is not None:
        head = msgspec.structs.replace(
            head,
            offset=reported.offset,
            message_id=reported.message_id,
            keys=reported.keys,
            age_ms=head.age_ms if head.offset == reported.offset else reported.age_ms,
            attempt=reported.attempt,
            stage=reported.stage.value,
            since_ms=reported.since_ms,
            stack=reported.stack or "",
            story=reported.story or head.story,
        )
    return head


def _stage(popped: PoppedProgress) -> str:
    if popped.invisible_until:
        return "in flight"
    return "to be delivered again" if popped.attempts else ""


def _is_of(head: HeadOfLine, queue: QueueId) -> bool:
    return (head.topic, head.broker_name, head.queue_id) == (queue.topic, queue.broker, queue.number)
