"""What judges allow and what they do not, where a simulation would need luck to show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.sim.history import Delivery, History, Sent
from tests.sim.judges import Verdict, _one_log
from tests.sim.operators_view import _whole_copy

QUEUE = ("orders", "a", 0)


def _judged(*sent: Sent, reads: tuple[str, ...], was_set_back: bool, redriven: str = "") -> list[str]:
    """All are read at one place of one queue."""
    history, verdict = History(redriven={redriven}), Verdict()
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


def test_dead_letters_that_were_sent_again_have_no_promised_place() -> None:
    """Seed 200187: one of two members went on alone and got them, and the other one gave their place to others."""
    first, second = (
        Sent(key, QUEUE[0], "plain", 0.0, status="ok", queue=QUEUE, offset=at) for key, at in (("x", 7), ("y", 8))
    )
    assert _judged(first, second, reads=("x", "y"), was_set_back=True, redriven="y") == []
    assert len(_judged(first, second, reads=("x", "y"), was_set_back=False, redriven="y")) == 1


def test_copies_of_prepared_messages_have_no_promised_place() -> None:
    """Seed 60050: one of two members had made them alone, when the lease store was set back to the other's time."""
    prepared = [Sent(key, QUEUE[0], "transactions", 0.0, status="ok", outcome="commit") for key in ("x", "y")]
    assert _judged(*prepared, reads=("x", "y"), was_set_back=True) == []
    assert len(_judged(*prepared, reads=("x", "y"), was_set_back=False)) == 1


def test_letters_are_counted_in_a_log_that_its_disk_has_not_changed() -> None:
    """Seed 110028: a bit had flipped in a message that nobody read any more, and its member was made master."""
    master, other, gone = (
        SimpleNamespace(set_name="a", is_damaged=False, broker=SimpleNamespace(store=store)) for store in "mog"
    )
    gone.broker = None
    cluster = cast(Any, SimpleNamespace(of_set=lambda name: [gone, other, master]))
    assert str(_whole_copy(cluster, cast(Any, master))) == "m"
    master.is_damaged = True
    assert str(_whole_copy(cluster, cast(Any, master))) == "o"
    other.is_damaged = True
    assert str(_whole_copy(cluster, cast(Any, master))) == "m", "what was mended is whole, and nobody has said so"
