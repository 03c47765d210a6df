"""Topic table: the topics of a broker, as the config folder keeps them.

    topics.json   {"dataVersion":…,"topicConfigTable":{"orders":{…}}}

Name servers and replicas compare the version, so every change takes the time and moves it. The file has the text of a
registration's table, so it shares that type.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from pyromq.model.topic import TopicConfig
from pyromq.store.tables.config_table import KeyedTable
from pyromq.store.tables.steps import all_steps
from pyromq.wire.json import java_json, registration

_TOPICS_PER_STEP: Final = 1_000
_NAMES_PER_STEP: Final = 5_000
_BEGIN: Final = '"topicConfigTable":{'
_END: Final = "\n\t"
_ANY: Final = "@@"  # no topic is called that
_ANY_QUOTED: Final = f'"{_ANY}"'


class TopicTable(KeyedTable[TopicConfig]):
    """The topics of a broker."""

    file_name = "topics.json"

    @staticmethod
    def name_of(config: TopicConfig) -> str:
        return config.topic_name

    def snapshot(self) -> registration.TopicTableBody:
        """The table as a broker sends it to name servers and replicas; later changes do not show in it."""
        return registration.TopicTableBody(data_version=self.version, topic_config_table=dict(self._entries))

    def _read(self) -> None:
        stored = self._parsed(registration.TopicTableBody)
        if self._given is not None and not stored.topic_config_table:
            raise ValueError("it has no topics, though every broker has some: it was lost")
        self.version, self._entries = stored.data_version, dict(stored.topic_config_table)

    def _stored(self) -> registration.TopicTableBody:
        return self.snapshot()

    def _encoded(self, stored: msgspec.Struct) -> bytes:
        assert isinstance(stored, registration.TopicTableBody)
        return all_steps(encoded_topics(stored))

    def _encoded_in_steps(self, stored: msgspec.Struct) -> Generator[None, None, bytes]:
        assert isinstance(stored, registration.TopicTableBody)
        return encoded_topics(stored)


def encoded_topics(table: registration.TopicTableBody) -> Generator[None, None, bytes]:
    """``dumps_pretty`` of the table in steps, and faster: most topics differ in nothing but their names."""
    topics, templates = table.topic_config_table, dict[tuple[object, ...], str]()
    names = yield from _sorted(list(topics))
    parts = []
    for start in range(0, len(names), _TOPICS_PER_STEP):
        entries = [_entry_of(name, topics[name], templates) for name in names[start : start + _TOPICS_PER_STEP]]
        parts.append(",".join(entries).encode())
        yield
    hollow = msgspec.structs.replace(table, topic_config_table={})
    before, mark, behind = java_json.dumps_pretty(hollow).partition(_BEGIN.encode())
    return b"".join((before, mark, b",".join(parts), _END.encode() if parts else b"", behind))


def _sorted(names: list[str]) -> Generator[None, None, list[str]]:
    """Part by part, then as a whole: sorting what consists of sorted parts takes a moment only."""
    for start in range(0, len(names), _NAMES_PER_STEP):
        if start:
            yield
        names[start : start + _NAMES_PER_STEP] = sorted(names[start : start + _NAMES_PER_STEP])
    names.sort()
    return names


def _entry_of(name: str, config: TopicConfig, templates: dict[tuple[object, ...], str]) -> str:
    if config.attributes or config.topic_name != name:
        return _entry(name, config)
    key = msgspec.structs.astuple(config)[1:-1]
    template = templates.get(key)
    if template is None:
        template = templates[key] = _entry(_ANY, msgspec.structs.replace(config, topic_name=_ANY))
    return template.replace(_ANY_QUOTED, msgspec.json.encode(name).decode())


def _entry(name: str, config: TopicConfig) -> str:
    """Encode a topic as it stands in the table, with the line break before it."""
    text = java_json.dumps_pretty({"topicConfigTable": {name: config}}).decode()
    return text[text.index(_BEGIN) + len(_BEGIN) : -len(_END + "}\n}")]
