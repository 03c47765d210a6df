"""One truth: messages of a response are the same with the compiled core and without, and so are refusals of damage."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pyromq.client.core import received_message
from pyromq.client.core.received_message import PullFacts, ReceivedMessage, split_messages
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.errors import CorruptRecordError
from tests.running.seeds import seed_of
from tests.unit.wire.odd_records import odd_records

ROUNDS = 2_500
FACTS = PullFacts(min_offset=1, max_offset=99, taken_ms={}, wall_minus_monotonic_ms=0)

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")


def fields(message: ReceivedMessage) -> list[Any]:
    return [getattr(message, name) for name in message.__struct_fields__]


def outcome(data: bytes, pull: PullFacts | None) -> Any:
    try:
        return [fields(message) for message in split_messages(data, "broker-a", namespace="ns", pull=pull)]
    except CorruptRecordError as error:
        return str(error)


@pytest.mark.seeded
@needs_core
def test_both_find_the_same_messages_or_refuse_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed_of(5))
    responses = [odd_records(rng) for _ in range(ROUNDS)]
    with_core = [outcome(data, FACTS) for data in responses]
    monkeypatch.setattr(received_message, "core", None)
    assert with_core == [outcome(data, FACTS) for data in responses]
    refused = sum(isinstance(each, str) for each in with_core)
    assert 300 < refused < ROUNDS - 1_000  # of both there were many


@pytest.mark.seeded
@needs_core
def test_every_cut_of_a_response_is_refused_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed_of(6))
    data = next(data for data in iter(lambda: odd_records(rng), None) if 200 < len(data) < 2_000)
    cuts = [data[:end] for end in range(len(data))]
    with_core = [outcome(cut, None) for cut in cuts]
    monkeypatch.setattr(received_message, "core", None)
    assert with_core == [outcome(cut, None) for cut in cuts]


@needs_core
def test_views_are_left_to_python() -> None:
    data = next(data for data in iter(lambda: odd_records(Random(7)), None) if isinstance(outcome(data, None), list))
    messages = split_messages(memoryview(data), "broker-a")  # type: ignore[arg-type]
    assert [bytes(message.record) for message in messages] == [m.record for m in split_messages(data, "broker-a")]
