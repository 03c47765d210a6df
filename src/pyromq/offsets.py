"""Places in queues: for ``Admin.reset_offset(to_ms=EARLIEST)`` and ``PullConsumer.seek(queue, SeekTo.BEGIN)``.

``OffsetStore`` is what a consumer can keep its offsets in: ``PushConsumer(…, offset_store=store)``.
"""

from __future__ import annotations

from pyromq.client.admin import EARLIEST, LATEST
from pyromq.client.consumer.base.offset_store import OffsetStore
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.model.queue import QueueId

__all__ = [
    "EARLIEST",
    "LATEST",
    "OffsetStore",
    "QueueId",
    "SeekTo",
]
