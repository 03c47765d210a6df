"""How a broker names its own queues."""

from __future__ import annotations

QueueKey = tuple[str, int]
"""Topic and number, as in ``MessageStore.queues``; with the name of its broker a queue is a ``model.QueueId``."""
