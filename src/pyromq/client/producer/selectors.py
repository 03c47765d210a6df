"""Queue selectors: functions of the message and the topic's queues, which come sorted.

Any callable with the same arguments will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from pyromq.errors import MessageRefusedError
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from pyromq.wire.java_hash import java_hash

QueueSelector = Callable[[Message, Sequence[QueueId]], QueueId]


def by_sharding_key(message: Message, queues: Sequence[QueueId]) -> QueueId:
    """Choose the queue by the sharding key, as Java clients do: one key, one queue, while the topic keeps its
    queues.
    """
    if not message.sharding_key:
        raise MessageRefusedError(f"a message to {message.topic} has no sharding key to choose a queue by")
    return queues[hashed_index(message.sharding_key, len(queues))]


def at_random(rng: Random) -> QueueSelector:
    """Any queue, every time anew."""

    def choose(message: Message, queues: Sequence[QueueId]) -> QueueId:
        return queues[rng.randrange(len(queues))]

    return choose


def hashed_index(key: str, count: int) -> int:
    """Java's ``Math.abs(key.hashCode() % count)``: its remainder has the sign of the dividend."""
    return abs(java_hash(key)) % count
