"""Planted mistakes of access control: what operators were told of users and rights is not so."""

from __future__ import annotations

from typing import Any, Final

from pyromq.broker.dispatching import dispatcher, plan
from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.security.guard import Guard
from pyromq.security.requests import CHANGING_CODES
from pyromq.security.user_store import UserStore
from tests.sim.lie import Lie, replaced
from tests.sim.plan import USERS


def _never_forgotten(self: Guard) -> Any:
    """Decisions that were made under other rules count for ever."""
    return self.book.rules


def _in_memory_alone(self: UserStore, own: Any) -> None:
    self._adopt(own)


async def _not_taken_over(self: MetadataSync) -> None:
    self.has_masters_users = True


def _lie(name: str, says: str, plant: Any, seed: int, **more: Any) -> Lie:
    return Lie(name, says, plant, seed, kinds=(USERS,), **more)


RIGHT_LIES: Final = (
    _lie(
        "rights before replicas",
        "a change of users is confirmed before the replicas have it",
        replaced(dispatcher, "ANSWERED_AFTER_REPLICATION", plan.ANSWERED_AFTER_REPLICATION - CHANGING_CODES),
        70_000,
        is_of_sets=True,
    ),
    _lie(
        "rights outlive their end",
        "what a user was allowed to do once it may do for ever",
        replaced(Guard, "_current", _never_forgotten),
        70_000,
    ),
    _lie(
        "users are not saved",
        "a change of users is confirmed, and lives in memory alone",
        replaced(UserStore, "_keep", _in_memory_alone),
        70_000,
    ),
    _lie(
        "users stay behind",
        "a replica says that it has its master's tables, and has the users of its own",
        replaced(MetadataSync, "_take_users", _not_taken_over),
        70_000,
        is_of_sets=True,
    ),
)
