"""Body and properties of a record: the compiled core reads what Python reads, also of records that are not sound."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.wire.fast.record_parts import pure_body, pure_property, stored_body, stored_property
from tests.running.seeds import seed_of
from tests.unit.wire.odd_records import NAMES, damaged, odd_record

ROUNDS = 4_000


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or the type of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


@pytest.mark.seeded
@pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
def test_both_read_the_same() -> None:
    rng = Random(seed_of(2))
    for offset in range(ROUNDS):
        record = odd_record(rng, offset, oddness=rng.choice((0, 1)))
        if rng.random() < 0.3:
            record = damaged(rng, record)
        flag = (
            int.from_bytes(record[36:40], "big", signed=True) if rng.random() < 0.9 else rng.choice((0, 0x30, 1 << 40))
        )
        assert outcome(stored_body, record, flag) == outcome(pure_body, record, flag)
        for name in (*rng.sample(NAMES, 3), b"a\x02TAGS", b"TAGS\x01red"):
            assert outcome(stored_property, record, flag, name) == outcome(pure_property, record, flag, name)


def test_values_of_a_record() -> None:
    record = odd_record(Random(3), 0, oddness=0)
    assert stored_body(record, 0) == pure_body(record, 0)
    assert stored_property(record, 0, b"nothing") is None
