"""The file of the key-value configuration: RocketMQ's kvConfig.json, with its backup (``whole_text``).

{"configTable":{"ORDER_TOPIC_CONFIG":{"TopicTest":"broker-a:4;broker-b:4"}}}
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pyromq.errors import ProtocolError
from pyromq.whole_text import WholeText
from pyromq.wire.json import java_json


class KvTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Key-value configuration by namespace (RocketMQ: KVConfigSerializeWrapper)."""

    config_table: dict[str, dict[str, str]] = {}


class KvFile:
    """File of the key-value configuration, in RocketMQ's JSON. Raises OSError as the system does."""

    def __init__(self, path: Path) -> None:
        self._text = WholeText(path, _is_readable)

    def save(self, text: bytes) -> None:
        """Durable when it returns; after an OSError the old or the new text is there."""
        self._text.save(text)

    def load(self) -> KvTable | None:
        """None when there is no file. Raises CorruptFileError."""
        return self._text.load(_parse)


def encode_kv(table: KvTable) -> bytes:
    """Encode the table as ``java_json`` would, at a fraction of its cost: every change writes the whole table."""
    try:
        return msgspec.json.encode(table, order="sorted")
    except UnicodeError:
        return java_json.dumps(table)  # says what is wrong


def _parse(text: bytes) -> KvTable:
    return java_json.decode(text, KvTable)


def _is_readable(text: bytes) -> bool:
    try:
        _parse(text)
    except ProtocolError:
        return False
    return True
