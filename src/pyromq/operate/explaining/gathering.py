"""Facts about a message, asked of brokers: its copies, the groups of its topic, its trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import gather
from pyromq.errors import BrokerError, MQError, NotFoundError
from pyromq.model import property_names as names
from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from pyromq.model.system_names import DISCARD_TOPIC, is_system_group
from pyromq.operate.consumers.blocked_queues import BlockedQueue, head_of
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.delays import DelayFacet, due_of
from pyromq.operate.explaining.explanation import Explanation, explain
from pyromq.operate.explaining.facts import Facts, GroupFacts, MessageOrigin, PoppedCopy, RedrivenCopy, StoredCopy
from pyromq.operate.explaining.traces import read_trace
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import StoredMessages, no_message
from pyromq.operate.resend.outgoing import COPIED_FROM, REDRIVEN_FROM, first_topic, redriven_id
from pyromq.operate.transactions import TransactionFacet
from pyromq.wire.json.bodies import QueueProgress
from pyromq.wire.message_id import MalformedMessageIdError
from pyromq.wire.properties import encode_properties
from pyromq.wire.trace import TRACE_TOPIC, TraceRecord

_REDRIVES_MAX: Final = 3  # copies of copies that died again and were redriven again


class FactGatherer:
    """Asks brokers for the facts about a message."""

    def __init__(
        self,
        requests: AdminRequests,
        members: MemberFacet,
        offsets: OffsetFacet,
        delays: DelayFacet,
        transactions: TransactionFacet,
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._stored = StoredMessages(requests)
        self._members = members
        self._offsets = offsets
        self._delays = delays
        self._transactions = transactions

    async def explain(self, topic: str, message_id: str, trace_topic: str = TRACE_TOPIC) -> Explanation:
        """Return where a message is and why, by either of its ids. Raises NotFoundError, TopicNotFoundError."""
        told = explain(await self._facts(topic, message_id, trace_topic))
        if told is None:
            raise no_message(f"there is no message {message_id} of topic {topic}: it has expired or never existed")
        return told

    async def _facts(self, topic: str, message_id: str, trace_topic: str) -> Facts:
        await self._requests.directory.route(topic)
        unique_key, name = await self._unique_key(message_id), self._client.wire_name(topic)
        visible = await self._stored.copies(name, unique_key)
        waiting = await self._waiting(unique_key)
        prepared = await self._stored.copies(HALF_TOPIC, unique_key)
        discarded = await self._stored.copies(DISCARD_TOPIC, unique_key)
        trace = await self._trace_if_any(unique_key, trace_topic)
        some = next(iter([*visible, *(message for message, _ in waiting), *prepared, *discarded]), None)
        consumers = await self._groups_of(topic)
        groups = [await self._group_facts(group, unique_key, visible, waiting, trace_topic) for group in consumers]
        return Facts(
            topic=topic,
            message_id=unique_key,
            now_ms=self._client.clock.now_ms(),
            tags=some.tags if some else "",
            keys=some.keys if some else (),
            properties=encode_properties(some.properties) if some else b"",
            born_ms=some.born_ms if some else 0,
            visible=tuple(map(copy_of, visible)),
            delayed=tuple(copy for _, copy in waiting if copy.real_topic == name),
            prepared=await self._prepared_copies(prepared, has_end=bool(visible)),
            discarded=tuple(map(copy_of, discarded)),
            groups=tuple(groups),
            origin=await self._origin(some) if some else None,
            trace=tuple(trace),
        )

    async def _unique_key(self, message_id: str) -> str:
        """An offset id leads to a message, which knows the id its producer gave it."""
        try:
            return (await self._stored.by_offset_id(message_id)).message_id
        except (MalformedMessageIdError, NotFoundError):
            return message_id

    async def _waiting(self, unique_key: str) -> list[tuple[ReceivedMessage, StoredCopy]]:
        """Copies in the delay topics, with the time at which they are delivered."""
        found: list[tuple[ReceivedMessage, StoredCopy]] = []
        for message in await self._stored.copies(SCHEDULE_TOPIC, unique_key):
            delays = await self._delays.levels_ms(message.broker)
            offsets = await self._delays.offsets(message.broker)
            delay_ms = delays[min(message.queue_id, len(delays) - 1)]
            is_pending = message.offset >= offsets.get(message.queue_id + 1, 0)
            found.append((message, copy_of(message, due_ms=message.stored_ms + delay_ms, is_pending=is_pending)))
        now_ms = self._client.clock.now_ms()
        for message in await self._stored.copies(TIMER_TOPIC, unique_key):
            due_ms = due_of(message)
            found.append((message, copy_of(message, due_ms=due_ms, is_pending=due_ms > now_ms)))
        return found

    async def _prepared_copies(self, messages: list[ReceivedMessage], *, has_end: bool) -> tuple[StoredCopy, ...]:
        if not messages:
            return ()
        still_open = set() if has_end else {(place.broker, place.offset) for place in await self._transactions.list()}
        return tuple(copy_of(m, is_pending=(m.broker, m.offset) in still_open) for m in messages)

    async def _trace_if_any(self, message_id: str, topic: str) -> list[TraceRecord]:
        try:
            return await read_trace(self._stored, message_id, topic=topic)
        except BrokerError:
            return []

    # --- groups ---

    async def _groups_of(self, topic: str) -> list[str]:
        """Return the groups of a topic without the tools' own."""
        name, brokers = self._client.wire_name(topic), await self._requests.directory.brokers_of(topic)
        told = await gather([self._requests.brokers.groups_of_topic(address, name) for address in brokers.values()])
        groups = sorted({self._client.plain_name(group) for groups in told for group in groups})
        return [group for group in groups if not is_system_group(group)]

    async def _group_facts(
        self,
        group: str,
        unique_key: str,
        visible: list[ReceivedMessage],
        waiting: list[tuple[ReceivedMessage, StoredCopy]],
        trace_topic: str,
        depth: int = 0,
    ) -> GroupFacts:
        retries_to = self._client.wire_name(retry_topic(group))
        retries = await self._stored.copies(retries_to, unique_key)
        dead = await self._stored.copies(self._client.wire_name(dead_letter_topic(group)), unique_key)
        tried = [copy_of(each, committed=await self._offsets.committed(group, each.queue)) for each in retries]
        connections = await self._members.connections_if_any(group)
        topic = visible[-1].stored_topic if visible else ""
        committed = await self._offsets.committed(group, visible[-1].queue) if visible else None
        return GroupFacts(
            group=group,
            committed=committed,
            head=await self._head(group, visible[-1]) if connections and visible else None,
            redriven=await self._redriven(group, dead, (topic, retries_to), trace_topic, depth),
            popped=await self._popped(group, visible[-1]) if visible else None,
            is_online=connections is not None,
            is_broadcasting=connections is not None and connections.is_broadcast,
            subscription=connections.subscription_table.get(topic) if connections else None,
            retries=tuple(tried),
            waiting=tuple(copy for _, copy in waiting if copy.real_topic == retries_to),
            dead=tuple(map(copy_of, dead)),
        )

    async def _head(self, group: str, message: ReceivedMessage) -> BlockedQueue | None:
        """Return what the member says that stands at this message, if one does."""
        states, progress = await self._members.states(group), QueueProgress()
        found = head_of(message.queue, progress, states, None, self._client.clock.now_ms())
        return found if found.offset == message.offset else None

    async def _redriven(
        self, group: str, dead: list[ReceivedMessage], topics: Iterable[str], trace_topic: str, depth: int
    ) -> tuple[RedrivenCopy, ...]:
        """Return the messages that dead letters became, and what the group has done with each of them."""
        if depth >= _REDRIVES_MAX:
            return ()
        copies: list[ReceivedMessage] = []
        for letter in dead:
            for topic in filter(None, topics):
                copies += await self._stored.copies(topic, redriven_id(letter.offset_message_id))
        found = []
        for each in sorted(copies, key=lambda message: message.stored_ms):
            key = each.message_id
            waiting = await self._waiting(key)
            facts = await self._group_facts(group, key, [each], waiting, trace_topic, depth + 1)
            others = tuple(retry for retry in facts.retries if retry.offset_message_id != each.offset_message_id)
            facts = msgspec.structs.replace(facts, retries=others)  # one for this group alone lies there itself
            trace = tuple(await self._trace_if_any(key, trace_topic))
            place = copy_of(each, committed=facts.committed)
            found.append(RedrivenCopy(message_id=key, place=place, group=facts, trace=trace))
        return tuple(found)

    async def _origin(self, message: ReceivedMessage) -> MessageOrigin | None:
        """Return what a copy was made from; None for a message that is none."""
        place = message.get(REDRIVEN_FROM) or message.get(COPIED_FROM) or ""
        if not place:
            return None
        try:
            source = await self._stored.by_offset_id(place)
        except (MalformedMessageIdError, MQError):
            return MessageOrigin(topic=self._client.plain_name(message.topic), message_id="")
        group = source.stored_topic.removeprefix(DEAD_LETTER_PREFIX)
        return MessageOrigin(
            topic=first_topic(self._client, source),
            message_id=source.message_id,
            group=self._client.plain_name(group) if source.stored_topic.startswith(DEAD_LETTER_PREFIX) else "",
            place=copy_of(source),
        )

    async def _popped(self, group: str, message: ReceivedMessage) -> PoppedCopy | None:
        try:
            name, place = self._client.wire_name(group), (message.stored_topic, message.queue_id, message.offset)
            found = await self._requests.brokers.popped(message.broker, name, *place)
        except MQError:  # a broker without pop
            return None
        if found.settled is None:
            return None
        return PoppedCopy(
            attempts=found.attempts or 0, invisible_until_ms=found.invisible_until or 0, is_settled=found.settled
        )


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
