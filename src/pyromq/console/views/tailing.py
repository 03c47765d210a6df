"""Tailing a topic as a stream of events: bounded in rate, and what was dropped is counted.

message   a row as JSON; its id is where each queue stands, with which a browser that lost us goes on
dropped   how many messages were passed over since the last event, because they were too many
problem   why nothing can be read at the moment; the stream goes on
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from pyromq.aio import QueueId
from pyromq.console.desk import Desk
from pyromq.console.views.messages import MessageListRow, list_row_of
from pyromq.console.web.streams import Event
from pyromq.errors import ConfigError, MQError
from pyromq.operate.reading.search import MessageQuery, SearchFilter, read_cursor

POLL_S: Final = 0.5
RATE_MAX: Final = 200  # messages per look
_READ_MAX: Final = 64  # of one queue, per look
_AFTER_PROBLEM_S: Final = 3.0


class Dropped(msgspec.Struct, frozen=True):
    count: int


class Trouble(msgspec.Struct, frozen=True):
    detail: str


async def tail_events(desk: Desk, query: MessageQuery, last_id: str = "") -> AsyncIterator[Event]:
    """From now on, or from where ``last_id`` says. Raises TopicNotFoundError, ConfigError with its first event."""
    wanted = SearchFilter(query)
    ends = _continued(await desk.admin.offsets.ends(query.topic), last_id)
    while True:
        try:
            found = await desk.admin.messages.tail(ends, _READ_MAX)
        except MQError as error:
            yield Event("problem", msgspec.json.encode(Trouble(str(error))).decode())
            await asyncio.sleep(_AFTER_PROBLEM_S)
            continue
        taken = [message for message in found.messages if wanted.takes(message)]
        dropped, place = found.skipped + max(0, len(taken) - RATE_MAX), _place(ends)
        if dropped:
            yield Event("dropped", msgspec.json.encode(Dropped(dropped)).decode(), place)
        for message in taken[-RATE_MAX:]:
            row: MessageListRow = list_row_of(message)
            yield Event("message", msgspec.json.encode(row).decode(), place)
        await asyncio.sleep(POLL_S)


def _continued(ends: dict[QueueId, int], last_id: str) -> dict[QueueId, int]:
    try:
        known = read_cursor(last_id)
    except ConfigError:
        known = {}
    return {queue: min(end, known.get(f"{queue.broker}:{queue.number}", end)) for queue, end in ends.items()}


def _place(ends: dict[QueueId, int]) -> str:
    return ",".join(f"{queue.broker}:{queue.number}:{end}" for queue, end in ends.items())
