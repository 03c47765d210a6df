"""Owners: which user made which topic and group, as the config folder keeps it. RocketMQ has no such file.

    pyromq-owners.json  {"groups":{"billing":"shop"},"topics":{"orders":"shop"}}

Kept only where quotas ask how many somebody has made. A name whose topic or group is gone counts for nobody.
"""

from __future__ import annotations

import msgspec

from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable


class _StoredOwners(msgspec.Struct, frozen=True, kw_only=True):
    topics: dict[str, str] = {}
    groups: dict[str, str] = {}


class OwnerTable(ConfigTable):
    """By the name of the topic or group: the user that made it."""

    file_name = "pyromq-owners.json"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self.topics: dict[str, str] = {}
        self.groups: dict[str, str] = {}

    def _read(self) -> None:
        stored = self._parsed(_StoredOwners)
        self.topics, self.groups = dict(stored.topics), dict(stored.groups)
        self.found = True  # there is no file before the first entry: most brokers never need one

    def _stored(self) -> _StoredOwners:
        return _StoredOwners(topics=dict(self.topics), groups=dict(self.groups))
