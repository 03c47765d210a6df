from __future__ import annotations

import asyncio
from typing import Any

from pyromq.net.pending_requests import ID_MAX, NEVER_MS, PendingRequest, PendingRequests
from pyromq.wire.received import Received


def pending(deadline_ms: int) -> PendingRequest:
    loop = asyncio.new_event_loop()
    future: asyncio.Future[Received[Any]] = loop.create_future()
    loop.close()
    return PendingRequest(future, deadline_ms, 100, 10)


def test_ids_count_from_one() -> None:
    table = PendingRequests()
    assert [table.next_id() for _ in range(3)] == [1, 2, 3]


def test_ids_start_over_before_they_leave_31_bits_and_pass_over_those_in_use() -> None:
    table = PendingRequests(last_id=ID_MAX - 2)
    table.by_id[ID_MAX] = table.by_id[1] = table.by_id[3] = pending(0)
    assert [table.next_id() for _ in range(4)] == [ID_MAX - 1, 2, 4, 5]


def test_late_requests_are_taken_and_the_next_deadline_is_told() -> None:
    table = PendingRequests()
    table.by_id = {number: pending(deadline_ms) for number, deadline_ms in ((1, 300), (2, 100), (3, 200), (4, 500))}
    late, next_ms = table.take_late(200)
    assert sorted(each.deadline_ms for each in late) == [100, 200]
    assert next_ms == 300
    assert sorted(table.by_id) == [1, 4]
    assert table.take_late(1_000)[1] == NEVER_MS
