"""Offsets of a broadcasting group: a file on the consumer's machine, in RocketMQ's form.

    <home>/.rocketmq_offsets/<client id>/<group>/offsets.json
    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:42}}        object keys: not standard JSON

Replaced whole (``whole_text``), so a crash leaves one readable copy at least. A torn file is passed over for its
backup. When both are torn, reading says so rather than giving an empty table, which would let the consumer skip
everything since.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError, CorruptFileError, MQError, ProtocolError
from pyromq.model.names import validate_group
from pyromq.model.queue import Offset, QueueId
from pyromq.whole_text import WholeText
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import ResetOffsets

FOLDER: Final = ".rocketmq_offsets"
NAME: Final = "offsets.json"


class OffsetsUnreadableError(MQError):
    """The file and its backup are damaged: restore one of them, or remove both to start without offsets."""


def offsets_path(home: Path, client_id: str, group: str) -> Path:
    """Where RocketMQ keeps the file; raises ConfigError for a client id that would lead elsewhere."""
    if client_id in ("", ".", "..") or not client_id.isprintable() or "/" in client_id or "\\" in client_id:
        raise ConfigError(f"client id {client_id[:80]!r} cannot be the name of a folder")
    return home / FOLDER / client_id / validate_group(group) / NAME


def encode_offsets(offsets: Mapping[QueueId, int]) -> bytes:
    """The text of the file; queues are sorted, so equal tables are equal texts."""
    return bodies.encode(ResetOffsets(offset_table=dict(sorted(offsets.items()))))


def decode_offsets(text: bytes) -> dict[QueueId, Offset]:
    """Raises RemoteProtocolError; entries that are no offsets (Java writes −1 at times) are left out."""
    table = bodies.decode(text, ResetOffsets).offset_table
    return {queue: Offset(offset) for queue, offset in table.items() if offset >= 0}


class OffsetsFile:
    """Reading and writing block: call them on a worker thread, with what the loop prepared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = WholeText(path, _is_readable)

    def load(self) -> dict[QueueId, Offset]:
        """The newest readable table, an empty one when there never was a file.

        Raises OffsetsUnreadableError when there is one and no copy can be read, OSError as the system does.
        """
        try:
            offsets = self._text.load(decode_offsets)
        except CorruptFileError as error:
            raise OffsetsUnreadableError(str(error)) from error
        if offsets is None and self._path.exists():
            raise OffsetsUnreadableError(f"{self._path} is empty and has no backup; restore it, or remove it")
        return offsets or {}

    def save(self, text: bytes) -> None:
        """Replace the table by one of ``encode_offsets``; raises OSError, and the old table stays then."""
        self._text.save(text)


def _is_readable(text: bytes) -> bool:
    try:
        decode_offsets(text)
    except ProtocolError:
        return False
    return True
