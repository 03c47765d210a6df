"""Administration of topics."""

from __future__ import annotations

from typing import Final

import msgspec

from pyromq.broker.base.long_responses import Steps, encoded, nothing, pieces
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Stats
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.tables import Tables
from pyromq.model.limits import problem_of_topic
from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion, TopicConfig, TopicFilterType
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.admin import CreateTopicHeader, GetAllTopicConfigResponseHeader, GetTopicConfigHeader
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import GroupNames
from pyromq.wire.json.route import TopicList, encode_topics
from pyromq.wire.received import Received

_ATTRIBUTES: Final = frozenset(
    ("queue.type", "cleanup.policy", "message.type", "reserve.time", "lite.topic.expiration")
)


class _TopicConfigs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_config_list: list[TopicConfig] = []


class TopicHandler:
    """Requests 17, 18, 21, 202, 215, 300, 305 and 351."""

    def __init__(self, write_path: WritePath, tables: Tables, stats: Stats, settings: BrokerSettings) -> None:
        self._store = write_path.store
        self._topics = tables.topics
        self._progress = tables.progress
        self._members = tables.members
        self._stats = stats
        self._group_commit = write_path.group_commit
        self._settings = settings
        self._text: tuple[DataVersion, bytes] | None = None  # of the whole table, as it was at that version

    def create(self, connection: Connection, request: Received[CreateTopicHeader]) -> Steps:
        header = request.header
        _refuse_unknown_attributes(header.attributes or "")
        known = self._topics.get(header.topic)
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=_filter_type(header.topic_filter_type),
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=known.attributes if known else {},
        )
        return self._update(self._topics.with_attributes(config, header.attributes or ""))

    def create_all(self, connection: Connection, request: Received[None]) -> Steps:
        """All of them, or none when one is refused."""
        return self._update(*java_json.decode(request.body, _TopicConfigs).topic_config_list)

    def _update(self, *configs: TopicConfig) -> Steps:
        for config in configs:
            self._check(config)
        yield from self._topics.update_in_steps(configs)
        return nothing

    def _check(self, config: TopicConfig) -> None:
        if self._topics.is_system(config.topic_name):
            text = f"{config.topic_name} is a system topic and cannot be changed"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        if not 0 <= config.perm <= 7:
            text = f"permission {config.perm} of topic {config.topic_name} is outside [0, 7]"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        if problem := problem_of_topic(config):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, problem)
        self._topics.validate(config.topic_name)

    def delete(self, connection: Connection, request: Received[TopicHeader]) -> None:
        topic = request.header.topic
        self._topics.validate(topic)
        if self._topics.is_system(topic):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{topic} is a system topic and cannot be deleted")
        self._group_commit.commit_now()  # messages of it may be staged
        self._store.delete_topic(topic)
        self._topics.delete(topic)
        self._progress.begin_anew(topic, self._readers_of(topic))
        self._progress.save()

    def _readers_of(self, topic: str) -> set[str]:
        """Groups whose members are connected and subscribe to it."""
        return {group.name for group in self._members.consumer_groups() if topic in group.subscriptions}

    def get(self, connection: Connection, request: Received[GetTopicConfigHeader]) -> bytes:
        return java_json.dumps(self._topics.require(request.header.topic))

    def get_all(self, connection: Connection, request: Received[None]) -> Steps:
        """Tell all of them; the text is kept until a topic changes: consoles and replicas ask every few seconds."""
        table = self._topics.table
        header, kept = GetAllTopicConfigResponseHeader(total_topic_num=len(table)), self._text
        if kept is not None and kept[0] is table.version:  # every change makes a new one
            return lambda: (header, kept[1])
        asked = table.snapshot()
        text = yield from encoded(asked, "topic_config_table")

        def respond() -> tuple[GetAllTopicConfigResponseHeader, bytes]:
            body = text()
            self._text = asked.data_version, body
            return header, body

        return respond

    def stats(self, connection: Connection, request: Received[TopicHeader]) -> Steps:
        config = self._topics.require(request.header.topic)
        name = config.topic_name
        offsets: dict[QueueId, bodies.TopicOffset] = {}
        for numbers in pieces(range(max(config.read_queue_nums, config.write_queue_nums))):
            for number in numbers:
                offsets[QueueId(name, self._settings.name, number)] = self._queue_offsets(name, number)
            yield None
        body = bodies.TopicStats(offset_table=offsets, topic_put_tps=self._stats.put_rate(name))
        return (yield from encoded(body, "offset_table"))

    def _queue_offsets(self, topic: str, number: int) -> bodies.TopicOffset:
        known = self._store.reader.range_of(topic, number)
        first, end = known if known else (0, 0)
        last_ms = self._store.reader.stored_ms(topic, number, end - 1) if end > first else None
        return bodies.TopicOffset(min_offset=first, max_offset=end, last_update_timestamp=last_ms or 0)

    def who_consumes(self, connection: Connection, request: Received[TopicHeader]) -> bytes:
        topic = request.header.topic
        groups = set(self._progress.groups_of(topic)) | self._readers_of(topic)
        return java_json.dumps(GroupNames(group_list=sorted(groups)))

    def system_topics(self, connection: Connection, request: Received[None]) -> bytes:
        names = [name for name, _ in self._topics.items() if self._topics.is_system(name)]
        return encode_topics(TopicList(topic_list=sorted(names)))


def _refuse_unknown_attributes(changes: str) -> None:
    """Refuse attributes in ``+name=value,-name`` that no broker knows: they are a mistake of the caller."""
    for change in filter(None, changes.split(",")):
        name = change[1:].partition("=")[0]
        if name and name not in _ATTRIBUTES:
            text = f"topics have no attribute {name!r}, only {', '.join(sorted(_ATTRIBUTES))}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)


def _filter_type(text: str) -> TopicFilterType:
    return TopicFilterType.__members__.get(text, TopicFilterType.SINGLE_TAG)
