"""Messages on their way out: fields, properties, bodies, batches."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.settings import Compression, ProducerSettings
from pyromq.client.producer.outgoing import (
    check_batch,
    pack_body,
    split_batch,
)
from pyromq.errors import (
    MessageRefusedError,
    MessageTooLargeError,
)
from pyromq.model.message import Message
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, decode_batch
from pyromq.wire.compression import decompress
from pyromq.wire.properties import decode_properties


@pytest.mark.parametrize("compression", Compression)
def test_a_body_is_packed_only_if_that_helps(compression: Compression) -> None:
    settings = ProducerSettings(compression=compression)
    body, noise = b"again " * 1_000, Random(1).randbytes(5_000)
    packed, flag = pack_body(body, settings)
    assert decompress(packed, flag) == body
    assert (len(packed) < len(body)) == (compression is not Compression.NONE)
    assert pack_body(noise, settings) == (noise, 0)


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=60), bytes_max=st.integers(400, 1_000))
def test_a_batch_is_split_in_order_and_no_part_is_too_large(sizes: list[int], bytes_max: int) -> None:
    messages = [Message("t", bytes([n % 251]) * size, keys=f"k{n}") for n, size in enumerate(sizes)]
    ids = [f"ID{n}" for n in range(len(messages))]
    parts = split_batch(messages, ids, "", bytes_max)
    assert all(len(part.body) <= bytes_max for part in parts)
    assert [each for part in parts for each in part.unique_ids] == ids
    items = [item for part in parts for item in decode_batch(part.body).items()]
    assert [item.body for item in items] == [message.body for message in messages]
    assert [decode_properties(item.properties)["UNIQ_KEY"] for item in items] == ids
    for one, other in pairwise(parts):  # the first of the next part would not have fitted into this one
        first = decode_batch(other.body).items()[0]
        assert len(one.body) + ITEM_OVERHEAD_BYTES + len(first.body) + len(first.properties) > bytes_max


def test_a_message_that_fits_into_no_request_is_refused() -> None:
    with pytest.raises(MessageTooLargeError):
        split_batch([Message("t", b"x" * 500)], ["ID"], "", 400)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Message("u", b"x"), "one topic"),
        (Message("t", b"x", wait_stored=False), "wait_stored"),
        (Message("t", b"x", sharding_key="k"), "sharding key"),
        (Message("t", b"x", delay_level=1), "cannot be delayed"),
    ],
)
def test_what_cannot_be_one_batch_is_refused(other: Message, text: str) -> None:
    with pytest.raises(MessageRefusedError, match=text):
        check_batch([Message("t", b"x"), other])
    with pytest.raises(MessageRefusedError):
        check_batch([])


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_to_a_retry_topic_is_refused_whatever_its_size(count: int) -> None:
    with pytest.raises(MessageRefusedError, match="a batch cannot go to a retry topic"):
        check_batch([Message("%RETRY%g", b"x")] * count)
