"""Places in queues: for ``Admin.reset_offset(to_ms=EARLIEST)`` and ``PullConsumer.seek(queue, SeekTo.BEGIN)``."""

from __future__ import annotations

from pyromq.client.admin import EARLIEST, LATEST
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.model.queue import QueueId

__all__ = [
    "EARLIEST",
    "LATEST",
    "QueueId",
    "SeekTo",
]
