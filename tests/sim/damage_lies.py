"""Planted mistakes about damaged messages: each passes over one that another member has."""

from __future__ import annotations

from typing import Any, Final

from pyromq.broker.delays.due_messages import DueMessages
from pyromq.store.scrub import Scrub
from tests.sim.lie import Lie, replaced, wrapped
from tests.sim.plan import DAMAGE


def _unheld(plain: Any) -> Any:
    def was_read(self: Scrub, position: int, size: int, reason: str) -> bool:
        plain(self, position, size, reason)
        return False

    return was_read


def _lost(self: DueMessages, damage: Any, size: int) -> None:
    self.gone(damage.position, damage)


DAMAGE_LIES: Final = (
    Lie(
        "damaged delays are passed over",
        "a due message that is damaged here is given up",
        replaced(DueMessages, "damaged", _lost),
        90000,
        kinds=(DAMAGE,),
        is_of_sets=True,
    ),
    Lie(
        "reads pass over damage",
        "a master answers without the damaged message, and hands over afterwards",
        wrapped(Scrub, "_was_read", _unheld),
        90_007,
        kinds=(DAMAGE,),
        is_of_sets=True,
    ),
)
