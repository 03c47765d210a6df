"""Sending from executors without Spark: who sends, in how many parts, and what a part makes of its rows."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Outgoing, redriven_id
from pyromq.pipeline.jobs.resending.executors import FEW, PartOutcome, PartTask, parts_of, send_from_executors
from pyromq.pipeline.jobs.resending.redrive import RedrivenLetter
from pyromq.pipeline.jobs.resending.replay import ReplayedMessage, replayed_id
from tests.unit.pipeline.jobs.resending.rows import row


def spark(**settings: str) -> Any:
    context = SimpleNamespace(defaultParallelism=4, getConf=lambda: settings)
    return SimpleNamespace(sparkContext=context, _jsparkSession=object())


@pytest.mark.parametrize(
    ("count", "rate", "settings", "is_sent_there"),
    [
        (FEW, None, {}, True),
        (FEW - 1, None, {}, False),
        (1_000_000, 5_000.0, {}, False),
        (1_000_000, 20_000.0, {}, True),
        (1_000_000, None, {"spark.speculation": "true"}, False),
    ],
)
def test_executors_send_much_and_fast(
    count: int, rate: float | None, settings: dict[str, str], is_sent_there: bool
) -> None:
    assert send_from_executors(spark(**settings), count, rate) is is_sent_there
    assert not send_from_executors(None, count, rate)


def test_parts_grow_with_messages_but_not_where_a_rate_is_shared() -> None:
    assert (parts_of(spark(), 5_000, None), parts_of(spark(), 1_000_000, None)) == (4, 50)
    assert parts_of(spark(), 1_000_000, 20_000.0) == 4


def task(sent: frozenset[str] | None, **more: Any) -> PartTask:
    given = {"nameserver": "n:1", "options": {}, "item_of": ReplayedMessage("to", "run", True), "rate": None}
    return PartTask(**given, sent=sent, **more)


def test_what_was_found_in_bulk_is_not_looked_for_again() -> None:
    known = replayed_id("run", "O")
    there = task(frozenset([known]))._item(row())
    assert isinstance(there, ItemOutcome) and there.status is ItemStatus.SENT_BEFORE
    fresh, unknown = task(frozenset())._item(row()), task(None)._item(row())
    assert isinstance(fresh, Outgoing) and not fresh.is_checked
    assert isinstance(unknown, Outgoing) and unknown.is_checked, "nobody has looked: each is looked for"


def test_a_part_counts_every_outcome_and_keeps_those_that_are_asked_for() -> None:
    ended = [ItemOutcome(offset_message_id=f"{number}", status=status) for number, status in enumerate(
        [ItemStatus.SENT, ItemStatus.FAILED, ItemStatus.SENT, ItemStatus.FAILED, ItemStatus.UNKNOWN])]  # fmt: skip
    some = PartOutcome.of(ended, keeps=frozenset([ItemStatus.FAILED]), keeps_max=1)
    assert [each.offset_message_id for each in some.outcomes] == ["1"]
    whole = PartOutcome.joined([some, PartOutcome.of(ended)])
    assert (whole.counts[ItemStatus.SENT], whole.counts[ItemStatus.FAILED], len(whole.outcomes)) == (4, 4, 6)


def test_only_letters_that_others_decide_travel() -> None:
    originals = OriginalMessages()
    for place, message_id, redriven_from in (
        ("A", "1", ""),
        ("B", "1", ""),
        ("C", "2", ""),
        ("D", "3", ""),
        ("E", "4", "D"),
    ):
        originals.add(place, topic="orders", message_id=message_id, redriven_from=redriven_from)
    travelled: OriginalMessages = pickle.loads(pickle.dumps(originals.related()))
    assert len(travelled) == 3, "A and B are one message, the copy of D died"
    for place in "ABCDE":
        source = ItemOutcome(offset_message_id=place, status=ItemStatus.WOULD_SEND)
        assert travelled.decided(source) == originals.decided(source)
        assert travelled.ids(place) == originals.ids(place)


def test_what_makes_messages_can_travel() -> None:
    for made in (ReplayedMessage("to", "run", False), RedrivenLetter("g", OriginalMessages(), None, False)):
        found = pickle.loads(pickle.dumps(made))(row())
        assert isinstance(found, Outgoing) and found.topic in ("to", "orders")
    assert found.message_id == redriven_id("O")
