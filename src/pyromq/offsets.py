"""Places in queues: for ``admin.offsets.reset(to_ms=EARLIEST)`` and ``PullConsumer.seek(queue, SeekTo.BEGIN)``.

``OffsetStore`` is what a consumer can keep its offsets in: ``PushConsumer(…, offset_store=store)``.
"""

from __future__ import annotations

from pyromq.client.consumer.base.offset_store import OffsetStore
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.model.queue import QueueId
from pyromq.operate.offsets import EARLIEST, LATEST

__all__ = [
    "EARLIEST",
    "LATEST",
    "OffsetStore",
    "QueueId",
    "SeekTo",
]
