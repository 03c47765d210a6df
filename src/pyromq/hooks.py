"""Looking on while messages are sent and consumed: ``Producer(…, hooks=[hook])``, ``PushConsumer(…, hooks=[hook])``.

``install(hook)`` is for all producers and consumers of the process that are made afterwards.
"""

from __future__ import annotations

from pyromq.client.core.hooks import ConsumeHook, Delivery, SendHook, Sending, install, uninstall
from pyromq.wire.trace import ConsumeCode

__all__ = [
    "ConsumeCode",
    "ConsumeHook",
    "Delivery",
    "SendHook",
    "Sending",
    "install",
    "uninstall",
]
