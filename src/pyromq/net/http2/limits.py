"""Limits of one HTTP/2 connection.

The attacks that HTTP/2 makes possible, and what ends them here:

    rapid reset, resets provoked     each spends of a budget that finished calls and time refill
    floods of SETTINGS, PING,        likewise, one budget for each kind
    PRIORITY, empty DATA, WINDOW_UPDATE
    CONTINUATION floods, header bombs  a block has so many bytes and frames at most, a list so many bytes decoded
    window exhaustion, slow readers  what waits for a window is bounded in bytes and time; nothing is read meanwhile;
                                     what is made and written for one connection in a loop iteration is bounded, too
    streams without end              so many at once; their header lists and bytes of incomplete messages are counted,
                                     of all connections too
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """Bounds of one connection."""

    streams_max: int = 10_000  # at once: parked receives of many consumers may share a connection
    message_bytes_max: int = 5 << 20
    half_read_bytes_max: int = 32 << 20  # incomplete messages and header lists of open calls, together
    stream_window: int = 1 << 20
    connection_window: int = 4 << 20
    unsent_bytes_max: int = 64 << 20  # beyond it the peer does not read, and is cut off
    continuations_max: int = 16  # of one header block
    calls_per_turn: int = 64  # then others have their turn
    bytes_per_turn: int = 1 << 20  # of responses made and written; as much as a turn ends with, and one response
    resets_remembered: int = 1_000
