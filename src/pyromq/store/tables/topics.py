"""Topic table: the topics of a broker, as the config folder keeps them.

    topics.json   {"dataVersion":…,"topicConfigTable":{"orders":{…}}}

Name servers and replicas compare the version, so every change takes the time and moves it. The file has the text of a
registration's table, so it shares that type.
"""

from __future__ import annotations

from collections.abc import ItemsView
from typing import Final

import msgspec

from pyromq.model.topic import TopicConfig
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json import java_json, registration

_BEGIN: Final = '"topicConfigTable":{'
_END: Final = "\n\t"
_ANY: Final = "@@"  # no topic is called that
_ANY_QUOTED: Final = f'"{_ANY}"'


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

    def _encoded(self, stored: msgspec.Struct) -> bytes:
        return encoded_topics(stored) if isinstance(stored, registration.TopicTableBody) else super()._encoded(stored)


def encoded_topics(table: registration.TopicTableBody) -> bytes:
    """``dumps_pretty`` of the table, faster: most topics differ in nothing but their names."""
    templates: dict[tuple[object, ...], str] = {}
    entries = []
    for name, config in sorted(table.topic_config_table.items()):
        if config.attributes or config.topic_name != name:
            entries.append(_entry(name, config))
            continue
        key = msgspec.structs.astuple(config)[1:-1]
        template = templates.get(key)
        if template is None:
            template = templates[key] = _entry(_ANY, msgspec.structs.replace(config, topic_name=_ANY))
        entries.append(template.replace(_ANY_QUOTED, msgspec.json.encode(name).decode()))
    hollow = msgspec.structs.replace(table, topic_config_table={})
    before, mark, behind = java_json.dumps_pretty(hollow).decode().partition(_BEGIN)
    return f"{before}{mark}{','.join(entries)}{_END if entries else ''}{behind}".encode()


def _entry(name: str, config: TopicConfig) -> str:
    """As it stands in the table, with the line break before it."""
    text = java_json.dumps_pretty({"topicConfigTable": {name: config}}).decode()
    return text[text.index(_BEGIN) + len(_BEGIN) : -len(_END + "}\n}")]
