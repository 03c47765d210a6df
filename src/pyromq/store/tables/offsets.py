"""Offset tables: how far consumers and delay levels have come, as the config folder keeps it.

    consumerOffset.json      {"dataVersion":…,"offsetTable":{"orders@g1":{0:120,1:98}}}
    delayOffset.json         {"dataVersion":…,"offsetTable":{1:10,3:44}}

``topic@group`` is parted at its first ``@``: a topic cannot contain one, but a group may end in ``@broadcast``.
RocketMQ's ``groupTopicMap`` beside the offsets is derived from them, and optional: neither read nor written.

Offsets move too often for a version of each change; the owner calls ``bump`` now and then.
"""

from __future__ import annotations

import logging
from collections.abc import ItemsView

import msgspec

from pyromq.model.topic import DataVersion
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json.java_json import Long

logger = logging.getLogger(__name__)

_SEPARATOR = "@"


class _StoredOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    data_version: DataVersion = DataVersion()
    offset_table: dict[str, dict[int, Long]] = {}


class _StoredDelays(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    data_version: DataVersion = DataVersion()
    offset_table: dict[int, Long] = {}


class OffsetTable(ConfigTable):
    """How far each group has come in each queue: the offset it wants next."""

    file_name = "consumerOffset.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def offsets_count(self) -> int:
        """Number of offsets of all queues, counted on demand."""
        return sum(map(len, self._offsets.values()))

    def get(self, topic: str, group: str, queue_id: int) -> int | None:
        queues = self._offsets.get((topic, group))
        return None if queues is None else queues.get(queue_id)

    def queues_of(self, topic: str, group: str) -> dict[int, int] | None:
        """To be looked at, not edited."""
        return self._offsets.get((topic, group))

    def items(self) -> ItemsView[tuple[str, str], dict[int, int]]:
        """By topic and group, the next offset of each queue; to be looked at, not edited."""
        return self._offsets.items()

    def put(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        self._offsets.setdefault((topic, group), {})[queue_id] = offset
        self.unsaved = True

    def remove(self, topic: str, group: str) -> dict[int, int]:
        """Forget a group's way through a topic; what was known of it."""
        self.unsaved = True
        return self._offsets.pop((topic, group), {})

    def _read(self) -> None:
        stored = self._parsed(_StoredOffsets)
        self.version, self._offsets = stored.data_version, {}
        for key, queues in stored.offset_table.items():
            topic, separator, group = key.partition(_SEPARATOR)
            if topic and separator and group:
                self._offsets[topic, group] = dict(queues)
            else:
                logger.warning("offsets without a topic or group dropped: file=%s key=%r", self._file.path, key)

    def _stored(self) -> _StoredOffsets:
        table = {f"{topic}{_SEPARATOR}{group}": dict(queues) for (topic, group), queues in self._offsets.items()}
        return _StoredOffsets(data_version=self.version, offset_table=table)


class DelayOffsets(ConfigTable):
    """How far delivery has come in the queue of each delay level."""

    file_name = "delayOffset.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._offsets: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, level: int) -> int | None:
        return self._offsets.get(level)

    def items(self) -> ItemsView[int, int]:
        return self._offsets.items()

    def put(self, level: int, offset: int) -> None:
        self._offsets[level] = offset

    def remove(self, level: int) -> int | None:
        return self._offsets.pop(level, None)

    def _read(self) -> None:
        stored = self._parsed(_StoredDelays)
        self.version, self._offsets = stored.data_version, dict(stored.offset_table)

    def _stored(self) -> _StoredDelays:
        return _StoredDelays(data_version=self.version, offset_table=dict(self._offsets))
