"""What happened at a broker, as a test asks for it: messages sent and stored, and what groups did with them.

The store and the committed offsets say where messages are; the journal says what happened to them on the way. What a
group consumed is known from its listeners if they are in this process, and else from what it has committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from pyromq.broker.broker import Broker
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.model import property_names as names
from pyromq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, dead_letter_topic, retry_topic
from pyromq.model.system_names import is_system_group
from pyromq.operate.delays import due_of
from pyromq.operate.explaining.group_story import mismatch
from pyromq.testing.observing.journal import Journal, JournalEventKind
from pyromq.testing.observing.ledger import DeliveryState, Ledger, MessagePlace
from pyromq.testing.observing.seen import SeenMessage, SeenMessages, seen
from pyromq.wire.properties import encode_properties

T = TypeVar("T")

__all__ = ["GroupView", "Ledger", "Observer", "SeenMessage", "SeenMessages"]

_DONE: Final = (JournalEventKind.CONSUMED, JournalEventKind.SKIPPED)
_LISTENED: Final = (JournalEventKind.BEGAN, *_DONE, JournalEventKind.FAILED)


class Observer:
    """Reads a broker; on the broker's loop."""

    def __init__(self, broker: Callable[[], Broker], journal: Journal, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self.journal = journal
        self._now_ms = now_ms

    # --- messages ---

    def copies(self, topic: str) -> list[ReceivedMessage]:
        """All that the store has in a topic, as the topic is called there; in the order in which they were stored."""
        store, broker = self._broker().store, self._broker().settings.name
        found: list[ReceivedMessage] = []
        for name, queue in list(store.queues):
            known = store.reader.range_of(name, queue) if name == topic else None
            offset, end = known if known else (0, 0)
            while offset < end:
                result = store.reader.read(name, queue, offset, bytes_max=1 << 30, count_max=1024)
                found += split_messages(result.to_bytes(), broker)
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
        return sorted(found, key=lambda message: message.position)

    def stored(self, topic: str) -> SeenMessages:
        return SeenMessages(seen(message, topic) for message in self.copies(topic))

    def sent(self, topic: str | None) -> SeenMessages:
        events = self.journal.of(JournalEventKind.ACKNOWLEDGED, JournalEventKind.STORED)
        return SeenMessages(
            seen(event.message, event.topic)
            for event in events
            if event.message is not None and (topic is None or event.topic == topic)
        )

    # --- groups ---

    def has_listeners(self, group: str) -> bool:
        """Whether this process has listeners of the group, which say themselves what they consumed."""
        return bool(self.journal.of(*_LISTENED, group=group))

    def committed(self, group: str, message: ReceivedMessage) -> int:
        """0 where the group has no progress yet."""
        found = self._broker().parts.tables.progress.committed(group, message.stored_topic, message.queue_id)
        return found or 0

    def topics_of(self, group: str) -> list[str]:
        """What it subscribes now, and what it has progress in; without its retry topic."""
        tables = self._broker().parts.tables
        members = tables.members.consumer_group(group)
        wanted = set(members.subscriptions) if members is not None else set()
        return sorted(wanted.union(tables.progress.topics_of(group)) - {retry_topic(group)})

    def groups(self) -> list[str]:
        tables = self._broker().parts.tables
        known = {group.name for group in tables.members.consumer_groups()}
        known.update(group for (_, group), _ in tables.progress.items())
        known.update(event.group for event in self.journal.of(JournalEventKind.DELIVERED))
        return sorted(name for name in known if not is_system_group(name))

    def standings(self, group: str, topic: str) -> list[tuple[ReceivedMessage, DeliveryState]]:
        """Every visible message of a topic, and what the group has done with it."""
        known = _Known(self, group)
        return [(message, known.standing(message)) for message in self.copies(topic)]

    def is_wanted(self, group: str, message: ReceivedMessage) -> bool:
        subscription = self._broker().parts.tables.members.subscription(group, message.stored_topic)
        return not mismatch(subscription, message.tags, encode_properties(message.properties))

    def waiting_retries(self, group: str) -> list[ReceivedMessage]:
        """Copies that wait for their time, or in the retry topic for a member."""
        home = retry_topic(group)
        delayed = [message for message in self._delayed() if message.get(names.REAL_TOPIC) == home]
        return [*delayed, *(copy for copy in self.copies(home) if copy.offset >= self.committed(group, copy))]

    def _delayed(self) -> list[ReceivedMessage]:
        """What waits for its time, at delay levels and with times of their own."""
        progress = self._broker().parts.services.delay_runner.schedule.progress()
        levels = {level - 1: cursor for level, (cursor, _) in progress.items()}
        by_level = [each for each in self.copies(SCHEDULE_TOPIC) if each.offset >= levels.get(each.queue_id, 0)]
        return by_level + [each for each in self.copies(TIMER_TOPIC) if due_of(each) > self._now_ms()]

    # --- the ledger ---

    def ledger(self) -> Ledger:
        acknowledged = [
            (event.topic, event.message)
            for event in self.journal.of(JournalEventKind.ACKNOWLEDGED)
            if event.message is not None
        ]
        finder = _Finder(self, {topic for topic, _ in acknowledged})
        places: Counter[MessagePlace] = Counter()
        lost: list[tuple[str, SeenMessage]] = []
        for topic, message in acknowledged:
            place = finder.place(topic, message)
            places[place] += 1
            if place is MessagePlace.LOST:
                lost.append(("", seen(message, topic)))
        groups: dict[str, dict[DeliveryState, int]] = {}
        for group in self.groups():
            counts: Counter[DeliveryState] = Counter()
            for topic in self.topics_of(group):
                for message, standing in self.standings(group, topic):
                    counts[standing] += 1
                    if standing is DeliveryState.LOST:
                        lost.append((group, seen(message)))
            groups[group] = {standing: counts[standing] for standing in DeliveryState}
        return Ledger(len(acknowledged), {place: places[place] for place in MessagePlace}, groups, lost)

    def open_transactions(self) -> set[str]:
        """Ids of prepared messages whose outcome is not known."""
        table = self._broker().parts.services.transaction_log.table
        return {copy.message_id for copy in self.copies(HALF_TOPIC) if table.is_waiting(copy.offset)}


class _Known:
    """What there is to know of one group, looked up once."""

    def __init__(self, observer: Observer, group: str) -> None:
        self._observer = observer
        self._group = group
        journal = observer.journal
        self._listens = observer.has_listeners(group)
        self._consumed = _origins(event.message for event in journal.of(*_DONE, group=group))
        self._delivered = _origins(event.message for event in journal.of(JournalEventKind.DELIVERED, group=group))
        self._retrying = _origins(observer.waiting_retries(group))
        self._dead = _origins(observer.copies(dead_letter_topic(group)))

    def standing(self, message: ReceivedMessage) -> DeliveryState:
        origin, observer, group = message.origin_message_id, self._observer, self._group
        if origin in self._consumed:
            return DeliveryState.CONSUMED
        if origin in self._dead:
            return DeliveryState.DEAD
        if origin in self._retrying:
            return DeliveryState.RETRYING
        if message.offset >= observer.committed(group, message):
            return DeliveryState.PENDING if observer.is_wanted(group, message) else DeliveryState.PASSED_OVER
        if not observer.is_wanted(group, message):
            return DeliveryState.PASSED_OVER
        if not self._listens:
            return DeliveryState.CONSUMED
        return (
            DeliveryState.LOST if origin in self._delivered else DeliveryState.PASSED_OVER
        )  # the group began behind it


class _Finder:
    """Where acknowledged messages are."""

    def __init__(self, observer: Observer, topics: Iterable[str]) -> None:
        self._visible = {topic: {copy.message_id for copy in observer.copies(topic)} for topic in topics}
        self._delayed = {copy.message_id for copy in observer._delayed()}
        self._prepared = observer.open_transactions()
        left = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC)
        self._left = {copy.message_id for topic in left for copy in observer.copies(topic)}

    def place(self, topic: str, message: ReceivedMessage) -> MessagePlace:
        message_id = message.message_id
        if message_id in self._visible[topic]:
            return MessagePlace.VISIBLE
        if message_id in self._delayed:
            return MessagePlace.DELAYED
        if message_id in self._prepared:
            return MessagePlace.PREPARED
        return MessagePlace.ENDED if message_id in self._left else MessagePlace.LOST


