"""Messages that wait: recall handles, levels, copies of timers."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.model.delay_levels import LEVELS_MS, parse_ladder
from pyromq.operate.delays import due_of, last_copies, make_handle, read_handle
from tests.unit.client.stored import received


def test_a_recall_handle_is_that_of_rocketmq() -> None:
    handle = "djEgc2hvcCBicm9rZXItYSAxNzk0NzI2ODM5MDAxIDdGMDAwMDAxNkU0OTMxQzIwNjQyNDk5RDM0MDQwMDAz"  # 5.5.0 gave it
    parts = ("shop", "broker-a", 1_794_726_839_001, "7F0000016E4931C20642499D34040003")
    assert read_handle(handle) == parts
    assert make_handle(*parts) == handle


@pytest.mark.parametrize("text", ["", "nonsense", "djIgYSBiIDEgYw==", "djEgYSBi", "é"])
def test_other_text_is_no_handle(text: str) -> None:
    with pytest.raises(ConfigError, match="no recall handle"):
        read_handle(text)


def test_delay_levels_are_read() -> None:
    assert parse_ladder("50ms 1s 2m 3h 4d") == (50, 1_000, 120_000, 10_800_000, 345_600_000)
    assert len(LEVELS_MS) == 18
    with pytest.raises(ConfigError):
        parse_ladder("1s soon")


def test_timers_copy_messages_and_the_last_copy_counts() -> None:
    first = received(unique_key="A", offset=1, REAL_TOPIC="orders", TIMER_OUT_MS="500")
    again = received(unique_key="A", offset=5, REAL_TOPIC="orders", TIMER_OUT_MS="500")
    other = received(unique_key="A", offset=6, REAL_TOPIC="bills")
    assert last_copies([first, again, other]) == [again, other]
    assert (due_of(first), due_of(other)) == (500, 0)
