"""Blocked queues: the first unfinished message of each queue, and moving such a message out of the way."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from pyromq.client.admin.lookup import LookupAdmin
from pyromq.client.admin.offsets import OffsetAdmin, OffsetMove
from pyromq.client.consumer.base.running_info import HeadOfLine, QueueInfo, heads_of_line
from pyromq.client.consumer.rules.outcome import DEAD_LETTER_LEVEL
from pyromq.client.consumer.rules.retry_copy import story_text
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, GroupOfflineError, MQError
from pyromq.model import property_names as names
from pyromq.model.failure import FailureStory, failure_told, story_after
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.headers.shared import ConsumerRunningInfoHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.bodies import QueueProgress
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.json.subscribed import Wish, wish_of

_PARKED: Final = failure_told("parked", "an operator moved it out of the way")


class ClientState(msgspec.Struct, frozen=True, kw_only=True):
    """What one member of a group says about itself; ``problem`` instead when it did not answer."""

    client_id: str
    queues: dict[QueueId, QueueInfo] = {}
    heads: tuple[HeadOfLine, ...] = ()
    subscriptions: Wish = frozenset()
    problem: str = ""


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


class BlockedQueueAdmin(OffsetAdmin, LookupAdmin):
    """Of ``Admin``: what holds groups up."""

    async def client_states(self, group: str) -> list[ClientState]:
        """Of all members that are connected; empty when none is."""
        try:
            connections = await self.group_connections(group)
        except GroupOfflineError:
            return []
        members = [connection.client_id for connection in connections.connection_set]
        return list(await asyncio.gather(*[self._client_state(group, client_id) for client_id in members]))

    async def _client_state(self, group: str, client_id: str) -> ClientState:
        header = ConsumerRunningInfoHeader(consumer_group=self.client.wire_name(group), client_id=client_id)
        problem = "no broker is connected with it"
        for address in await self._masters():
            try:
                response = await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
                return read_client_state(client_id, response.body)
            except MQError as error:
                problem = str(error)
        return ClientState(client_id=client_id, problem=problem)

    async def group_heads(self, group: str, topic: str = "") -> list[BlockedQueue]:
        """Every queue of the group with the message that it stands at."""
        progress, states = await self.lag(group, topic), await self.client_states(group)
        found = []
        for queue, held in progress.items():
            is_behind = held.broker_offset > held.consumer_offset
            message = await self._first_at(queue, held.consumer_offset) if is_behind else None
            found.append(head_of(queue, held, states, message, self.client.clock.now_ms()))
        return found

    async def _first_at(self, queue: QueueId, offset: int) -> ReceivedMessage | None:
        try:
            stretch = await self.read(queue, offset, count_max=1)
        except MQError:
            return None
        return stretch.messages[0] if stretch.messages else None

    async def plan_park(
        self, group: str, queue: QueueId, offset: int | None = None
    ) -> tuple[ReceivedMessage, OffsetMove]:
        """The message that ``park`` would move. With ``offset`` it must be the one that the queue stands at.

        Raises NotFoundError, ConfigError.
        """
        await self.require_group(group)
        committed = await self.committed(group, queue)
        stands_at = (await self.queue_range(queue)).min_offset if committed is None else committed
        if offset is not None and offset != stands_at:
            text = f"group {group} stands at offset {stands_at} of this queue, not at {offset}"
            raise ConfigError(f"{text}: only the message that holds the queue up can be parked")
        message = await self.message_at(queue, stands_at)
        return message, OffsetMove(queue, committed, message.offset + 1)

    async def park(self, group: str, queue: QueueId, offset: int | None = None) -> Parked:
        """Moves the message that a queue stands at to the dead letters, then the queue on to the next one.

        A member that works on it at the moment may still finish it, so it may be both consumed and dead.
        """
        message, move = await self.plan_park(group, queue, offset)
        name = self.client.wire_name(group)
        head = await self._told_of(group, queue, message)
        attempt = max(message.delivery_attempt, head.attempt if head else 0)
        story = (head.story if head else None) or message.failure_story
        parked = msgspec.structs.replace(_PARKED, attempt=attempt + 1, time_ms=self.client.clock.now_ms())
        header = SendBackHeader(
            position=message.position,
            group=name,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message.get(names.ORIGIN_MESSAGE_ID) or message.offset_message_id,
            origin_topic=message.get(names.RETRY_TOPIC) or message.stored_topic,
            max_reconsume_times=message.delivery_attempt,
            failure_story=story_text(story_after(story, parked)),
        )
        await self._ask(await self._address(queue.broker), RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await self.carry_out(group, [move])
        return Parked(move=move, message_id=message.message_id, dead_letter_topic=f"%DLQ%{name}")

    async def _told_of(self, group: str, queue: QueueId, message: ReceivedMessage) -> HeadOfLine | None:
        """What the member that has the queue knows of the message: an orderly one counts failures that brokers miss."""
        states = await self.client_states(group)
        heads = (head for state in states for head in state.heads)
        return next((head for head in heads if _is_of(head, queue) and head.offset == message.offset), None)


def read_client_state(client_id: str, body: bytes) -> ClientState:
    """Raises RemoteProtocolError."""
    told = java_json.parse(body)
    table = told.get("mqTable") or {}
    queues = java_json.convert({_queue_key(key): value for key, value in table.items()}, dict[QueueId, QueueInfo])
    subscriptions = wish_of(java_json.convert(told.get("subscriptionSet") or [], list[Subscription]))
    heads = tuple(heads_of_line(body))
    return ClientState(client_id=client_id, queues=queues, heads=heads, subscriptions=subscriptions)


def head_of(
    queue: QueueId,
    progress: QueueProgress,
    states: list[ClientState],
    message: ReceivedMessage | None,
    now_ms: int,
) -> BlockedQueue:
    """From what the broker knows of a queue, and what its owner says."""
    owner = next((state.client_id for state in states if queue in state.queues), "")
    told = next((head for state in states for head in state.heads if _is_of(head, queue)), None)
    head = BlockedQueue(queue=queue, committed=progress.consumer_offset, end=progress.broker_offset, client_id=owner)
    if message is not None:
        head = msgspec.structs.replace(
            head,
            offset=message.offset,
            message_id=message.message_id,
            keys=message.keys,
            age_ms=max(0, now_ms - message.stored_ms),
            attempt=message.delivery_attempt,
            story=message.failure_story,
        )
    if told is not None:
        head = msgspec.structs.replace(
            head,
            offset=told.offset,
            message_id=told.message_id,
            keys=told.keys,
            age_ms=told.age_ms,
            attempt=told.attempt,
            stage=told.stage.value,
            since_ms=told.since_ms,
            stack=told.stack or "",
            story=told.story or head.story,
        )
    return head


def _is_of(head: HeadOfLine, queue: QueueId) -> bool:
    return (head.topic, head.broker_name, head.queue_id) == (queue.topic, queue.broker, queue.number)


def _queue_key(key: object) -> object:
    return java_json.ObjectKey(java_json.parse(key)) if isinstance(key, str) and key.startswith("{") else key
