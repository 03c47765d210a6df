"""Limits and choices of connections, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyromq.wire.frame import FRAME_BYTES_MAX, SerializeType


class TlsMode(Enum):
    """How a server uses TLS, in RocketMQ's words."""

    DISABLED = "disabled"  # a TLS client is closed
    PERMISSIVE = "permissive"  # plain and TLS on the same port
    ENFORCING = "enforcing"  # a plain client is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Every bound of one connection, and of the connections of one server together."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    in_flight_max: int = 65_536  # requests of ours that wait for a response
    half_read_bytes_max: int = 256 << 20  # incomplete frames of all connections of a server; the largest is cut first
    unsent_bytes_high: int = 1 << 20  # above it the connection is congested
    unsent_bytes_max: int = 64 << 20  # above it the peer does not read, and is cut off
    idle_ms: int = 120_000  # closed when nothing was read or written for this long; 0: never
    half_open_ms: int = 5_000  # dropped when a request timed out and nothing came for this long; 0: never
    serialize_type: SerializeType = SerializeType.JSON  # of the requests that we send


DEFAULT_SETTINGS: Final = ConnectionSettings()
