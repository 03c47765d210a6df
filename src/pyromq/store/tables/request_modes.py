"""Request modes: how groups fetch topics, pulling or popping, as the config folder keeps it.

    messageRequestMode.json  {"messageRequestModeMap":{"orders":{"g1":{"consumerGroup":"g1","mode":"POP",…}}}}

RocketMQ keeps no version beside this table.
"""

from __future__ import annotations

import msgspec

from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json.bodies import RequestMode


class _StoredModes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message_request_mode_map: dict[str, dict[str, RequestMode]] = {}


class RequestModeTable(ConfigTable):
    """The modes that an administrator set; all other groups pull."""

    file_name = "messageRequestMode.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._modes: dict[str, dict[str, RequestMode]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._modes.values()))

    def get(self, topic: str, group: str) -> RequestMode | None:
        return self._modes.get(topic, {}).get(group)

    def put(self, mode: RequestMode) -> None:
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode

    def _read(self) -> None:
        stored = self._parsed(_StoredModes)
        self._modes = {topic: dict(groups) for topic, groups in stored.message_request_mode_map.items()}

    def _stored(self) -> _StoredModes:
        return _StoredModes(message_request_mode_map=self._modes)
