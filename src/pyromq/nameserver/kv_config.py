"""Key-value configuration: namespaces of text, as admin tools set them; ``ORDER_TOPIC_CONFIG`` holds ordered topics.

A change is saved before it counts: after a refusal of the disk the table is as it was, and so are responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyromq.errors import quoted
from pyromq.nameserver.errors import LimitError, NotSavedError
from pyromq.nameserver.kv_file import KvFile, KvTable, encode_kv
from pyromq.nameserver.settings import NameServerLimits

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class KvConfig:
    """Owns the namespaces; without a file they live as long as the process."""

    def __init__(self, file: KvFile | None = None, *, limits: NameServerLimits | None = None) -> None:
        """Reads the file; raises CorruptFileError, OSError."""
        self._file = file
        self._limits = limits or NameServerLimits()
        stored = file.load() if file else None
        self._namespaces = stored.config_table if stored else {}
        self.revision = 0  # counts changes

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """All keys of a namespace; None when there never were any."""
        return self._namespaces.get(name)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key and save the table. Raises LimitError, NotSavedError."""
        for what, text in (("namespace", namespace), ("key", key)):
            if not text or len(text) > self._limits.name_characters_max:
                raise LimitError(f"{what} {quoted(text)} must have 1 to {self._limits.name_characters_max} characters")
        if self.get(namespace, key) != value:
            self._replace(namespace, {**self._namespaces.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Does nothing when it is not there. Raises NotSavedError."""
        table = self._namespaces.get(namespace, {})
        if key in table:
            self._replace(namespace, {each: value for each, value in table.items() if each != key})

    def _replace(self, namespace: str, table: dict[str, str]) -> None:
        namespaces = {**self._namespaces, namespace: table}
        text = encode_kv(KvTable(config_table=namespaces))
        if len(text) > self._limits.kv_bytes_max:
            raise LimitError(
                f"the configuration would have {len(text)} bytes, at most {self._limits.kv_bytes_max} are allowed"
            )
        if self._file:
            try:
                self._file.save(text)
            except OSError as error:
                raise NotSavedError(f"the configuration could not be saved: {error.strerror or error}") from error
        self._namespaces = namespaces
        self.revision += 1
