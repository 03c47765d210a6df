"""The topics of a broker: its system topics, those made by hand, those made by the first send."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterable
from typing import Final

import msgspec

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.system_names import refuse_send
from pyromq.clock import Clock
from pyromq.model.limits import ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX
from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    POP_JOURNAL_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    validate_topic,
)
from pyromq.model.system_names import (
    OFFSET_MOVED_TOPIC,
    SELF_TEST_TOPIC,
    SEND_FORBIDDEN,
    SYSTEM_PREFIX,
    TRACE_TOPIC,
    reply_topic,
)
from pyromq.model.topic import Perm, TopicConfig
from pyromq.store.tables.steps import InSteps, all_steps
from pyromq.store.tables.topics import TopicTable
from pyromq.wire.codes import ResponseCode
from pyromq.wire.flags import TopicSysFlag

_CHANGES_CHARACTERS_MAX: Final = ATTRIBUTES_MAX * ATTRIBUTE_BYTES_MAX
_ASKED_FOR: Final = 4  # queues of a topic that a send makes: what clients ask for, RocketMQ's too, unless set otherwise
_INHERIT, _READ_WRITE = int(Perm.INHERIT), int(Perm.READ_WRITE)


class Topics:
    """Owns the topic table; ``on_change`` is notified of every change.

    What an operator changes is saved before the operator is answered. What a send or a consumer brings about is saved
    soon after, by the table keeper; should a crash come first, ``restore`` makes it again from the queues.
    """

    def __init__(self, table: TopicTable, settings: BrokerSettings, clock: Clock) -> None:
        self._table = table
        self._settings = settings
        self._clock = clock
        self.on_change: Callable[[], None] = lambda: None  # name servers have to be informed
        self.claim: Callable[[Collection[str]], None] = lambda names: None  # before a client makes these; may refuse
        self._system = frozenset(config.topic_name for config in system_topics(settings)) | SEND_FORBIDDEN
        self._changed: set[str] = set()  # topics that name servers do not know of yet
        self._all_changed = False  # name servers have to be informed of everything
        self.get: Callable[[str], TopicConfig | None] = table.get

    @property
    def table(self) -> TopicTable:
        return self._table

    def items(self) -> ItemsView[str, TopicConfig]:
        return self._table.items()

    def create_system_topics(self) -> None:
        """At boot: what is missing is created; what an operator changed stays."""
        missing = [config for config in system_topics(self._settings) if self._table.get(config.topic_name) is None]
        for config in missing:
            self._table.put(config, self._clock.now_ms())
        if missing:
            self._table.save()
            self._report()

    def restore(self, queues: Iterable[tuple[str, int]]) -> list[str]:
        """After a crash: topics that have queues, but were not saved yet.

        A topic that a send made has as many queues as clients ask for, though not all of them may have messages:
        producers that know its route send to each of them.
        """
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            if self._table.get(topic) is None and topic != POP_JOURNAL_TOPIC:  # which is nobody's to read
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        asked_for = min(_ASKED_FOR, self._settings.default_topic_queues)
        for topic, count in counts.items():
            most = count if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) else max(count, asked_for)
            self._add(_plain(topic, most))  # they have messages: no limit keeps them away
        return sorted(counts)

    def adopt(self, text: bytes) -> None:
        """Replace the table on a replica by the master's, as it stands in a response. Raises ValueError."""
        before = self._table.version
        self._table.adopt(text)
        if self._table.version != before:
            self._report()

    def take_changes(self) -> frozenset[str] | None:
        """The topics that changed since the last call; None when name servers should get everything."""
        changed, self._changed = frozenset(self._changed), set()
        everything, self._all_changed = self._all_changed, False
        return None if everything else changed

    def _report(self, *topics: str) -> None:
        self._changed.update(topics)
        self._all_changed |= not topics
        self.on_change()

    def is_system(self, topic: str) -> bool:
        return topic in self._system or topic.startswith(SYSTEM_PREFIX)

    def validate(self, topic: str) -> None:
        """Check a topic name. Raises InvalidNameError."""
        validate_topic(topic)

    @property
    def reserved(self) -> frozenset[str]:
        """Topics that exist and that clients are not allowed to send to; no client can make others of the kind."""
        known = [*self._system, *(name for name, _ in self._table.items())]
        return SEND_FORBIDDEN | {name for name in known if name.startswith(SYSTEM_PREFIX)}

    def require(self, topic: str) -> TopicConfig:
        """The topic, or a refusal that says that there is none."""
        config = self._table.get(topic)
        if config is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} does not exist on broker {self._settings.name}; create it, or send to it first",
            )
        return config

    def for_send(self, topic: str, template: str, queues: int, *, unit: bool) -> TopicConfig:
        """The topic of a send: checked, and created from its template if that is allowed."""
        validate_topic(topic)
        refuse_send(topic)
        config = self._table.get(topic)
        if config is None:
            config = self._create_from(template, topic, queues, unit=unit)
        if config is None and topic.startswith(RETRY_PREFIX):
            config = self.create(topic, queues=1, unit=unit)
        if config is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} does not exist on broker {self._settings.name} and cannot be created automatically "
                f"(template {template}); create it first",
            )
        return config

    def _create_from(self, template_name: str, topic: str, queues: int, *, unit: bool) -> TopicConfig | None:
        template = self._table.get(template_name)
        if template is None or not template.perm & _INHERIT:
            return None
        if template_name == DEFAULT_TOPIC and not self._settings.auto_create_topics:
            return None
        self._refuse_beyond(1)
        self.claim([topic])
        count = max(0, min(queues, template.write_queue_nums))
        return self._add(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=count,
                write_queue_nums=count,
                perm=template.perm & ~_INHERIT,
                topic_filter_type=template.topic_filter_type,
                topic_sys_flag=int(TopicSysFlag.UNIT) if unit else 0,
            )
        )

    def create(self, topic: str, *, queues: int, perm: int = _READ_WRITE, unit: bool = False) -> TopicConfig:
        """A topic that the broker itself needs, such as a retry topic; the one that exists is returned as it is."""
        if config := self._table.get(topic):
            return config
        validate_topic(topic)
        if not self.is_system(topic):
            self._refuse_beyond(1)
        return self._add(_plain(topic, queues, perm, int(TopicSysFlag.UNIT_SUBSCRIPTION) if unit else 0))

    def _refuse_beyond(self, added: int) -> None:
        if len(self._table) + added > self._settings.topics_max:
            limit = f"at most {self._settings.topics_max} topics (setting topics_max)"
            text = f"broker {self._settings.name} keeps {limit}: delete some, or use another broker"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)

    def _add(self, config: TopicConfig) -> TopicConfig:
        """Used at once, saved soon."""
        self._table.put(config, self._clock.now_ms())
        self._report(config.topic_name)
        return config

    def update(self, config: TopicConfig) -> TopicConfig:
        """Update one topic; see ``update_all``."""
        self.update_all([config])
        return config

    def update_all(self, configs: Iterable[TopicConfig]) -> None:
        """``update_in_steps``, all of them now."""
        all_steps(self.update_in_steps(configs))

    def update_in_steps(self, configs: Iterable[TopicConfig]) -> InSteps[None]:
        """Create or replace, all or none, with one save; at the end they are durable.

        Raises RefusedError when there would be too many, StoreReadOnlyError.
        """
        missing = self._table.missing(configs)
        if not missing and self._table.is_durable:
            return
        if added := [name for name in missing if self._table.get(name) is None]:
            self._refuse_beyond(len(added))
            self.claim(added)
        yield from self._table.put_all(missing, self._clock.now_ms())
        if missing:
            self._report(*missing)

    def announce(self) -> None:
        """What name servers must know has changed, though no topic has: they compare versions."""
        self._table.bump(self._clock.now_ms())
        self._table.save()
        self._report()

    def delete(self, topic: str) -> bool:
        removed = self._table.remove(topic, self._clock.now_ms())
        if removed is not None:
            self._table.save_or_undo(lambda: self._table.put(removed, self._clock.now_ms()))
            self._report()
        return removed is not None

    def with_attributes(self, config: TopicConfig, changes: str) -> TopicConfig:
        """Apply ``+name=value,-name`` to the attributes of a topic."""
        attributes = dict(config.attributes)
        if len(changes) > _CHANGES_CHARACTERS_MAX:
            text = f"{len(changes)} characters of attribute changes, at most {_CHANGES_CHARACTERS_MAX} are allowed"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        for change in filter(None, changes.split(",")):
            name, _, value = change[1:].partition("=")
            if change[0] == "+" and name and value:
                attributes[name] = value
            elif change[0] == "-" and name:
                attributes.pop(name, None)
            else:
                text = f"attribute change {change!r} is neither +name=value nor -name"
                raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        return msgspec.structs.replace(config, attributes=attributes)


def _plain(name: str, queues: int, perm: int = _READ_WRITE, flag: int = 0) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


def system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """What every broker has from the beginning."""

    def topic(name: str, queues: int, perm: int = _READ_WRITE) -> TopicConfig:
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

    topics = [
        topic(SELF_TEST_TOPIC, 1),
        topic("BenchmarkTest", 1024),
        topic(settings.cluster, 16, 7),
        topic(settings.name, 1, 7),
        topic(OFFSET_MOVED_TOPIC, 1),
        topic(SCHEDULE_TOPIC, len(settings.store.delay_ladder_ms)),
        topic(reply_topic(settings.cluster), 1),
        topic(f"rmq_sys_REVIVE_LOG_{settings.cluster}", 8),
        topic(f"rmq_sys_SYNC_BROKER_MEMBER_{settings.name}", 1, 1),
        topic(HALF_TOPIC, 1),
        topic(OP_HALF_TOPIC, 1),
        topic(TIMER_TOPIC, 1),
    ]
    if settings.auto_create_topics:
        topics.append(topic(DEFAULT_TOPIC, settings.default_topic_queues, 7))
    if settings.trace_topic:
        topics.append(topic(TRACE_TOPIC, 1))
    return topics
