"""The seal: what recovery may trust without looking, in ``pyromq-seal.json`` beside RocketMQ's own files.

A seal names a *position*, the number of a byte in the commit log, at which a record ends. Everything before it is
durable: the log, and the queue entries *derived* from it (computed from its records, and so replaceable). Of each queue
file the seal has the CRC-32 of its durable part. The same holds for the key index up to ``index_position``, which may
be lower. Recovery checks derived files against the seal, drops from them what lies behind it, and derives that again
from the log. Apache RocketMQ ignores the file; what it appended to the store meanwhile simply lies behind the seal.

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
    position: int  # everything before it is durable, log and queues
    index_position: int  # and so are the keys of records before this one
    clean: bool  # made by a clean stop
    stored_ms: int = 0  # store time of the newest record
    queues: dict[str, list[QueueSeal]] = {}  # by "topic/queue id"
    index: list[IndexSeal] = []
    deleted: dict[str, int] = {}  # topics deleted since, with the end of the log at that moment
    flushed: int = 0  # the end of the log when the last queue was gathered

    @property
    def durable_end(self) -> int:
        """The log was durable up to here: damage before it is the disk's fault, not what a crash left."""
        return max(self.position, self.flushed)


def load_seal(disk: Disk, root: Path) -> Seal | None:
    """The newest whole seal; None when there is none: a new store, one that RocketMQ wrote, or both copies damaged."""
    try:
        return WholeFile(disk, root / SEAL_NAME).load(msgspec.json.Decoder(Seal).decode)
    except CorruptFileError as error:
        logger.warning("seal lost, derived files are trusted by RocketMQ's rules: reason=%s", error)
        return None


def save_seal(disk: Disk, root: Path, seal: Seal) -> None:
    WholeFile(disk, root / SEAL_NAME).save(msgspec.json.encode(seal))
