"""Where things are in a store folder; RocketMQ's tree, plus the seal and what recovery cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def commit_log(self) -> Path:
        return self.root / "commitlog"

    @property
    def queues(self) -> Path:
        return self.root / "consumequeue"

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        """Present while the store is open, so also after a crash."""
        return self.root / "abort"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def cut(self) -> Path:
        """Bytes that recovery took out of the log."""
        return self.root / "cut"

    def queue(self, topic: str, queue_id: int) -> Path:
        return self.queues / topic / str(queue_id)
