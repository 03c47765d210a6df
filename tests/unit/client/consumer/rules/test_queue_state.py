"""Every event in every state of a queue: the tables are what runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product
from typing import Any

import pytest

from pyromq.client.consumer.rules.queue_state import (
    COUNTS_VERDICTS,
    HANDS_OUT,
    LOCK,
    OWNERSHIP,
    RUN,
    LockEvent,
    LockState,
    Ownership,
    OwnershipEvent,
    RunEvent,
    RunState,
    after,
)

Table = Mapping[Any, Mapping[Any, Any]]

MACHINES: list[tuple[Table, type[Enum], type[Enum], Enum]] = [
    (OWNERSHIP, Ownership, OwnershipEvent, Ownership.OWNED),
    (LOCK, LockState, LockEvent, LockState.FREE),
    (RUN, RunState, RunEvent, RunState.IDLE),
]
LEGAL = {
    "OWNED revoked": "REVOKED", "OWNED abandoned": "ABANDONED", "OWNED released": "RELEASED",
    "REVOKED revoked": "REVOKED", "REVOKED kept": "OWNED", "REVOKED abandoned": "ABANDONED",
    "REVOKED released": "RELEASED",
    "ABANDONED revoked": "ABANDONED", "ABANDONED abandoned": "ABANDONED", "ABANDONED released": "RELEASED",
    "FREE granted": "HELD", "HELD granted": "HELD", "HELD lost": "LOST", "LOST lost": "LOST",
    "IDLE begun": "RUNNING", "RUNNING failed": "RESTING", "RUNNING ended": "IDLE", "RESTING rested": "IDLE",
}  # fmt: skip
"""Written down a second time, as a check against a slip in the tables."""


@pytest.mark.parametrize(
    ("table", "state", "event"),
    [(table, state, event) for table, states, events, _ in MACHINES for state, event in product(states, events)],
)
def test_every_event_in_every_state(table: Table, state: Enum, event: Enum) -> None:
    expected = LEGAL.get(f"{state.name} {event.name.lower()}")
    if expected is None:
        with pytest.raises(AssertionError, match=rf"{event.name} in state {state.name}"):
            after(table, state, event)
    else:
        assert after(table, state, event).name == expected


@pytest.mark.parametrize(("table", "states", "events", "start"), MACHINES)
def test_every_state_is_in_its_table_and_can_be_reached(
    table: Table, states: type[Enum], events: type[Enum], start: Enum
) -> None:
    assert set(table) == set(states)
    assert {event for row in table.values() for event in row} == set(events), "no event without a use"
    reached = {start}
    while more := {follows for state in reached for follows in table[state].values()} - reached:
        reached |= more
    assert reached == set(states)


def test_whatever_happens_a_queue_can_be_released_and_stays_so() -> None:
    for state in Ownership:
        if state is not Ownership.RELEASED:
            assert after(OWNERSHIP, state, OwnershipEvent.RELEASED) is Ownership.RELEASED
    assert not OWNERSHIP[Ownership.RELEASED]


def test_what_is_handed_out_also_counts() -> None:
    assert HANDS_OUT < COUNTS_VERDICTS
    assert not COUNTS_VERDICTS & {Ownership.ABANDONED, Ownership.RELEASED}
