"""Which queue a message goes to: ``producer.send(message, selector=by_sharding_key)``.

A selector is a function of the message and the topic's queues. A message with a sharding key goes by it without one.
"""

from __future__ import annotations

from pyromq.client.producer.selectors import QueueSelector, at_random, by_sharding_key

__all__ = [
    "QueueSelector",
    "at_random",
    "by_sharding_key",
]
