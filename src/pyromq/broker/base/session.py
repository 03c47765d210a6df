"""Session: what the broker keeps of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyromq.security.identity import Peer, Principal

_UNKNOWN: Final = Peer("")


@dataclass(frozen=True, slots=True)
class Session:
    """Set when a client connects: its address as records hold it, and as rules compare it.

    ``principal`` is the user if another front door has verified it; else each request proves who sent it.
    """

    born_host: bytes
    peer: Peer = _UNKNOWN
    principal: Principal | None = None
