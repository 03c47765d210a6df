"""Topic table: the topics of a broker, as the config folder keeps them.

    topics.json   {"dataVersion":…,"topicConfigTable":{"orders":{…}}}

Name servers and replicas compare the version, so every change takes the time and moves it. The file has the text of a
registration's table, so it shares that type.
"""

from __future__ import annotations

from collections.abc import ItemsView

from pyromq.model.topic import TopicConfig
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json import registration


class TopicTable(ConfigTable):
    """The topics of a broker."""

    file_name = "topics.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._topics: dict[str, TopicConfig] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, topic: str) -> TopicConfig | None:
        return self._topics.get(topic)

    def items(self) -> ItemsView[str, TopicConfig]:
        return self._topics.items()

    def put(self, config: TopicConfig, now_ms: int) -> None:
        self._topics[config.topic_name] = config
        self.bump(now_ms)

    def remove(self, topic: str, now_ms: int) -> TopicConfig | None:
        """What was removed; the version moves only if something was."""
        removed = self._topics.pop(topic, None)
        if removed is not None:
            self.bump(now_ms)
        return removed

    def snapshot(self) -> registration.TopicTableBody:
        """The table as a broker sends it to name servers and replicas; later changes do not show in it."""
        return registration.TopicTableBody(data_version=self.version, topic_config_table=dict(self._topics))

    def _read(self) -> None:
        stored = self._parsed(registration.TopicTableBody)
        self.version, self._topics = stored.data_version, dict(stored.topic_config_table)

    def _stored(self) -> registration.TopicTableBody:
        return self.snapshot()
