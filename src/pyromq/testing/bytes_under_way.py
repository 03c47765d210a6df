"""Bytes between two sockets of one loop: written by one end, not read by the other yet.

The system delivers them when it likes, so a selector that finds nothing to read does not prove that nothing comes.
Both ends count what they send and receive; where the counts differ, or one end of a connection is there alone, or a
socket waits to become writable, something is under way. A peer that does not read on purpose, or lives elsewhere, is
waited for once, and then no more until something changes.
"""

from __future__ import annotations

import asyncio
from selectors import EVENT_WRITE, BaseSelector
from typing import Any

from pyromq.net import Connection

State = frozenset[tuple[Any, ...]]


class BytesUnderWay:
    """Looks at the transports of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, selector: BaseSelector) -> None:
        self._transports: Any = getattr(loop, "_transports", {})
        self._selector = selector
        self._given_up: State = frozenset()

    def any(self) -> bool:
        found = self._look()
        return bool(found) and not found <= self._given_up

    def give_up(self) -> None:
        """Nothing came in a while: what is under way now does not count until it changes."""
        self._given_up = self._look()

    def _look(self) -> State:
        ends: dict[tuple[Any, Any], Connection] = {}
        for transport in list(self._transports.values()):
            connection = transport.get_protocol()
            if isinstance(connection, Connection):
                here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
                ends[here, there] = connection
        found: set[tuple[Any, ...]] = set()
        for (here, there), connection in ends.items():
            other = ends.get((there, here))
            if other is None:
                found.add((here, there))
            elif connection.bytes_out != other.bytes_in:
                found.add((here, there, connection.bytes_out, other.bytes_in))
        for key in self._selector.get_map().values():
            if key.events & EVENT_WRITE:
                found.add((key.fd, "to be written"))
        return frozenset(found)
