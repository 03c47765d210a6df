"""Seats: the connections that a small HTTP server has at once, and who goes when there is no room for the next.

    waiting    nothing whole was asked for yet, or again: idle, or a request that comes drop by drop
    served     a request is being answered: briefly (a probe), or for as long as a slow reader takes

A newcomer takes the seat of the one that has waited longest, of its own address first if that has its share already.
Half of the seats are for answers that may take long, three quarters for one address: so among those of any address some
wait, or are served briefly, and a probe gets in whoever else is there.

Between a connection and the bytes of its request lies a moment, and many may come in it: for its first quarter of a
second a connection is fresh, does not count and is not cut, unless hundreds are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ADDRESS_SHARE: Final = 0.75  # of all seats
LONG_SHARE: Final = 0.5
FRESH_S: Final = 0.25
FRESH_MAX: Final = 256


class Seat:
    """One connection. ``since_s`` is when it came, or began to wait again."""

    __slots__ = ("cut", "has_asked", "host", "is_long", "since_s", "waits")

    def __init__(self, host: str, cut: Callable[[], object], since_s: float) -> None:
        self.host = host
        self.cut = cut
        self.since_s = since_s
        self.waits = True
        self.has_asked = False
        self.is_long = False

    def is_fresh(self, now_s: float) -> bool:
        return not self.has_asked and self.since_s > now_s - FRESH_S


class Seats:
    """By the clock that is handed in; of one loop."""

    def __init__(self, seats_max: int, now_s: Callable[[], float]) -> None:
        self._max = seats_max
        self._of_address_max = max(1, int(seats_max * ADDRESS_SHARE))
        self._long_max = max(1, int(seats_max * LONG_SHARE))
        self._now_s = now_s
        self._taken: dict[Seat, None] = {}
        self.refused = 0  # newcomers
        self.cut = 0  # that waited

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, host: str, cut: Callable[[], object]) -> Seat | None:
        """A seat for a newcomer; None when all are served. ``cut`` ends its connection, now or for a later newcomer."""
        now_s = self._now_s()
        settled = [seat for seat in self._taken if not seat.is_fresh(now_s)]
        is_share_kept = self._make_room([seat for seat in settled if seat.host == host], self._of_address_max)
        if not is_share_kept or not self._make_room([seat for seat in settled if seat in self._taken], self._max):
            self.refused += 1
            cut()
            return None
        fresh = [seat for seat in self._taken if seat.is_fresh(now_s)]
        if len(fresh) >= FRESH_MAX:
            own = [seat for seat in fresh if seat.host == host] or fresh
            self._make_room(own, len(own))
        seat = Seat(host, cut, now_s)
        self._taken[seat] = None
        return seat

    def _make_room(self, seats: list[Seat], most: int) -> bool:
        """Whether fewer than ``most`` are left, after those that have waited longest are cut."""
        surplus = len(seats) - most + 1
        waiting = sorted((seat for seat in seats if seat.waits), key=lambda seat: seat.since_s)
        if surplus > len(waiting):
            return False
        for seat in waiting[: max(surplus, 0)]:
            self.cut += 1
            self.leave(seat)
            seat.cut()
        return True

    def serve(self, seat: Seat, *, is_brief: bool) -> bool:
        """A whole request is there. False: too many others are served something long, ask it to come back."""
        if not is_brief and sum(each.is_long for each in self._taken) >= self._long_max:
            return False
        seat.waits, seat.has_asked, seat.is_long = False, True, not is_brief
        return True

    def wait(self, seat: Seat) -> None:
        """It was answered, and may ask again."""
        seat.waits, seat.since_s, seat.is_long = True, self._now_s(), False

    def leave(self, seat: Seat) -> None:
        self._taken.pop(seat, None)
