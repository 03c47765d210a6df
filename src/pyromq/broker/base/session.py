"""Session: what the broker keeps of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyromq.security.identity import Peer

_UNKNOWN: Final = Peer("")


@dataclass(frozen=True, slots=True)
class Session:
    """Set when a client connects: its address as records hold it, and as rules compare it."""

    born_host: bytes
    peer: Peer = _UNKNOWN
