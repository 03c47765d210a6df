"""Seats: the connections that a small HTTP server has at once, and who goes when there is no room for the next.

    waiting    nothing whole was asked for yet, or again: idle, or a request that comes drop by drop
    served     a request is being answered: briefly (a probe), or for as long as a slow reader takes

A newcomer takes the seat of the one that has waited longest, of its own address first if that has its share already.
Half of the seats are for answers that may take long, three quarters for one address: so among those of any address some
wait, or are served briefly, and a probe gets in whoever else is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ADDRESS_SHARE: Final = 0.75  # of all seats
LONG_SHARE: Final = 0.5


class Seat:
    """One connection. ``since_s`` is when it began to wait, None while it is served."""

    __slots__ = ("cut", "host", "is_long", "since_s")

    def __init__(self, host: str, cut: Callable[[], object], since_s: float) -> None:
        self.host = host
        self.cut = cut
        self.since_s: float | None = since_s
        self.is_long = False


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
        own = [seat for seat in self._taken if seat.host == host]
        has_room = len(own) < self._of_address_max or self._free_one_of(own)
        if not has_room or (len(self._taken) >= self._max and not self._free_one_of(list(self._taken))):
            self.refused += 1
            cut()
            return None
        seat = Seat(host, cut, self._now_s())
        self._taken[seat] = None
        return seat

    def _free_one_of(self, seats: list[Seat]) -> bool:
        waiting = [(seat.since_s, number) for number, seat in enumerate(seats) if seat.since_s is not None]
        if not waiting:
            return False
        longest = seats[min(waiting)[1]]
        self.cut += 1
        self.leave(longest)
        longest.cut()
        return True

    def serve(self, seat: Seat, *, is_brief: bool) -> bool:
        """A whole request is there. False: too many others are served something long, ask it to come back."""
        if not is_brief and sum(each.is_long for each in self._taken) >= self._long_max:
            return False
        seat.since_s, seat.is_long = None, not is_brief
        return True

    def wait(self, seat: Seat) -> None:
        """It was answered, and may ask again."""
        seat.since_s, seat.is_long = self._now_s(), False

    def leave(self, seat: Seat) -> None:
        self._taken.pop(seat, None)
