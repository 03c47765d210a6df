"""Pressure on the disk: whether the next sends wait at the gate, or go to another broker."""

from __future__ import annotations

from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import Clock
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush


class Pressure:
    """The stages count what waits in them; ``update`` says what follows."""

    def __init__(self, store: MessageStore, settings: BrokerSettings, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._sync = store.settings.flush is Flush.SYNC
        self._stuck_disk_ms = settings.stuck_disk_ms
        self._waiting_max = settings.unflushed_sends_max
        self._unflushed_bytes_max = settings.unflushed_bytes_max  # with async flush
        self.behind_bytes = (settings.unflushed_bytes_max + 1) // 2  # with more the next flush does not wait
        self.waiting_for_disk = 0  # sends
        self.waiting_for_replicas = 0  # sends
        self.flushing_since_ms: int | None = None  # one flush is under way since then
        # brought up to date by ``update``
        self.is_busy = False  # too many sends, or too many bytes, wait for the disk: the next sends should wait
        self.is_stuck = False  # one flush takes too long: sends should go elsewhere

    def stuck_ms(self) -> int:
        """For how long the disk has been busy with one flush."""
        return self._clock.monotonic_ms() - self.flushing_since_ms if self.flushing_since_ms is not None else 0

    def update(self) -> None:
        """Recompute ``is_busy`` and ``is_stuck``."""
        is_late = self.stuck_ms() > self._stuck_disk_ms
        if self._sync:
            self.is_stuck = is_late
            self.is_busy = is_late or self.waiting_for_disk >= self._waiting_max
        else:  # no send waits for a flush, until a power cut would take more than is allowed
            self.is_busy = self._store.unflushed_bytes >= self._unflushed_bytes_max and self._store.health.trusted
            self.is_stuck = self.is_busy and is_late
        if self.waiting_for_replicas + self.waiting_for_disk >= self._waiting_max:
            self.is_busy = True
