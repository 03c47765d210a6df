"""Offsets in checkpoints: plain for a few queues, packed for many, and both are read."""

from __future__ import annotations

import json
import random
import zlib
from base64 import b85encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import PLAIN_MAX, OffsetFormatError, OffsetMemory, Offsets, from_tree, to_tree

_queues = st.builds(QueueId, st.sampled_from(["a", "%RETRY%g"]), st.sampled_from("xy"), st.integers(0, 9_999))
_many = st.dictionaries(_queues, st.integers(0, 1 << 62), min_size=PLAIN_MAX + 1, max_size=3 * PLAIN_MAX)


def queue(number: int) -> QueueId:
    return QueueId("orders", "broker-a", number)


def packed(data: bytes) -> str:
    return b85encode(zlib.compress(data)).decode()


@given(_many)
def test_packed_offsets_are_the_same_offsets(offsets: Offsets) -> None:
    tree = json.loads(json.dumps(to_tree(offsets)))
    assert list(tree) == ["*"] and from_tree(tree) == offsets


def test_offsets_of_a_few_queues_can_be_read_by_people() -> None:
    offsets = {queue(number): number for number in range(PLAIN_MAX)}
    assert to_tree(offsets)["orders"]["broker-a"]["7"] == 7


def test_offsets_of_ten_thousand_queues_take_little_room() -> None:
    rng = random.Random(7)
    offsets = {queue(number): 1_000_000 + rng.randrange(100) for number in range(10_000)}
    assert len(json.dumps(to_tree(offsets))) <= 20_000


def test_offsets_of_many_queues_are_read_as_they_were_written_before() -> None:
    old = {"orders": {"broker-a": {str(number): number * 3 for number in range(10_000)}}}
    assert from_tree(old) == {queue(number): number * 3 for number in range(10_000)}


@pytest.mark.parametrize("text", ["", "zzz", "c$", '"', packed(b"1"), packed(b'{"a": 1}'), packed(b"[" * 50_000)])
def test_what_is_not_packed_offsets_is_refused(text: str) -> None:
    with pytest.raises(OffsetFormatError):
        from_tree({"*": text})


def test_a_packed_text_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(OffsetFormatError, match="too long"):
        from_tree({"*": packed(b" " * (65 << 20))})


def test_what_spark_hands_back_is_not_read_twice() -> None:
    memory, offsets = OffsetMemory(), {queue(number): 5 for number in range(100)}
    tree = memory.tree_of(offsets)
    assert memory.offsets_of(json.loads(json.dumps(tree))) is offsets
    assert memory.tree_of(offsets) is tree
