"""Readers: everything that waits for new messages of a queue, and is woken when consumers may see them."""

from __future__ import annotations

import logging
from typing import Protocol

from pyromq.broker.commit.touched import Touched

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """A part that reads queues."""

    def wake(self, queues: Touched) -> None:
        """Messages of these queues became visible."""


class Readers:
    """Made before the write path; its readers, which need the write path themselves, join when they are made."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers

    def join(self, *readers: Reader) -> None:
        self._readers += readers

    def wake(self, queues: Touched) -> None:
        for reader in self._readers:
            try:
                reader.wake(queues)
            except Exception:  # a defect of one must keep neither the others, nor writers from their responses
                logger.exception("reader not woken: queues=%d", len(queues.names()))
