"""Looking on while messages are sent and consumed: ``Producer(…, hooks=[hook])``, ``PushConsumer(…, hooks=[hook])``."""

from __future__ import annotations

from pyromq.client.core.hooks import ConsumeHook, SendHook
from pyromq.wire.trace import ConsumeCode

__all__ = [
    "ConsumeCode",
    "ConsumeHook",
    "SendHook",
]
