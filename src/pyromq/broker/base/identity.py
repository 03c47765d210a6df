"""Under which address a broker is known: to clients as text, in records and message ids as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from os import getpid

from pyromq.clock import Clock
from pyromq.net.address import Address
from pyromq.wire.message_id import Host, UniqueIdGenerator


@dataclass(frozen=True, slots=True)
class Identity:
    """Fixed once the broker listens: the port is part of it."""

    address: Address  # what clients and name servers are told
    host: Host  # the same as records and message ids hold it

    def unique_keys(self, clock: Clock) -> Callable[[], str]:
        """Ids for messages whose senders gave them none."""
        generator = UniqueIdGenerator(self.host.ip, getpid())

        def new() -> str:
            now_ms = clock.now_ms()
            month = datetime.fromtimestamp(now_ms / 1000).astimezone().replace(day=1, hour=0, minute=0, second=0)
            return generator.next(now_ms, int(month.timestamp()) * 1000)

        return new
