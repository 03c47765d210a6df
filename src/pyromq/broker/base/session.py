"""Session: what the broker keeps of a connection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """Set when a client connects: its address as records hold it."""

    born_host: bytes
