"""Prepared messages as an operator sees them."""

from __future__ import annotations

from pyromq.operate.transactions import ended_offsets, latest_of_each
from tests.unit.client.stored import received


def test_op_records_name_offsets() -> None:
    assert ended_offsets(b"12,15,") == {12, 15}
    assert ended_offsets(b"7") == {7}
    assert ended_offsets(b"") == ended_offsets(b"junk,") == set()


def test_a_check_appends_a_prepared_message_again() -> None:
    place, copy = received(unique_key="A", offset=1), received(unique_key="A", offset=4)
    elsewhere = received(unique_key="A", offset=2, broker="broker-b")
    assert latest_of_each([place, elsewhere, copy]) == [copy, elsewhere]
