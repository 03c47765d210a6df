"""Outcomes: what became of one item of a job, and how many of each there are."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """CONFIRMED only if a server said that it did what was asked; how safely, if not as demanded, stands in the text.

    UNCHANGED: nothing was done, because there was nothing to do or because it was refused (then ``is_problem``).
    UNKNOWN: no response came, or one that leaves a doubt. NOT_ATTEMPTED: the job ended before.
    """

    CONFIRMED = "confirmed"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not attempted"


class ItemResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``item`` names what it is about, ``text`` says in words what happened. ``undo`` is what was there before."""

    item: str
    outcome: Outcome
    text: str = ""
    target: str = ""
    is_problem: bool = False
    undo: str = ""
    at_ms: int = 0


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """``refused`` are those of the unchanged ones that were refused."""

    confirmed: int = 0
    unchanged: int = 0
    unknown: int = 0
    not_attempted: int = 0
    refused: int = 0

    @property
    def attempted(self) -> int:
        return self.confirmed + self.unchanged + self.unknown

    @property
    def total(self) -> int:
        return self.attempted + self.not_attempted

    def plus(self, result: ItemResult) -> Counts:
        name = result.outcome.name.lower()
        counted = msgspec.structs.replace(self, **{name: getattr(self, name) + 1})
        if result.outcome is Outcome.UNCHANGED and result.is_problem:
            counted = msgspec.structs.replace(counted, refused=counted.refused + 1)
        return counted

    def text(self) -> str:
        """In words, all four of them: what is not told could be anything."""
        told = f"{self.confirmed} confirmed, {self.unchanged} unchanged"
        told += f" ({self.refused} refused)" if self.refused else ""
        return f"{told}, {self.unknown} unknown, {self.not_attempted} not attempted"
