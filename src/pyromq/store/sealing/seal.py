"""The seal: what recovery may trust without looking, in ``pyromq-seal.json`` beside RocketMQ's own files.

``position`` is a record boundary. Everything before it is durable: the log and the queue entries derived from it, and
of those the CRCs are here. The same holds for the key index up to ``index_position``, which may lag behind. Recovery
checks derived files against the seal, drops from them what lies behind it, and derives that again from the log. Apache
RocketMQ ignores the file; when it has written to the store meanwhile, what it appended simply lies behind the seal.

A seal is gathered while appends go on, so queues may be sealed further than ``position``: up to ``flushed`` at most,
and up to there the log is durable too.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from pyromq.errors import CorruptFileError
from pyromq.store.derived.consume_queue import QueueSeal
from pyromq.store.derived.index_file import IndexSeal
from pyromq.store.files.disk import Disk
from pyromq.store.files.whole_file import WholeFile

logger = logging.getLogger(__name__)

SEAL_NAME = "pyromq-seal.json"


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    index_position: int
    clean: bool
    stored_ms: int = 0
    queues: dict[str, list[QueueSeal]] = {}  # by "topic/queue id"
    index: list[IndexSeal] = []
    deleted: dict[str, int] = {}  # topics deleted since, with the end of the log at that moment
    flushed: int = 0  # the end of the log when the last queue was gathered

    @property
    def durable_end(self) -> int:
        """Damage before this position is a disk's, not a crash's."""
        return max(self.position, self.flushed)


def load_seal(disk: Disk, root: Path) -> Seal | None:
    """The newest whole seal; None when there is none: a new store, one that RocketMQ wrote, or both copies damaged."""
    try:
        return WholeFile(disk, root / SEAL_NAME).load(msgspec.json.Decoder(Seal).decode)
    except CorruptFileError as error:
        logger.warning("seal is lost, derived files are trusted as RocketMQ does: reason=%s", error)
        return None


def save_seal(disk: Disk, root: Path, seal: Seal) -> None:
    WholeFile(disk, root / SEAL_NAME).save(msgspec.json.encode(seal))
