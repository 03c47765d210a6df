"""Bringing together what ``client.admin.explain`` needs to know of a message."""

from __future__ import annotations

from pyromq.client.admin.base import no_message
from pyromq.client.admin.delays import DelayAdmin, due_of
from pyromq.client.admin.explain import Explanation, explain
from pyromq.client.admin.message_facts import Facts, GroupFacts, StoredCopy
from pyromq.client.admin.topics import TopicAdmin
from pyromq.client.admin.traces import TraceAdmin
from pyromq.client.admin.transactions import TransactionAdmin
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, GroupOfflineError, NotFoundError
from pyromq.model import property_names as names
from pyromq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, dead_letter_topic, retry_topic
from pyromq.model.system_names import DISCARD_TOPIC, is_system_group
from pyromq.wire.json.heartbeat import ConsumerConnections, MessageModel
from pyromq.wire.message_id import MalformedMessageIdError
from pyromq.wire.properties import encode_properties
from pyromq.wire.trace import TRACE_TOPIC, TraceRecord


class ExplainAdmin(DelayAdmin, TransactionAdmin, TraceAdmin, TopicAdmin):
    """Of ``Admin``: what became of a message."""

    async def explain(self, topic: str, message_id: str, *, trace_topic: str = TRACE_TOPIC) -> Explanation:
        """Where a message is and why, by either of its ids. Raises NotFoundError, TopicNotFoundError."""
        told = explain(await self._facts(topic, message_id, trace_topic))
        if told is None:
            raise no_message(f"there is no message {message_id} of topic {topic}: it is too old, or never was")
        return told

    async def _facts(self, topic: str, message_id: str, trace_topic: str) -> Facts:
        await self.route(topic)
        unique_key, name = await self._unique_key(message_id), self.client.wire_name(topic)
        visible = await self._copies(name, unique_key)
        waiting = await self._waiting(unique_key)
        prepared = await self._copies(HALF_TOPIC, unique_key)
        discarded = await self._copies(DISCARD_TOPIC, unique_key)
        trace = await self._trace_if_any(unique_key, trace_topic)
        some = next(iter([*visible, *(message for message, _ in waiting), *prepared, *discarded]), None)
        consumers = await self._groups_of(topic)
        groups = [await self._group_facts(group, unique_key, visible, waiting) for group in consumers]
        return Facts(
            topic=topic,
            message_id=unique_key,
            now_ms=self.client.clock.now_ms(),
            tags=some.tags if some else "",
            keys=some.keys if some else (),
            properties=encode_properties(some.properties) if some else b"",
            born_ms=some.born_ms if some else 0,
            visible=tuple(map(copy_of, visible)),
            delayed=tuple(copy for _, copy in waiting if copy.real_topic == name),
            prepared=await self._prepared_copies(prepared, has_end=bool(visible)),
            discarded=tuple(map(copy_of, discarded)),
            groups=tuple(groups),
            trace=tuple(trace),
        )

    async def _unique_key(self, message_id: str) -> str:
        """An offset id leads to a message, which knows the id its producer gave it."""
        try:
            return (await self.message_by_offset_id(message_id)).message_id
        except (MalformedMessageIdError, NotFoundError):
            return message_id

    async def _waiting(self, unique_key: str) -> list[tuple[ReceivedMessage, StoredCopy]]:
        """Copies in the delay topics, with the time at which they are delivered."""
        found: list[tuple[ReceivedMessage, StoredCopy]] = []
        for message in await self._copies(SCHEDULE_TOPIC, unique_key):
            delays = await self.level_delays_ms(message.broker)
            offsets = await self.delay_offsets(message.broker)
            delay_ms = delays[min(message.queue_id, len(delays) - 1)]
            is_pending = message.offset >= offsets.get(message.queue_id + 1, 0)
            found.append((message, copy_of(message, due_ms=message.stored_ms + delay_ms, is_pending=is_pending)))
        now_ms = self.client.clock.now_ms()
        for message in await self._copies(TIMER_TOPIC, unique_key):
            due_ms = due_of(message)
            found.append((message, copy_of(message, due_ms=due_ms, is_pending=due_ms > now_ms)))
        return found

    async def _prepared_copies(self, messages: list[ReceivedMessage], *, has_end: bool) -> tuple[StoredCopy, ...]:
        if not messages:
            return ()
        still_open = set() if has_end else {(place.broker, place.offset) for place in await self.open_transactions()}
        return tuple(copy_of(m, is_pending=(m.broker, m.offset) in still_open) for m in messages)

    async def _trace_if_any(self, message_id: str, topic: str) -> list[TraceRecord]:
        try:
            return await self.trace(message_id, topic=topic)
        except BrokerError:
            return []

    # --- groups ---

    async def _groups_of(self, topic: str) -> list[str]:
        """Without the tools' own."""
        return [group for group in await self.topic_groups(topic) if not is_system_group(group)]

    async def _group_facts(
        self,
        group: str,
        unique_key: str,
        visible: list[ReceivedMessage],
        waiting: list[tuple[ReceivedMessage, StoredCopy]],
    ) -> GroupFacts:
        retries_to = self.client.wire_name(retry_topic(group))
        retries = await self._copies(retries_to, unique_key)
        dead = await self._copies(self.client.wire_name(dead_letter_topic(group)), unique_key)
        connections = await self._connections_if_any(group)
        topic = visible[-1].stored_topic if visible else ""
        return GroupFacts(
            group=group,
            committed=await self.committed(group, visible[-1].queue) if visible else None,
            is_online=connections is not None,
            is_broadcasting=connections is not None and connections.message_model is MessageModel.BROADCASTING,
            subscription=connections.subscription_table.get(topic) if connections else None,
            retries=tuple([copy_of(each, committed=await self.committed(group, each.queue)) for each in retries]),
            waiting=tuple(copy for _, copy in waiting if copy.real_topic == retries_to),
            dead=tuple(map(copy_of, dead)),
        )

    async def _connections_if_any(self, group: str) -> ConsumerConnections | None:
        try:
            return await self.group_connections(group)
        except GroupOfflineError:
            return None


def copy_of(
    message: ReceivedMessage, *, due_ms: int = 0, is_pending: bool = False, committed: int | None = None
) -> StoredCopy:
    return StoredCopy(
        topic=message.stored_topic,
        broker=message.broker,
        queue=message.queue_id,
        offset=message.offset,
        stored_ms=message.stored_ms,
        offset_message_id=message.offset_message_id,
        attempt=message.delivery_attempt,
        real_topic=message.get(names.REAL_TOPIC) or "",
        due_ms=due_ms,
        is_pending=is_pending,
        committed=committed,
        failure=message.failure_story,
    )
