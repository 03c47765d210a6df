"""Filter table: the SQL92 expressions by which groups filter, as the config folder keeps them.

    consumerFilter.json   {"filterDataByTopic":{"orders":{"groupFilterData":{"g1":{"expression":"a > 5",…}},…}}}

RocketMQ keeps no version beside this table. Its ``bloomFilterData`` (bits of the queues' extension files, which PyroMQ
does not write) is read and left out: a RocketMQ that finds none makes the table anew from heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json.heartbeat import SQL_EXPRESSION


class FilterData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The expression of a group for a topic (RocketMQ: ConsumerFilterData); times are in milliseconds.

    ``client_version`` is that of the subscription. A group that left, or does not subscribe to the topic by an
    expression any more, has ``dead_time``.
    """

    consumer_group: str
    topic: str
    expression: str
    expression_type: str = SQL_EXPRESSION
    born_time: int = 0
    dead_time: int = 0
    client_version: int = 0
    dead: bool = False


class _OfTopic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic: str = ""
    group_filter_data: dict[str, FilterData] = {}


class _StoredFilters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    filter_data_by_topic: dict[str, _OfTopic] = {}


class FilterTable(ConfigTable):
    """Filters by topic and group."""

    file_name = "consumerFilter.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._filters: dict[tuple[str, str], FilterData] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __iter__(self) -> Iterator[FilterData]:
        return iter(tuple(self._filters.values()))

    def get(self, topic: str, group: str) -> FilterData | None:
        return self._filters.get((topic, group))

    def put(self, data: FilterData) -> None:
        self._filters[data.topic, data.consumer_group] = data
        self.unsaved = True

    def remove(self, topic: str, group: str) -> FilterData | None:
        self.unsaved = True
        return self._filters.pop((topic, group), None)

    def _read(self) -> None:
        stored = self._parsed(_StoredFilters)
        for of_topic in stored.filter_data_by_topic.values():
            for data in of_topic.group_filter_data.values():
                self.put(data)

    def _stored(self) -> _StoredFilters:
        by_topic: dict[str, dict[str, FilterData]] = {}
        for (topic, group), data in self._filters.items():
            by_topic.setdefault(topic, {})[group] = data
        tables = {topic: _OfTopic(topic=topic, group_filter_data=groups) for topic, groups in by_topic.items()}
        return _StoredFilters(filter_data_by_topic=tables)
