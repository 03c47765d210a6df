"""A planted mistake: what it is called, what it does, and which plans can show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.sim.plan import Plan

Planting = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Lie:
    """``kinds`` of faults, ``clients`` and ``store`` are what a plan needs for the lie to show; others are skipped."""

    name: str
    says: str
    plant: Planting
    seed: int  # the first one that finds it, when it was last looked for
    kinds: tuple[str, ...] = ()  # one of them
    clients: tuple[str, ...] = ()  # one of them
    store: str = ""
    is_of_sets: bool = False
    needs_failures: bool = False  # of listeners
    needs_retention: bool = False
    without: str = ""  # faults that the plan of its seed has got since then

    def may_show(self, plan: Plan) -> bool:
        happens = {fault.kind for fault in plan.faults}
        works = {client.kind for client in plan.clients}
        return (
            (not self.kinds or bool(happens & set(self.kinds)))
            and (not self.clients or bool(works & set(self.clients)))
            and (not self.store or self.store == plan.lease_store)
            and (not self.is_of_sets or plan.sets["a"] > 1)
            and (not self.needs_failures or plan.fail_percent > 0)
            and (not self.needs_retention or plan.keeps_ms > 0)
        )


def replaced(target: Any, name: str, value: Any) -> Planting:
    return lambda: patch.object(target, name, value)


def wrapped(target: Any, name: str, wrap: Callable[[Any], Any]) -> Planting:
    """``wrap`` is given what was there before."""
    return lambda: patch.object(target, name, wrap(target.__dict__[name]))


def both(first: Planting, second: Planting) -> Planting:
    """Two places that have to be wrong together."""

    @contextmanager
    def plant() -> Iterator[None]:
        with first(), second():
            yield

    return plant
