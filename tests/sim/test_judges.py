"""What judges allow and what they do not, where a simulation would need luck to show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.sim.history import Delivery, History, Sent
from tests.sim.judges import Verdict, _one_log

QUEUE = ("orders", "a", 0)


def _judged(*sent: Sent, reads: tuple[str, ...], was_set_back: bool) -> list[str]:
    """All are read at one place of one queue."""
    history, verdict = History(), Verdict()
    history.sent = {each.key: each for each in sent}
    history.deliveries = [Delivery(key, "g", "m", 1.0, QUEUE, 7, 0, QUEUE[0]) for key in reads]
    world, faults = SimpleNamespace(history=history), SimpleNamespace(was_ever_set_back=was_set_back)
    _one_log(cast(Any, world), faults, verdict)
    return verdict.failures


def test_an_offset_is_one_message() -> None:
    first, second = (
        Sent(key, QUEUE[0], "plain", 0.0, status="ok", queue=QUEUE, offset=at) for key, at in (("x", 7), ("y", 8))
    )
    assert _judged(first, second, reads=("x", "x"), was_set_back=False) == []
    assert len(_judged(first, second, reads=("x", "y"), was_set_back=False)) == 1
    assert len(_judged(first, second, reads=("x", "y"), was_set_back=True)) == 1, "its receipt named another place"


def test_copies_of_prepared_messages_have_no_promised_place() -> None:
    """Seed 60050: one of two members had made them alone, when the lease store was set back to the other's time."""
    prepared = [Sent(key, QUEUE[0], "transactions", 0.0, status="ok", outcome="commit") for key in ("x", "y")]
    assert _judged(*prepared, reads=("x", "y"), was_set_back=True) == []
    assert len(_judged(*prepared, reads=("x", "y"), was_set_back=False)) == 1
