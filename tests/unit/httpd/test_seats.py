"""Who goes when all connections of an HTTP server are taken."""

from __future__ import annotations

from functools import partial

from pyromq.httpd.seats import FRESH_MAX, FRESH_S, Seat, Seats


class Room:
    def __init__(self, seats_max: int) -> None:
        self.now_s = 0.0
        self.gone: list[str] = []
        self.seats = Seats(seats_max, lambda: self.now_s)

    def come(self, name: str, host: str = "") -> Seat | None:
        self.now_s += 1
        return self.seats.take(host or name, lambda: self.gone.append(name))


def test_the_one_that_has_waited_longest_goes_first() -> None:
    room = Room(4)
    first, second = room.come("a"), room.come("b")
    assert first is not None and second is not None
    room.come("c"), room.come("d")
    assert room.seats.serve(first, is_brief=True) and room.seats.serve(second, is_brief=True)
    room.now_s += 1
    room.seats.wait(first)
    assert [room.come(name) is not None for name in "efgh"] == [True] * 4
    assert room.gone == ["c", "d", "a", "e"], "who is served stays, who waits again begins anew"
    assert len(room.seats) == 4 and room.seats.cut == 4


def test_a_flood_of_slow_ones_never_keeps_a_newcomer_out() -> None:
    room = Room(8)
    for number in range(1_000):
        room.come(f"slow-{number}", "10.0.0.66")
        probe = room.come("probe", "10.0.0.1" if number % 2 else "10.0.0.66")
        assert probe is not None and room.seats.serve(probe, is_brief=True)
        room.seats.leave(probe)
    assert len(room.seats) <= 8 and "probe" not in room.gone


def test_who_came_a_moment_ago_keeps_its_seat_until_its_request_can_be_there() -> None:
    room = Room(8)
    probe = room.come("probe", "one")
    for number in range(FRESH_MAX - 1):
        room.seats.take("one", partial(room.gone.append, f"burst-{number}"))
    assert probe is not None and not room.gone
    room.seats.take("one", partial(room.gone.append, "one more"))
    assert room.gone == ["probe"], "hundreds at once are not waited for"
    room.now_s += FRESH_S
    room.seats.take("one", partial(room.gone.append, "later"))
    assert len(room.seats) == 6, "once their moment is over they keep to the share of their address"


def test_one_address_has_its_share_and_takes_from_itself_beyond_it() -> None:
    room = Room(8)
    others = [room.come(name) for name in ("x", "y")]
    for number in range(20):
        room.come(f"greedy-{number}", "greedy")
    assert all(seat is not None for seat in others)
    assert len(room.seats) == 8 and not {"x", "y"} & set(room.gone)


def test_long_answers_leave_room_for_probes_and_when_all_are_served_the_newcomer_is_refused() -> None:
    room = Room(8)
    seats = [seat for number in range(5) if (seat := room.come(f"reader-{number}", "one")) is not None]
    assert [room.seats.serve(seat, is_brief=False) for seat in seats] == [True] * 4 + [False], "it shall come back"
    for number in range(50):
        probe = room.come(f"probe-{number}", "one")
        assert probe is not None and room.seats.serve(probe, is_brief=True)
        room.seats.leave(probe)
    assert not [name for name in room.gone if name.startswith("probe")]
    for number in range(20):
        other = room.come(f"other-{number}")
        assert other is None or room.seats.serve(other, is_brief=True)
    assert room.seats.refused == 16 and len(room.seats) == 8, "all are served, one that waited has gone"
