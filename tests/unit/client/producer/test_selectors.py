"""Queues that are chosen by key or by chance."""

from __future__ import annotations

from random import Random

import pytest

from pyromq.client.producer.selectors import at_random, by_sharding_key, hashed_index
from pyromq.errors import (
    MessageRefusedError,
)
from pyromq.model.message import Message
from pyromq.model.queue import QueueId

QUEUES = [QueueId("t", broker, number) for broker in ("a", "b", "c") for number in range(2)]


@pytest.mark.parametrize(("key", "count", "index"), [("a", 4, 1), ("TagA", 4, 3), ("polygenelubricants", 7, 2)])
def test_a_sharding_key_chooses_as_java_does(key: str, count: int, index: int) -> None:
    assert hashed_index(key, count) == index  # the last one hashes to Integer.MIN_VALUE


def test_the_same_sharding_key_always_has_the_same_queue() -> None:
    messages = [Message("t", b"x", sharding_key=f"k{n}") for n in range(200)]
    assert [by_sharding_key(m, QUEUES) for m in messages] == [by_sharding_key(m, QUEUES) for m in messages]
    assert {by_sharding_key(m, QUEUES) for m in messages} == set(QUEUES)
    with pytest.raises(MessageRefusedError):
        by_sharding_key(Message("t", b"x"), QUEUES)


def test_chance_reaches_every_queue() -> None:
    choose = at_random(Random(1))
    assert {choose(Message("t", b"x"), QUEUES) for _ in range(200)} == set(QUEUES)
