"""Renewals: messages of push consumers stay invisible for as long as their client is there and works on them.

Push consumers say no invisible time (``auto_renew``): a message is handed out for a minute, and changed to later before
that is over. Each change makes a new receipt; the client knows the first one, and is answered as if that still counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_MS: Final = 60_000
BEFORE_MS: Final = 15_000  # so long before the end a message is renewed
STEPS_MS: Final = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
LONGEST_MS: Final = 3 * 3_600_000  # then the message is somebody else's
KEPT_MAX: Final = 10_000  # of one client; more than it caches


@dataclass(slots=True)
class Renewal:
    group: str
    topic: str
    handle: str  # the newest
    until_ms: int
    since_ms: int
    times: int = 0
    is_under_way: bool = False

    @property
    def next_ms(self) -> int:
        return STEPS_MS[min(self.times, len(STEPS_MS) - 1)]


class Renewals:
    """Those of one client, by the handle that it knows."""

    def __init__(self) -> None:
        self._by_handle: dict[str, Renewal] = {}

    def __len__(self) -> int:
        return len(self._by_handle)

    def keep(self, group: str, topic: str, handle: str, now_ms: int) -> None:
        """Renew this one until it is settled. Beyond the bound a message comes again after its minute."""
        if len(self._by_handle) < KEPT_MAX:
            self._by_handle[handle] = Renewal(group, topic, handle, now_ms + FIRST_MS, now_ms)

    def current(self, handle: str) -> str:
        """The receipt that counts for the one that the client has."""
        found = self._by_handle.get(handle)
        return found.handle if found is not None else handle

    def drop(self, handle: str) -> None:
        """It is settled, or its client has given it another invisible time."""
        self._by_handle.pop(handle, None)

    def due(self, now_ms: int) -> list[tuple[str, Renewal]]:
        """What has to be renewed now; what was renewed for too long is forgotten."""
        found = []
        for handle, renewal in list(self._by_handle.items()):
            if now_ms - renewal.since_ms > LONGEST_MS or renewal.until_ms < now_ms:
                del self._by_handle[handle]
            elif renewal.until_ms - now_ms <= BEFORE_MS and not renewal.is_under_way:
                found.append((handle, renewal))
        return found

    def take_all(self) -> list[Renewal]:
        """The client is gone."""
        found = list(self._by_handle.values())
        self._by_handle.clear()
        return found
