"""Group table: the consumer groups of a broker, as the config folder keeps them.

    subscriptionGroup.json   {"dataVersion":…,"forbiddenTable":{"g1":{"orders":4}},"subscriptionGroupTable":{"g1":{…}}}

Replicas compare the version, so every change takes the time and moves it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from pyromq.model.topic import DataVersion, GroupConfig
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import KeyedTable
from pyromq.wire.json import java_json

_GROUPS_PER_STEP: Final = 256


class StoredGroups(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, GroupConfig] = {}


class GroupTable(KeyedTable[GroupConfig]):
    """The consumer groups of a broker, and which topics a group must not read."""

    file_name = "subscriptionGroup.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._forbidden: dict[str, dict[str, int]] = {}

    @staticmethod
    def name_of(config: GroupConfig) -> str:
        return config.group_name

    def remove(self, name: str, now_ms: int) -> GroupConfig | None:
        """What was removed, its prohibitions with it; the version moves only if something was."""
        removed = self._entries.pop(name, None)
        if self._forbidden.pop(name, None) is not None or removed is not None:
            self.bump(now_ms)
        return removed

    def forbidden(self, group: str, topic: str) -> int:
        """Bits of ``Perm`` that the group must not use with the topic; 0 when it may do everything."""
        return self._forbidden.get(group, {}).get(topic, 0)

    def forbid(self, group: str, topic: str, perm: int, now_ms: int) -> None:
        """Replace the bits; 0 allows everything again."""
        topics = self._forbidden.setdefault(group, {})
        topics[topic] = perm
        if not perm:
            del topics[topic]
        if not topics:
            del self._forbidden[group]
        self.bump(now_ms)

    def _read(self) -> None:
        stored = self._parsed(StoredGroups)
        self.version, self._entries = stored.data_version, dict(stored.subscription_group_table)
        self._forbidden = {group: dict(topics) for group, topics in stored.forbidden_table.items()}

    def snapshot(self) -> StoredGroups:
        """The table as its file holds it; later changes do not show in it."""
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return StoredGroups(
            data_version=self.version, forbidden_table=forbidden, subscription_group_table=dict(self._entries)
        )

    def _stored(self) -> StoredGroups:
        return self.snapshot()

    def _encoded_in_steps(self, stored: msgspec.Struct) -> Generator[None, None, bytes]:
        parts = []
        for part in java_json.dumps_in_pieces(stored, "subscription_group_table", _GROUPS_PER_STEP, pretty=True):
            parts.append(part)
            yield
        return b"".join(parts)
