"""Offsets of a broadcasting group: a file on the consumer's machine, in RocketMQ's form.

    <home>/.rocketmq_offsets/<client id>/<group>/offsets.json
    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:42}}        object keys: not standard JSON

Replaced whole (``whole_text``), so a crash leaves one readable copy at least. A torn file is passed over for its
backup. When both are torn, reading says so rather than giving an empty table, which would let the consumer skip
everything since.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError, CorruptFileError, MQError, ProtocolError
from pyromq.model.names import validate_group
from pyromq.model.queue import Offset, QueueId
from pyromq.whole_text import WholeText
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import ResetOffsets

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FOLDER: Final = ".rocketmq_offsets"
NAME: Final = "offsets.json"
LOCK_NAME: Final = "offsets.lock"  # stays where it is, empty: to remove it would let two members hold it
FOLDER_VARIABLE: Final = "PYROMQ_OFFSETS_FOLDER"

logger = logging.getLogger(__name__)


class OffsetsUnreadableError(MQError):
    """The file and its backup are damaged: restore one of them, or remove both to start without offsets."""


def default_folder() -> Path:
    """PYROMQ_OFFSETS_FOLDER, or else the user's home."""
    named = os.environ.get(FOLDER_VARIABLE, "")
    return Path(named) if named else Path.home()


def offsets_path(home: Path, client_id: str, group: str) -> Path:
    """Where RocketMQ keeps the file; raises ConfigError for a client id that would lead elsewhere."""
    if client_id in ("", ".", "..") or not client_id.isprintable() or "/" in client_id or "\\" in client_id:
        raise ConfigError(f"client id {client_id[:80]!r} cannot be the name of a folder")
    return home / FOLDER / client_id / validate_group(group) / NAME


def encode_offsets(offsets: Mapping[QueueId, int]) -> bytes:
    """The text of the file; queues are sorted, so equal tables are equal texts."""
    return bodies.encode(ResetOffsets(offset_table=dict(sorted(offsets.items()))))


def decode_offsets(text: bytes) -> dict[QueueId, Offset]:
    """Decode an offsets file; entries that are no offsets (Java writes −1 at times) are left out. Raises
    RemoteProtocolError.
    """
    table = bodies.decode(text, ResetOffsets).offset_table
    return {queue: Offset(offset) for queue, offset in table.items() if offset >= 0}


class OffsetsFile:
    """Reading and writing block: call them on a worker thread, with what the loop prepared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = WholeText(path, _is_readable)
        self._lock: TextIOWrapper | None = None  # open while the file is ours

    def claim(self) -> None:
        """No other member on this machine may use the file until ``give_back``, or the end of the process.

        Two would overwrite each other's progress, and one of them miss messages after a restart. Raises ConfigError.
        Where the system has no such locks, or the folder cannot be written, nothing is claimed.
        """
        if fcntl is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(LOCK_NAME).open("a+")
        except OSError as error:
            logger.warning("offsets file not claimed: path=%s error=%s", self._path, error)
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            group, client_id = self._path.parent.name, self._path.parent.parent.name
            text = f"another broadcasting member of group {group} on this machine keeps its offsets in {self._path}"
            advice = f"give each member an instance_name= of its own that lasts (this one is {client_id})"
            raise ConfigError(f"{text}: {advice}, or another offsets_folder") from error
        self._lock = lock

    def give_back(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

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
