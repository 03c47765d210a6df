"""Which connection a client id stands for when several claim it."""

from __future__ import annotations

from pyromq.broker.state.client_ids import IDS_MAX, PRODUCERS, SILENCE_MS, ClientIds
from pyromq.testing import ManualClock

KEY = (PRODUCERS, "10.0.0.5@1")


class Rig:
    """Connections are plain texts."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ids: ClientIds[str] = ClientIds(self.clock)

    def claim(self, connection: str, user: str | None = None) -> None:
        self.ids.claim(KEY, connection, user)


def test_without_users_the_first_connection_keeps_the_id_until_it_is_gone() -> None:
    rig = Rig()
    rig.claim("victim")
    for _ in range(100):
        rig.claim("thief")
    assert rig.ids.holder(KEY) == "victim"
    rig.ids.release(KEY, "victim")
    assert rig.ids.holder(KEY) == "thief"
    rig.ids.release(KEY, "thief")
    assert rig.ids.holder(KEY) is None and len(rig.ids) == 0


def test_one_that_is_silent_gives_way_and_comes_back_with_its_next_heartbeat() -> None:
    rig = Rig()
    rig.claim("old")
    rig.clock.advance_ms(SILENCE_MS)
    rig.claim("new")
    assert rig.ids.holder(KEY) == "old", "not silent yet"
    rig.clock.advance_ms(1)
    assert rig.ids.holder(KEY) == "new"
    rig.clock.advance_ms(SILENCE_MS + 1)
    assert rig.ids.holder(KEY) == "old", "all are silent: nobody has a better claim"


def test_one_that_does_not_answer_is_behind_the_others() -> None:
    rig = Rig()
    rig.claim("half open")
    rig.claim("reconnected")
    rig.ids.failed(KEY, "half open")
    assert rig.ids.holder(KEY) == "reconnected"
    rig.ids.failed(KEY, "nobody")
    assert rig.ids.holder(KEY) == "reconnected"


def test_a_user_takes_its_id_over_with_a_new_connection_and_keeps_it() -> None:
    rig = Rig()
    rig.claim("first", "alice")
    rig.claim("second", "alice")
    assert rig.ids.holder(KEY) == "second"
    rig.claim("first", "alice")
    assert rig.ids.holder(KEY) == "second", "one more heartbeat of the old one takes nothing back"


def test_an_id_is_foreign_to_other_users_while_its_own_is_heard() -> None:
    rig = Rig()
    rig.claim("victim", "alice")
    assert rig.ids.is_foreign(KEY, "mallory") and not rig.ids.is_foreign(KEY, "alice")
    assert not rig.ids.is_foreign(("readers", KEY[1]), "mallory"), "in a group it is another id"
    rig.clock.advance_ms(SILENCE_MS + 1)
    assert not rig.ids.is_foreign(KEY, "mallory")


def test_what_one_connection_claims_is_bounded_and_goes_with_it() -> None:
    rig = Rig()
    for number in range(10 * IDS_MAX):
        rig.ids.claim((PRODUCERS, f"c{number}"), "greedy", None)
    assert len(rig.ids) == IDS_MAX
    rig.ids.disconnected("greedy")
    assert len(rig.ids) == 0
