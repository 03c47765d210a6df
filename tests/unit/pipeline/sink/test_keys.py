"""Unique keys of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.pipeline.sink.keys import KeyParts, RowKeys, digest_of, parse_key
from pyromq.wire.message_id import unique_id_time_ms


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_keys_say_which_row_they_name(batch: int, partition: int, row: int, run: int) -> None:
    key = RowKeys("query", batch, partition, run).of_row(row)
    assert parse_key(key) == KeyParts(digest_of("query"), batch, partition, row, run)


def test_tools_take_a_key_for_an_id_of_this_month() -> None:
    key = RowKeys("query", 1, 2).of_row(3)
    assert unique_id_time_ms(key, now_ms=9_000, month_start_ms=5_000, previous_month_start_ms=0) == 5_000


def test_a_row_with_an_identity_has_the_same_key_in_every_partition() -> None:
    one, two = RowKeys("query", 1, 2), RowKeys("query", 5, 6)
    assert one.of_own("order-1") == two.of_own("order-1") != two.of_own("order-2")
    assert len(one.of_own("order-1")) == len(one.of_row(0)) == 56
    assert RowKeys("other", 1, 2).of_own("order-1") != one.of_own("order-1")


@pytest.mark.parametrize("text", ["", "short", "Z" * 56, "1" * 56])
def test_other_keys_are_not_ours(text: str) -> None:
    assert parse_key(text) is None
