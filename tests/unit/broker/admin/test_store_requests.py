"""When expired files are looked for the next time."""

from __future__ import annotations

from datetime import datetime

import pytest

from pyromq.broker.admin.store_requests import next_hour_ms


def local_ms(hour: int, minute: int = 0, day: int = 10) -> int:
    return int(datetime(2026, 3, day, hour, minute).astimezone().timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "hours", "expected"),
    [
        ((2, 30, 10), (4,), (4, 0, 10)),
        ((4, 0, 10), (4,), None),
        ((4, 59, 10), (4,), None),
        ((5, 0, 10), (4,), (4, 0, 11)),
        ((23, 59, 10), (0, 12), (0, 0, 11)),
        ((11, 0, 10), (0, 12), (12, 0, 10)),
        ((11, 0, 10), (), None),
    ],
)
def test_the_next_hour_of_deletion_is_told(
    now: tuple[int, int, int], hours: tuple[int, ...], expected: tuple[int, int, int] | None
) -> None:
    assert next_hour_ms(local_ms(*now), hours) == (local_ms(*expected) if expected else 0)