class GroupView:
    """What one consumer group did. Every method takes a topic; without one, it is about all of them."""

    def __init__(self, name: str, observer: Observer, on_loop: Callable[[Callable[[], T]], T]) -> None:
        self.name = name
        self._observer = observer
        self._on_loop: Callable[[Callable[[], SeenMessages]], SeenMessages] = on_loop  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<GroupView {self.name}>"

    def consumed(self, topic: str | None = None) -> SeenMessages:
        """In the order in which listeners finished with them, as often as they did.

        Of a group that has no listener in this process: what lies before its committed offsets, once.
        """
        return self._on_loop(lambda: self._consumed(topic))

    def skipped(self, topic: str | None = None) -> SeenMessages:
        """What came again and was not consumed a second time (``once``); not among those that were consumed."""
        return self._on_loop(lambda: self._of_events((JournalEventKind.SKIPPED,), topic))

    def failed(self, topic: str | None = None) -> SeenMessages:
        """Every attempt of a listener of this process that failed."""
        return self._on_loop(lambda: self._of_events((JournalEventKind.FAILED,), topic))

    def retried(self, topic: str | None = None) -> SeenMessages:
        """Every message that a member sent back, to get it again or, after the last time, as a dead letter."""
        return self._on_loop(lambda: self._of_events((JournalEventKind.SENT_BACK,), topic))

    def retrying(self, topic: str | None = None) -> SeenMessages:
        """What has failed and comes again: copies that wait now."""
        return self._on_loop(lambda: _of_topic(map(seen, self._observer.waiting_retries(self.name)), topic))

    def dead(self, topic: str | None = None) -> SeenMessages:
        """Dead letters of the group."""
        letters = dead_letter_topic(self.name)
        return self._on_loop(lambda: _of_topic(map(seen, self._observer.copies(letters)), topic))

    def pending(self, topic: str | None = None) -> SeenMessages:
        """What the group has still to do: not delivered, being worked on, or waiting for its next attempt."""
        return self._on_loop(lambda: self._standing((DeliveryState.PENDING, DeliveryState.RETRYING), topic))

    def in_flight(self, topic: str | None = None) -> SeenMessages:
        """With a listener at this moment; of a group without listeners here: delivered and not committed."""
        return self._on_loop(lambda: self._in_flight(topic))

    def timeline(self, topic: str = "") -> str:
        """What the group did, line by line."""
        return "\n".join(self._observer.journal.lines(group=self.name, topic=topic))

    # --- assertions ---

    def assert_consumed(self, topic: str, bodies: Sequence[bytes] | None = None, *, count: int | None = None) -> None:
        """These bodies, in any order and as often as they are named, or so many messages, or at least one.

        Raises AssertionError with what the group did.
        """
        self._check("consumed", self.consumed(topic), topic, bodies, count)

    def assert_dead(self, topic: str, bodies: Sequence[bytes] | None = None, *, count: int | None = None) -> None:
        """Assert that these bodies are dead letters; see ``assert_consumed``."""
        self._check("given up", self.dead(topic), topic, bodies, count)

    def assert_retried(self, topic: str, bodies: Sequence[bytes] | None = None, *, count: int | None = None) -> None:
        """Assert that these bodies were sent back; see ``assert_consumed``."""
        self._check("retried", self.retried(topic), topic, bodies, count)

    def assert_nothing_pending(self, topic: str | None = None) -> None:
        """The group is done. Raises AssertionError with what it is not done with."""
        if left := self.pending(topic):
            raise AssertionError(self._reported(f"group {self.name} is not done with {list(left)}", topic or ""))

    def _check(
        self, what: str, found: SeenMessages, topic: str, bodies: Sequence[bytes] | None, count: int | None
    ) -> None:
        if bodies is not None:
            missing = list((Counter(bodies) - Counter(found.bodies)).elements())
            extra = list((Counter(found.bodies) - Counter(bodies)).elements())
            problems = [f"missing {missing}"] if missing else []
            problems += [f"too many {extra}"] if extra else []
        elif count is not None:
            problems = [] if len(found) == count else [f"{len(found)} messages, not {count}: {list(found)}"]
        else:
            problems = [] if found else ["nothing"]
        if problems:
            raise AssertionError(
                self._reported(f"group {self.name} has {what} of {topic}: {'; '.join(problems)}", topic)
            )

    def _reported(self, text: str, topic: str) -> str:
        return "\n".join([text, "what the group did:", self.timeline(topic) or "  nothing"])

    # --- on the loop ---

    def _consumed(self, topic: str | None) -> SeenMessages:
        if self._observer.has_listeners(self.name):
            return self._of_events((JournalEventKind.CONSUMED,), topic)
        return self._standing((DeliveryState.CONSUMED,), topic)

    def _in_flight(self, topic: str | None) -> SeenMessages:
        if self._observer.has_listeners(self.name):
            having: dict[int, ReceivedMessage] = {}
            for event in self._observer.journal.of(*_LISTENED, group=self.name):
                assert event.message is not None
                if event.kind is JournalEventKind.BEGAN:
                    having[event.message.position] = event.message
                else:
                    having.pop(event.message.position, None)
            return _of_topic(map(seen, having.values()), topic)
        delivered = _origins(
            event.message for event in self._observer.journal.of(JournalEventKind.DELIVERED, group=self.name)
        )
        return SeenMessages(
            seen(message)
            for each in self._topics(topic)
            for message, standing in self._observer.standings(self.name, each)
            if standing is DeliveryState.PENDING and message.origin_message_id in delivered
        )

    def _standing(self, wanted: Sequence[DeliveryState], topic: str | None) -> SeenMessages:
        return SeenMessages(
            seen(message)
            for each in self._topics(topic)
            for message, standing in self._observer.standings(self.name, each)
            if standing in wanted
        )

    def _topics(self, topic: str | None) -> list[str]:
        return [topic] if topic is not None else self._observer.topics_of(self.name)

    def _of_events(self, kinds: Sequence[JournalEventKind], topic: str | None) -> SeenMessages:
        events = self._observer.journal.of(*kinds, group=self.name)
        return _of_topic((seen(event.message) for event in events if event.message is not None), topic)


def _of_topic(messages: Iterable[SeenMessage], topic: str | None) -> SeenMessages:
    return SeenMessages(message for message in messages if topic is None or message.topic == topic)


def _origins(messages: Iterable[ReceivedMessage | None]) -> set[str]:
    return {message.origin_message_id for message in messages if message is not None}
